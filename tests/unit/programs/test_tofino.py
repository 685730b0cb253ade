"""The twin of the Tofino program answers as `hotset` does, compiled for as many lanes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from controller.tables import CPU_PORT
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import Op
from softswitch.compiled import CompiledPipeline
from softswitch.ir import Program
from softswitch.jit import MachineCode
from softswitch.load import load_program
from softswitch.pipeline import Change, EntryWrite
from switch_harness.effort import seeds
from tests.harness import testnet
from tests.harness.twins import TWIN_INGRESS, for_twin, twin_rpcs
from tests.harness.vectors import KEYS, SLOTS, STATES, Source, hot_set

LANES = 16
PROGRAMS = Path(__file__).parents[2] / "programs" / "compiled"
Code = tuple[Program, MachineCode]
IPV4 = b"\x08\x00"


@pytest.fixture(scope="module")
def codes() -> list[Code]:
    names = ("hotline_16", "tofino_16")
    programs = [load_program((PROGRAMS / f"{name}.json").read_bytes()) for name in names]
    return [(program, MachineCode(program)) for program in programs]


class Both:
    """`hotset` and the twin, with the same table entries."""

    def __init__(self, codes: list[Code], random: Random) -> None:
        self.hotset, self.twin = (CompiledPipeline(*code) for code in codes)
        self.write(testnet.network() + hot_set(random, lanes=LANES))

    def write(self, entries: list[EntryWrite]) -> None:
        ours = self.hotset.write_entries(entries)
        reference = self.twin.write_entries([for_twin(entry) for entry in entries])
        assert [type(error) for error in reference] == [type(error) for error in ours]

    def exchange(self, port: int, frame: bytes, now: int) -> int:
        answers = self.hotset.process(port, frame, now, now)
        assert self.twin.process(port, frame, now, now) == answers, frame.hex()
        return len(answers)

    def check_state(self) -> None:
        for lane in range(LANES):
            cells = self.twin.read_register(f"{TWIN_INGRESS}aggregate_{lane:02d}.values", 0, SLOTS)
            pushes = {slot: cell & 0xFFFFFFFF for slot, cell in enumerate(cells) if cell & 0xFFFFFFFF}
            assert [cell >> 32 for cell in cells] == [
                testnet.held(self.hotset, lane, slot) for slot in range(SLOTS)
            ]
            assert pushes == testnet.pushes(self.hotset, lane)
            counters = self.twin.read_counter(f"{TWIN_INGRESS}aggregate_{lane:02d}.lane_stats", 0, 2)
            assert tuple(cell.packets for cell in counters) == testnet.lane_stats(self.hotset, lane)[:2]
        assert twin_rpcs(self.twin) == self.hotset.read_counter("HotlineIngress.readdress.rpcs", 0, 3)


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
def test_the_twin_answers_as_hotset_does(seed: int, codes: list[Code]) -> None:
    random = Random(seed)
    both = Both(codes, random)
    source, answered = Source(random, both.hotset, LANES), 0
    for now in range(1000):
        port, frame = source.draw()
        if not _hides_its_length(port, frame):
            answered += both.exchange(port, frame, now)
        if random.random() < 0.2:
            key, state = random.randrange(KEYS), random.choice(STATES)
            change, slot = random.choice(list(Change)), random.randrange(SLOTS)
            both.write([testnet.hot_entry(change, key, state, slot, lane_of(key, LANES))])
    assert answered > 400
    both.check_state()
