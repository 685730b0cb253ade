"""BMv2 gives what softswitch gives: the same frames in, the same frames out of each port, the same counters.

Masked: `residence` (clocks), nothing else. BMv2 cannot read registers over P4Runtime, so values are compared
by pulling every hot key as a privileged caller.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from protocol.hashing import lane_of
from protocol.header import CONTROLLER_CALLER, HEADER_BYTES, WINDOW_BITS, Op, offset_of
from softswitch.compiled import CompiledPipeline
from softswitch.pipeline import Change, EntryWrite, Output
from tests.bmv2.conftest import Bmv2
from tests.harness import frames, testnet
from tests.harness.vectors import KEYS, SLOTS, STATES, Source, hot_set
from tests.harness.waiting import PATIENCE_S

pytestmark = [pytest.mark.bmv2, pytest.mark.mininet]

VECTORS = int(os.environ.get("HOTLINE_VECTORS", "1500"))
SENTINEL = (
    frames.mac(testnet.WORKER[2][0]) + frames.mac(testnet.WORKER[1][0]) + b"\x88\xb5" + b"sentinel".ljust(46)
)
RESIDENCE_AT = 42 + offset_of("residence")
RPC_FRAME_BYTES = 42 + HEADER_BYTES


def masked(output: Output) -> Output:
    """The frame without the time it spent in the switch."""
    port, data = output
    head = 2 if port == testnet.CPU_PORT else 0
    at = head + RESIDENCE_AT
    is_rpc = len(data) >= head + RPC_FRAME_BYTES and data[head + 12 : head + 14] == b"\x08\x00"
    return Output(port, data[:at] + bytes(4) + data[at + 4 :]) if is_rpc else output


class Lockstep:
    """Feeds both switches frame by frame; a sentinel behind each says that BMv2 has seen it."""

    def __init__(self, bmv2: Bmv2, pipeline: CompiledPipeline) -> None:
        self.bmv2, self.pipeline = bmv2, pipeline
        for sock in bmv2.sockets.values():
            sock.settimeout(PATIENCE_S)

    def write(self, entries: list[EntryWrite]) -> None:
        testnet.write(self.pipeline, entries)
        self.bmv2.client.write(entries)

    def send(self, port: int, frame: bytes) -> tuple[list[Output], list[Output]]:
        """The outputs of softswitch and of BMv2 for one frame."""
        expected = [masked(output) for output in self.pipeline.process(port, frame, 0, 0)]
        if port == testnet.CPU_PORT:
            egress_port = int.from_bytes(frame[:2], "big") >> 7
            self.bmv2.client.packet_out(egress_port, frame[2:])
            self.bmv2.client.packet_out(2, SENTINEL)
        else:
            self.bmv2.sockets[port].send(frame)
            self.bmv2.sockets[port].send(SENTINEL)
            self.pipeline.process(port, SENTINEL, 0, 0)
        seen: list[Output] = []
        while (data := self.bmv2.sockets[2].recv(4096)) != SENTINEL:
            seen.append(masked(Output(2, data)))
        for output in expected:
            if output.port in (1, 3):
                seen.append(masked(Output(output.port, self.bmv2.sockets[output.port].recv(4096))))
            elif output.port == testnet.CPU_PORT:
                ingress_port, payload = self.bmv2.client.packets.get(timeout=PATIENCE_S)
                seen.append(masked(Output(255, (ingress_port << 7).to_bytes(2, "big") + payload)))
        return expected, seen

    def leftovers(self) -> list[bytes]:
        """Frames that BMv2 sent and softswitch did not."""
        left = [self.bmv2.client.packets.get()[1] for _ in range(self.bmv2.client.packets.qsize())]
        for sock in self.bmv2.sockets.values():
            sock.setblocking(False)
            try:
                while True:
                    left.append(sock.recv(4096))
            except BlockingIOError:
                pass
        return left


def pull_all(lockstep: Lockstep, keys: list[int]) -> None:
    """Pull every key as the controller, whose lanes reach every register."""
    end, port = testnet.CALLERS[CONTROLLER_CALLER]
    for number, key in enumerate(keys):
        slot = number % 64
        _, turn, _ = testnet.cell(lockstep.pipeline, testnet.OFFLOADED, CONTROLLER_CALLER, slot)
        rpc = frames.request(
            Op.PULL,
            job=testnet.OFFLOADED,
            worker=CONTROLLER_CALLER,
            epoch=testnet.EPOCH,
            ps=0,
            seq=turn + 1 << WINDOW_BITS | slot,
            lanes={lane_of(key): (key, 0)},
        )
        expected, seen = lockstep.send(port, b"\0\0" + frames.frame(rpc, src=end, dst=testnet.SERVICE))
        assert expected == seen


def test_bmv2_agrees(bmv2: Bmv2) -> None:
    random = Random(2020)
    lockstep = Lockstep(bmv2, CompiledPipeline(testnet.program()))
    entries = testnet.network() + hot_set(random)
    lockstep.write(entries)
    source = Source(random, lockstep.pipeline)
    for number in range(VECTORS):
        port, frame = source.draw()
        expected, seen = lockstep.send(port, frame)
        assert expected == seen, f"vector {number} into port {port}: {frame.hex()}"
        if number % 20 == 0:
            entry = random.choice([entry for entry in entries if "hot_params" in entry.table])
            lane = int(entry.table.split("lookup_")[1][:2])
            state, slot = random.choice(STATES), random.randrange(SLOTS)
            key = entry.key[1]
            assert isinstance(key, int)
            lockstep.write([testnet.hot_entry(Change.MODIFY, key, state, slot, lane)])
    pull_all(lockstep, list(range(KEYS)))
    assert lockstep.leftovers() == []
    theirs = bmv2.client.read_counters()
    for name, cells in theirs.items():
        ours = lockstep.pipeline.read_counter(name, 0, len(cells))
        assert [cell.packets for cell in ours] == [cell.packets for cell in cells], name
