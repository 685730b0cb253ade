from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nativekit.compile import carray, int64
from nativekit.memory import pointer
from nativekit.records import records
from softswitch.native import entry_point
from softswitch.ports.impairment import Impairment
from softswitch.ports.layout import REORDER_BUFFER, REORDER_SLOTS, FrameRecord, ReorderBuffer, ReorderSlot
from softswitch.ports.reorder_buffer import (
    HOLD_US,
    Frames,
    Slots,
    fill_reorder_buffer,
    free_leaving_slots,
    impair_frame,
    release_due_frames,
)

Numbers = NDArray[np.int64]
FRAME_BYTES = 64
FOREVER = 10 * HOLD_US


@entry_point
def _pass(
    buffer: ReorderBuffer,
    slots: Slots,
    sources: NDArray[np.int64],
    now: int,
    frames: Frames,
    taken: Numbers,
) -> int:
    """Pass frames of 8 bytes, an int64 each, and note what comes out; returns how many."""
    total: int = int64(0)
    for k in range(len(sources)):
        count = impair_frame(
            buffer, slots, sources.ctypes.data + 8 * k, int64(8), int64(k), now, frames, int64(0)
        )
        total = _note(frames, count, taken, total)
        free_leaving_slots(slots)
    return total


@entry_point
def _expire(buffer: ReorderBuffer, slots: Slots, now: int, frames: Frames, taken: Numbers, total: int) -> int:
    count = release_due_frames(buffer, slots, now, int64(0), frames, int64(0))
    total = _note(frames, count, taken, total)
    free_leaving_slots(slots)
    return total


@entry_point
def _note(frames: Frames, count: int, taken: Numbers, total: int) -> int:
    for frame in frames[:count]:
        taken[total] = carray(pointer(frame.address), 1, np.int64)[0]
        total += 1
    return total


class Line:
    """One impaired direction."""

    def __init__(self, how: Impairment, salt: int = 0) -> None:
        self.buffer = np.zeros(1, REORDER_BUFFER)[0]
        self.slots = records(REORDER_SLOTS, ReorderSlot)
        self._memory = np.zeros(REORDER_SLOTS * FRAME_BYTES, np.uint8)
        self._frames = records(2 + REORDER_SLOTS, FrameRecord)
        fill_reorder_buffer(self.buffer, self.slots, self._memory.ctypes.data, FRAME_BYTES, how, salt)

    def carry(self, sources: list[int], *, drain: bool = True) -> list[int]:
        """Carry frames, all at time 0; `drain` lets those that are held go after a long time."""
        array = np.array(sources, np.int64)
        taken = np.full(2 * len(sources), -1, np.int64)
        total = _pass(self.buffer, self.slots, array, 0, self._frames, taken)
        if drain:
            total = _expire(self.buffer, self.slots, FOREVER, self._frames, taken, total)
        numbers: list[int] = taken[:total].tolist()
        return numbers


probabilities = st.sampled_from([0.0, 0.05, 0.3, 1.0])


def test_without_impairment_frames_pass_in_order() -> None:
    assert Line(Impairment()).carry(list(range(100)), drain=False) == list(range(100))


@given(probabilities, probabilities, probabilities, st.integers(0, 2**32), st.integers(0, 300))
def test_frames_are_lost_duplicated_and_reordered_but_never_kept(
    loss: float, duplicate: float, reorder: float, seed: int, count: int
) -> None:
    line = Line(Impairment(loss, duplicate, reorder, seed))
    received = Counter(line.carry(list(range(count))))
    assert line.buffer["held"] == 0
    assert set(received) <= set(range(count))
    assert count - len(received) == line.buffer["lost"]
    assert sum(times == 2 for times in received.values()) == line.buffer["duplicated"]
    assert max(received.values(), default=0) <= 2


def test_frames_are_lost_duplicated_and_reordered_at_the_configured_rates() -> None:
    line = Line(Impairment(loss=0.05, duplicate=0.1, reorder=0.2))
    line.carry(list(range(20_000)))
    assert 0.045 < line.buffer["lost"] / 20_000 < 0.055
    assert 0.09 < line.buffer["duplicated"] / 19_000 < 0.11
    assert 0.18 < line.buffer["reordered"] / 19_000 < 0.22


def test_a_held_frame_is_overtaken_by_one_to_four_later_frames() -> None:
    received = Line(Impairment(reorder=0.05)).carry(list(range(5_000)), drain=False)
    passed = [sum(later > frame for later in received[:position]) for position, frame in enumerate(received)]
    assert {0, 1, 2, 3, 4} <= set(passed)
    assert max(passed) <= 8  # held frames that leave together do not count as passing each other


def test_a_held_frame_leaves_when_its_hold_time_is_over_and_not_earlier() -> None:
    line = Line(Impairment(reorder=1.0))
    assert line.carry([7], drain=False) == []
    taken = np.zeros(2, np.int64)
    frames = records(2 + REORDER_SLOTS, FrameRecord)
    assert _expire(line.buffer, line.slots, HOLD_US - 1, frames, taken, 0) == 0
    assert _expire(line.buffer, line.slots, HOLD_US, frames, taken, 0) == 1
    assert taken[0] == 7


def test_a_full_reorder_buffer_lets_frames_pass() -> None:
    received = Line(Impairment(reorder=1.0)).carry(list(range(3 * REORDER_SLOTS)), drain=False)
    assert received[0] == REORDER_SLOTS


def test_the_seed_the_port_and_the_direction_decide_which_frames_are_impaired() -> None:
    how = Impairment(loss=0.3, duplicate=0.3, reorder=0.3, seed=5)
    frames = list(range(200))
    assert Line(how).carry(frames) == Line(how).carry(frames)
    assert Line(how).carry(frames) != Line(how, salt=1).carry(frames)
