"""What the published rules of SwitchML and ATP let a host do to another job with forged packets.

The pages on SwitchML and ATP say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from foundation.protocol import addressing
from foundation.protocol.frames import UdpEndpoint, UdpFrame, build
from hotline_allreduce.atp import design as atp
from hotline_allreduce.atp.packet import ACK, RESEND, AtpPacket
from hotline_allreduce.atp.packet import VALUES as ATP_VALUES
from hotline_allreduce.switchml import design as switchml
from hotline_allreduce.switchml.packet import VALUES as SWITCHML_VALUES
from hotline_allreduce.switchml.packet import SwitchMLPacket
from tests.unit.programs.test_isolation import ATTACKER, HOSTS, SECRET, VICTIM, ports_of, switch_of

TRIES = 100

HARM = ("cells", "values")
"""What a forged packet does: it changes the victim's cells, or takes its values to others' ports."""
Forge = Callable[[Random], tuple[int, bytes]]


def harm(switch: Callable[[], Any], registers: tuple[str, ...], count: int, forge: Forge) -> list[int]:
    """Return how many of `TRIES` forged packets do each `HARM`; each meets the state of a new switch."""
    random, found, pipeline = Random(1), Counter[str](), switch()
    new = pipeline.memory_image()

    def cells() -> list[list[int]]:
        return [pipeline.cells.read_register(f"HotlineIngress.{name}", 0, count) for name in registers]

    before = cells()
    for _ in range(TRIES):
        pipeline.load_image(new)
        outputs = pipeline.process(*forge(random), 0, 0)
        found["cells"] += cells() != before
        others = [output for output in outputs if output.port not in ports_of(VICTIM)]
        found["values"] += any(SECRET_WORDS in output.frame for output in others)
    return [found[each] for each in HARM]


def end_of_worker(number: int, job: int) -> UdpEndpoint:
    host = addressing.worker(number)
    return UdpEndpoint(host.mac, host.address, addressing.worker_udp_port(job))


def stranger(random: Random) -> int:
    """Return a port that the victim does not have."""
    return random.choice([*ports_of(ATTACKER), 20, 300])


SWITCHML_SLOT = 3
SECRET_WORDS = SECRET.to_bytes(4, "big") * 4


def switchml_request(worker: int, job: int, value: int, slot: int = SWITCHML_SLOT) -> bytes:
    """Return a packet of a worker, numbered among all, that has `value` in each place."""
    service = addressing.service(1 if worker <= 2 else 2)
    switch = UdpEndpoint(service.mac, service.address, switchml.UDP_PORT)
    packet = SwitchMLPacket(chunk=0, slot=slot, set=0, values=(value,) * SWITCHML_VALUES)
    return build(UdpFrame(end_of_worker(worker, job), switch, packet.build()))


def switchml_switch() -> Any:  # a pipeline
    """Return a switch in whose slot the victim's first worker has added its values."""
    switch = switch_of(switchml.DESIGN, switchml.PUBLISHED)
    assert switch.process(1, switchml_request(1, switchml.PUBLISHED.job, SECRET), 0, 0) == []
    return switch


SWITCHML_JOB = switchml.PUBLISHED.job
SWITCHML_KINDS: dict[str, Forge] = {
    "a packet with the address of the victim's worker": lambda random: (
        stranger(random), switchml_request(2, SWITCHML_JOB, random.getrandbits(31)),
    ),
    "a packet of one's own for the victim's slot": lambda random: (
        HOSTS.worker_port(4), switchml_request(4, SWITCHML_JOB + 100, 0),
    ),
    "a packet of one's own for a slot of one's own": lambda random: (
        HOSTS.worker_port(4), switchml_request(4, SWITCHML_JOB + 100, 0, SWITCHML_SLOT + 10),
    ),
}  # fmt: skip

ATP_JOB, ATP_CELL = atp.PUBLISHED.job, 5


def atp_packet(
    random: Random, worker: int, job: int, flags: int = 0, server: int = 1, value: int | None = None
) -> bytes:
    """Return a packet of a worker, numbered among all, to a server."""
    values = (random.getrandbits(31) if value is None else value,) * ATP_VALUES
    packet = AtpPacket(1 << (worker - 1) % 2, 2, job, 1, ATP_CELL, values, 1, 2 * ATP_VALUES, flags)
    host = addressing.server(server)
    destination = UdpEndpoint(host.mac, host.address, atp.UDP_PORT)
    return build(UdpFrame(end_of_worker(worker, job), destination, packet.build()))


def atp_switch() -> Any:  # a pipeline
    """Return a switch in whose cell the victim's first worker has added its values."""
    switch = switch_of(atp.DESIGN, atp.PUBLISHED)
    assert switch.process(1, atp_packet(Random(), 1, ATP_JOB, value=SECRET), 0, 0) == []
    return switch


ATP_KINDS = {
    "a first copy with the victim's job": (2, ATP_JOB, 0, 2, [100, 0]),
    "a resent copy with the victim's job, to one's own server": (1, ATP_JOB, RESEND, 2, [100, 100]),
    "an acknowledgement with the victim's job": (1, ATP_JOB, ACK, 1, [100, 0]),
    "a first copy of one's own for the victim's cell": (3, ATP_JOB + 100, 0, 2, [0, 0]),
    "a resent copy of one's own for the victim's cell": (3, ATP_JOB + 100, RESEND, 2, [0, 0]),
}
"""Forged packet -> worker, job, flags and server that it names, and what it does in `TRIES`."""


@pytest.mark.parametrize(
    ("kind", "expected"), [*zip(SWITCHML_KINDS, ([100, 0], [100, 100], [0, 0]), strict=True)]
)
def test_forged_packets_change_another_job_under_the_published_rules_of_switchml(
    kind: str, expected: list[int]
) -> None:
    registers = ("bitmaps.bitmaps", "count.remaining", "value_00.sums")
    assert harm(switchml_switch, registers, 2 * SWITCHML_SLOT + 2, SWITCHML_KINDS[kind]) == expected


@pytest.mark.parametrize("kind", ATP_KINDS)
def test_forged_packets_change_another_job_under_the_published_rules_of_atp(kind: str) -> None:
    worker, job, flags, server, expected = ATP_KINDS[kind]

    def forge(random: Random) -> tuple[int, bytes]:
        port = stranger(random) if job == ATP_JOB else HOSTS.worker_port(worker)
        return port, atp_packet(random, worker, job, flags, server)

    registers = ("claim.owners", "bitmaps.bitmaps", "count.counts", "value_00.sums")
    assert harm(atp_switch, registers, ATP_CELL + 1, forge) == expected
