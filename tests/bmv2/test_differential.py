"""BMv2 gives what softswitch gives: the same frames in, the same frames out of each port, the same counters.

Masked: `residence` (clocks), nothing else. BMv2 cannot read registers over P4Runtime, so values are compared
by pulling every hot key as a privileged caller, and as a worker, who gets `collect`'s published values.
"""

from __future__ import annotations

import os
from collections import defaultdict
from random import Random

import pytest

from controller.tables import CPU_PORT
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import CONTROLLER_CALLER, HEADER_BYTES, WINDOW_BITS, Op, offset_of
from softswitch.conformance.client import read_p4info
from softswitch.conformance.encoding import EntityEncoder
from softswitch.conformance.pairs import Pair
from softswitch.conformance.runner import Outcome, Verdict, run
from softswitch.conformance.targets import TARGETS
from softswitch.pipeline import Change, EntryWrite, Output
from switch_harness.effort import steps
from switch_harness.twins import Twins, twins
from tests.harness import testnet
from tests.harness.vectors import KEYS, PAIRS, SLOTS, STATES, Source, dim_of, hot_set, lanes_for

pytestmark = pytest.mark.bmv2

VECTORS = int(os.environ.get("HOTLINE_VECTORS", steps(2_000)))
RESIDENCE_AT = 42 + offset_of("residence")
RPC_FRAME_BYTES = 42 + HEADER_BYTES


Outputs = dict[int, list[bytes]]


def masked(outputs: list[Output]) -> Outputs:
    """The frames that leave each port, without the time that they spent in the switch."""
    ports: Outputs = defaultdict(list)
    for port, data in outputs:
        head = 2 if port == CPU_PORT else 0
        at = head + RESIDENCE_AT
        is_rpc = len(data) >= head + RPC_FRAME_BYTES and data[head + 12 : head + 14] == b"\x08\x00"
        ports[port].append(data[:at] + bytes(4) + data[at + 4 :] if is_rpc else data)
    return ports


def write(both: Twins, encoder: EntityEncoder, entries: list[EntryWrite]) -> None:
    for entry in entries:
        assert both.codes(encoder.update(entry)) == (0, 0), entry


def exchange(both: Twins, port: int, frame: bytes, what: str) -> None:
    ours, _ = both.expect(port, frame)
    reference = both.observe(port, frame)
    to_cpu = sum(output.port == CPU_PORT for output in ours)
    for packet in both.packets_in(to_cpu):
        ingress_port = int.from_bytes(packet.metadata[0].value, "big")
        reference.append(Output(CPU_PORT, (ingress_port << 7).to_bytes(2, "big") + packet.payload))
    assert masked(ours) == masked(reference), f"{what} into port {port}: {frame.hex()}"


def pull_all(both: Twins, caller: int, keys: list[int]) -> None:
    """Pull every key; the controller's lanes reach every register of `hotset`."""
    for number, key in enumerate(keys):
        slot = number % 64
        _, turn, _ = testnet.cell(both.pipeline, testnet.OFFLOADED, caller, slot)
        dim = dim_of(key)
        lanes = {lane_of(key, lanes_for(dim)): (key, 0)}
        port, frame = testnet.request(Op.PULL, lanes, turn + 1 << WINDOW_BITS | slot, caller, dim=dim)
        exchange(both, port, testnet.into(port, frame), f"pull of key {key}")


@pytest.mark.parametrize("design", ["hotset", "collect"])
def test_bmv2_sends_the_same_frames_and_counts_as_softswitch(design: str) -> None:
    program, random = testnet.COMPILED / design, Random(2020)
    encoder = EntityEncoder(read_p4info(program))
    with twins(program, CPU_PORT) as both:
        entries = testnet.network() + hot_set(random)
        write(both, encoder, entries)
        source = Source(random, both.pipeline, words=design == "collect")
        for number in range(VECTORS):
            exchange(both, *source.draw(), f"vector {number}")
            if number % 20 == 0:
                entry = random.choice([entry for entry in entries if "hot_params" in entry.table])
                lane = int(entry.table.split("lookup_")[1][:2])
                state, slot = random.choice(STATES), random.randrange(SLOTS)
                _, dim, key = entry.key
                assert isinstance(key, int) and isinstance(dim, int)
                write(both, encoder, [testnet.hot_entry(Change.MODIFY, key, state, slot, lane, dim=dim)])
        for caller in (CONTROLLER_CALLER, 1):
            pull_all(both, caller, list(range(KEYS)))
        ours, reference = both.counters()
        assert ours == reference
        assert both.unseen() == 0


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.vectors.stem)
def test_the_programs_vectors_pass_on_bmv2(pair: Pair) -> None:
    assert run(TARGETS["bmv2"], *pair) == Verdict(*pair, Outcome.PASS)
