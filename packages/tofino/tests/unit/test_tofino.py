"""The twin of the Tofino program answers as `hotset` does, compiled for as many lanes."""

from __future__ import annotations

from random import Random

import pytest

from controller.tables import CPU_PORT
from foundation.protocol.header import Op
from hotline_tofino.model import DIMS, LANES, compile_programs
from packages.tofino.tests.harness.twins import TWIN_INGRESS, for_twin, twin_rpcs
from softswitch.compiled import CompiledPipeline
from softswitch.pipeline import EntryWrite
from switch_harness.effort import seeds
from tests.harness import testnet
from tests.harness.vectors import SLOTS, Source, hot_set

IPV4 = b"\x08\x00"


class Both:
    """`hotset` and the twin, with the same table entries."""

    def __init__(self, random: Random) -> None:
        self.hotset, self.twin = (CompiledPipeline(*code) for code in compile_programs())
        self.write(testnet.network() + hot_set(random, lanes=LANES, dims=DIMS))

    def write(self, entries: list[EntryWrite]) -> None:
        ours = self.hotset.tables.write(entries)
        reference = self.twin.tables.write([for_twin(entry) for entry in entries])
        assert [type(error) for error in reference] == [type(error) for error in ours]

    def exchange(self, port: int, frame: bytes, now: int) -> int:
        answers = self.hotset.process(port, frame, now, now)
        assert self.twin.process(port, frame, now, now) == answers, frame.hex()
        return len(answers)

    def check_state(self) -> None:
        for lane in range(LANES):
            cells = self.twin.cells.read_register(f"{TWIN_INGRESS}aggregate_{lane:02d}.values", 0, SLOTS)
            pushes = {slot: cell & 0xFFFFFFFF for slot, cell in enumerate(cells) if cell & 0xFFFFFFFF}
            assert [cell >> 32 for cell in cells] == [
                testnet.held(self.hotset, lane, slot) for slot in range(SLOTS)
            ]
            assert pushes == testnet.pushes(self.hotset, lane)
            counters = self.twin.cells.read_counter(f"{TWIN_INGRESS}aggregate_{lane:02d}.lane_stats", 0, 2)
            assert tuple(cell.packets for cell in counters) == testnet.lane_stats(self.hotset, lane)[:2]
        assert twin_rpcs(self.twin) == self.hotset.cells.read_counter("HotlineIngress.readdress.rpcs", 0, 3)


def _hides_its_length(port: int, frame: bytes) -> bool:
    """Whether `hotset` drops a frame for a length that a chip cannot know.

    Bytes follow the datagram, or the body of a CONTROL message, which no parser reads, is cut.
    """
    frame = frame[2:] if port == CPU_PORT else frame
    if frame[12:14] != IPV4:
        return False
    length = 14 + int.from_bytes(frame[16:18], "big")
    return len(frame) > length or (frame[43:44] == bytes([Op.CONTROL]) and len(frame) < length)


@pytest.mark.parametrize("seed", seeds(6))
def test_the_twin_answers_as_hotset_does(seed: int) -> None:
    random = Random(seed)
    both = Both(random)
    source, answered = Source(random, both.hotset, LANES, dims=DIMS), 0
    for now in range(1000):
        port, frame = source.draw()
        if not _hides_its_length(port, frame):
            answered += both.exchange(port, frame, now)
        if random.random() < 0.2:
            both.write([source.move()])
    assert answered > 400
    both.check_state()
