"""Jobs beside each other in one switch: what a host can do to another job with forged packets.

In `hotset` and `collect` a host cannot read or write another job's cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.controller_ops import control_of
from controller.network_rows import bundle_rows
from controller.tables import CPU_PORT, HotParam, KeyState, TableRow
from foundation.designs import collect, hotset
from foundation.designs.interface import Arm, Design, SwitchHosts
from foundation.protocol import addressing, control
from foundation.protocol.control import Command, Control
from foundation.protocol.frames import UdpEndpoint, UdpFrame, build
from foundation.protocol.header import (
    COLLECTOR_BASE,
    CONTROLLER_CALLER,
    FIRST,
    HOTLINE_PORT,
    KEYS,
    LANES,
    PS_CALLER_BASE,
    PS_RPC_PORT,
    REPLAY,
    RESPONSE,
    SECOND,
    SET,
    VALUES,
    WINDOW_BITS,
    Header,
    Op,
)
from foundation.protocol.leaf_spine import LeafSpine
from switch_harness.effort import examples
from tests.harness import frames
from tests.harness.programs import Edit, edited, pipeline_of
from tests.harness.testnet import KEY_OF

HOSTS = SwitchHosts(workers=2, servers=1, jobs=2)
"""Workers 1 and 2 and server 1 are the victim's, workers 3 and 4 and server 2 the attacker's."""
VICTIM, ATTACKER = 0, 1
EPOCH = 9
SECRET = 0x5EC2E7


def arms_of(arm: Arm) -> list[Arm]:
    return [arm, replace(arm, name="attacker", job=arm.job + 100)]


def ports_of(job: int) -> list[int]:
    workers = [HOSTS.worker_port(HOSTS.worker(number, job)) for number in (1, 2)]
    return [*workers, HOSTS.server_port(HOSTS.server(1, job))]


def switch_of(
    design: Design, arm: Arm, *more: TableRow, description: Mapping[str, Any] | None = None
) -> Any:  # a pipeline of either kind
    rows = control_of(design).rows(HOSTS, arms_of(arm), EPOCH)
    return pipeline_of(design, [*rows, *more], description)


# -- hotset and collect, whose tables and kinds of packets are the same

OFFLOAD = hotset.OFFLOAD
LEADS = {
    "hotset": (hotset.DESIGN, OFFLOAD, ("values_a", "values_b", "values_c", "values_d")),
    "collect": (
        collect.DESIGN,
        collect.COLLECT,
        tuple(f"{name}_{word}" for name in ("published", "pending") for word in "abcd"),
    ),
}
"""Design, arm, and the registers of each lane."""
VICTIM_ROWS = (0, 1, 2, 6)
"""Rows of the exactly-once cells: two workers, a server, and, in `collect`, the server as a collector."""
VICTIM_SLOT, ATTACKER_SLOT = 7, 9
CALLERS = (1, 2, PS_CALLER_BASE, COLLECTOR_BASE, CONTROLLER_CALLER)


class HotSwitch:
    """A switch in which the same keys are hot in both jobs, the victim's with secret values."""

    def __init__(
        self, name: str, description: Mapping[str, Any] | None = None, more: Sequence[TableRow] = ()
    ) -> None:
        design, self.arm, self._registers = LEADS[name]
        slots = {VICTIM: VICTIM_SLOT, ATTACKER: ATTACKER_SLOT}
        entries = [
            HotParam(arm.job, key, lane, slots[index], KeyState.HOT)
            for index, arm in enumerate(arms_of(self.arm))
            for lane, key in enumerate(KEY_OF)
        ]
        self.pipeline = switch_of(design, self.arm, *entries, *more, description=description)
        for register in self._names():
            self.pipeline.cells.write_register(register, VICTIM_SLOT, SECRET)

    def cells_of_victim(self) -> list[int]:
        """Return the victim's values, and all exactly-once cells of its callers."""
        values = [
            self.pipeline.cells.read_register(name, VICTIM_SLOT, VICTIM_SLOT + 1)[0] for name in self._names()
        ]
        for row in VICTIM_ROWS:
            first, end = row << WINDOW_BITS, row + 1 << WINDOW_BITS
            values += self.pipeline.cells.read_register("HotlineIngress.exactly_once.cells", first, end)
        return values

    def _names(self) -> list[str]:
        lanes = range(LANES)
        return [f"HotlineIngress.bank_{lane:02d}.{name}" for lane in lanes for name in self._registers]


def to_service(worker: int, service: int, datagram: bytes) -> bytes:
    """Return a frame of a worker, numbered among all, to the service address of a server."""
    host, to = addressing.worker(worker), addressing.service(service)
    source, destination = (UdpEndpoint(each.mac, each.address, HOTLINE_PORT) for each in (host, to))
    return build(UdpFrame(source, destination, datagram))


NETWORK = LeafSpine(40, 4, place="leaves", spines=3, routing="spray")
BUNDLE = [*bundle_rows(NETWORK, NETWORK.leaf_switches[0])]
"""Rows of three uplinks, of which no job has one."""


@pytest.fixture(
    scope="module", params=[(name, rows) for name in LEADS for rows in ([], BUNDLE)],
    ids=lambda param: f"{param[0]}{'-bundle' * bool(param[1])}",
)  # fmt: skip
def hot(request: pytest.FixtureRequest) -> HotSwitch:
    name, rows = request.param
    return HotSwitch(name, more=rows)


endpoints = st.sampled_from(
    [
        *((addressing.worker(number), HOTLINE_PORT) for number in (1, 3)),
        *((addressing.server(number), PS_RPC_PORT) for number in (1, 2)),
        *((addressing.service(number), HOTLINE_PORT) for number in (1, 2)),
        (addressing.controller(), HOTLINE_PORT),
    ]
)
U32 = st.integers(0, 2**32 - 1)


CHECK = "if (meta.kind == PacketKind.REQUEST && meta.ingress_port != meta.worker.port"
REQUESTS = [
    (Op.PULL, KEYS),
    (Op.PULL, KEYS | FIRST),
    (Op.PULL, KEYS | SECOND),
    *((Op.PUSH, KEYS | VALUES | more) for more in (0, SET, SET | FIRST, SET | SECOND, REPLAY)),
    (Op.EMPTY, 0),
]
ANSWERS = [(Op.PULL, RESPONSE | VALUES), (Op.PUSH, RESPONSE), (Op.EMPTY, RESPONSE)]


@st.composite
def forged(draw: st.DrawFn, job: int) -> tuple[int, bytes]:
    """Draw a packet of any kind that names the victim's job, and a port that the job does not have."""
    seq = 1 << WINDOW_BITS | draw(st.integers(0, 63))
    if draw(st.booleans()):
        op, flags = draw(st.sampled_from(REQUESTS + ANSWERS))
        lanes = draw(st.sets(st.integers(0, LANES - 1), min_size=1)) if op != Op.EMPTY else set()
        count, worker = max(lanes, default=-1) + 1, draw(st.sampled_from(CALLERS))
        header = Header(
            op=op, flags=flags, job=job, worker=worker, epoch=EPOCH, count=count, seq=seq,
            live=sum(1 << lane for lane in lanes),
        )  # fmt: skip
        keys = KEY_OF[:count] if flags & KEYS else None
        datagram = frames.datagram(header, keys, [draw(U32)] * count if flags & VALUES else None)
    else:
        command = Control(draw(st.sampled_from(Command)), job, 0, EPOCH, seq, np.array(KEY_OF[:3], np.uint64))
        answer = command.answer(control.Status.OK)
        datagram = control.build(draw(st.sampled_from([command, answer])))
    ends = [UdpEndpoint(host.mac, host.address, port) for host, port in (draw(endpoints), draw(endpoints))]
    if HOTLINE_PORT not in (ends[0].port, ends[1].port):
        ends[1] = ends[1]._replace(port=HOTLINE_PORT)
    others = st.integers(1, 510).filter(lambda port: port not in (*ports_of(VICTIM), CPU_PORT))
    port = draw(st.one_of(st.sampled_from(ports_of(ATTACKER)), others))
    return port, build(UdpFrame(ends[0], ends[1], datagram))


@settings(max_examples=examples(1_000))
@given(data=st.data())
def test_no_port_of_another_job_reaches_a_job(hot: HotSwitch, data: st.DataObject) -> None:
    packet, cells = data.draw(forged(hot.arm.job)), hot.cells_of_victim()
    assert hot.pipeline.process(*packet, 0, 0) == []
    assert hot.cells_of_victim() == cells


@pytest.mark.parametrize("worker", [1, 2])
@pytest.mark.parametrize("op", [Op.PULL, Op.PUSH])
def test_a_job_with_the_same_keys_has_its_own_cells(hot: HotSwitch, op: Op, worker: int) -> None:
    """All numbers are the attacker's own; the keys are hot in both jobs."""
    cells, port = hot.cells_of_victim(), HOSTS.worker_port(2 + worker)
    job, seq = arms_of(hot.arm)[ATTACKER].job, 1 << WINDOW_BITS | op
    datagram = push_or_pull(op, job, worker, seq)
    [output] = hot.pipeline.process(port, to_service(2 + worker, 2, datagram), 0, 0)
    answer = frames.Parsed(output.frame)
    assert output.port == port and answer.rpc.served == 2**LANES - 1
    assert answer.values is None or SECRET not in answer.values
    assert hot.cells_of_victim() == cells


def push_or_pull(op: Op, job: int, worker: int, seq: int) -> bytes:
    lanes = {lane: (key, 5) for lane, key in enumerate(KEY_OF)}
    return frames.request(op, job=job, worker=worker, epoch=EPOCH, ps=0, seq=seq, lanes=lanes)


@pytest.mark.parametrize("is_broken", [False, True], ids=["whole", "broken"])
def test_a_program_without_the_check_of_ports_is_noticed(is_broken: bool) -> None:
    """The victim's own packet from a port of the attacker changes cells in a broken program alone."""
    without_check = Edit("hotset/identify.p4", CHECK, CHECK.replace("!=", "<"))
    switch = HotSwitch("hotset", edited(hotset.DESIGN, without_check) if is_broken else None)
    cells = switch.cells_of_victim()
    datagram = push_or_pull(Op.PUSH, OFFLOAD.job, 1, 1 << WINDOW_BITS)
    switch.pipeline.process(3, to_service(1, 1, datagram), 0, 0)
    assert (switch.cells_of_victim() != cells) is is_broken
