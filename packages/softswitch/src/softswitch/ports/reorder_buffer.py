"""Loss, duplication and reordering: a buffer for each impaired direction, where frames wait for later ones.

Compiled code. For each frame that enters, the frames that leave are appended to a list: none (it was lost or
is held), one, two (it was duplicated), or more (with held frames that are due).
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nativekit.compile import compiled
from nativekit.libc import memcpy
from nativekit.records import Records
from softswitch.hashing import GOLDEN_RATIO, SPLITMIX_LAST_SHIFT, SPLITMIX_STEPS
from softswitch.ports.impairment import Impairment
from softswitch.ports.layout import (
    FREE,
    HELD,
    LEAVING,
    REORDER_SLOTS,
    FrameRecord,
    ReorderBuffer,
    ReorderSlot,
)

HOLD_US = 5_000  # maximum time for which a frame is held
_MAX_PASSES = 4  # maximum number of later frames that pass a held frame; the minimum is 1

Frames: TypeAlias = Records[FrameRecord]
Slots: TypeAlias = Records[ReorderSlot]


def fill_reorder_buffer(
    buffer: np.void, slots: NDArray[np.void], memory: int, frame_bytes: int, impairment: Impairment, salt: int
) -> None:
    buffer["loss"], buffer["duplicate"], buffer["reorder"] = (
        impairment.loss,
        impairment.duplicate,
        impairment.reorder,
    )
    buffer["random"] = np.random.SeedSequence([impairment.seed, salt]).generate_state(1, np.uint64)[0]
    slots["address"] = memory + frame_bytes * np.arange(REORDER_SLOTS)


@compiled
def draw(buffer: ReorderBuffer) -> float:
    """Return the next random number in [0, 1) (splitmix64)."""
    buffer.random += np.uint64(GOLDEN_RATIO)
    z = buffer.random
    for shift, factor in SPLITMIX_STEPS:
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    z = z ^ (z >> np.uint64(SPLITMIX_LAST_SHIFT))
    return float(z >> np.uint64(11)) * 2.0**-53  # the upper 53 bits, as many as a float holds exactly


@compiled
def append_frame(frames: Frames, count: int, address: int, length: int, time: int) -> int:
    frames[count].address = address
    frames[count].length = length
    frames[count].time = time
    return count + 1


@compiled
def hold_frame(buffer: ReorderBuffer, slots: Slots, address: int, length: int, time: int, now: int) -> bool:
    for slot in slots:
        if slot.state == FREE:
            memcpy(slot.address, address, length)
            slot.length = length
            slot.time = time
            slot.passes = 1 + int(draw(buffer) * _MAX_PASSES)
            slot.deadline = now + HOLD_US
            slot.state = HELD
            buffer.held += 1
            return True
    return False


@compiled
def release_due_frames(
    buffer: ReorderBuffer, slots: Slots, now: int, passing_frames: int, frames: Frames, count: int
) -> int:
    """Append to `frames` the held frames that are due, and return the new count.

    A frame is due at its deadline, or when enough later frames have overtaken it; `passing_frames` is the
    number of frames since the last call.
    """
    for slot in slots:
        if slot.state == HELD:
            slot.passes -= passing_frames
            if slot.passes <= 0 or now >= slot.deadline:
                slot.state = LEAVING
                buffer.held -= 1
                count = append_frame(frames, count, slot.address, slot.length, slot.time)
    return count


@compiled
def impair_frame(
    buffer: ReorderBuffer,
    slots: Slots,
    address: int,
    length: int,
    time: int,
    now: int,
    frames: Frames,
    count: int,
) -> int:
    """Pass one frame through the buffer; append at most 2 + REORDER_SLOTS frames and return the new count."""
    # All three are drawn for each frame, so that a probability does not change the draws of the others.
    is_lost = draw(buffer) < buffer.loss
    is_duplicated = draw(buffer) < buffer.duplicate
    is_reordered = draw(buffer) < buffer.reorder
    if is_lost:
        buffer.lost += 1
        return count
    passing_frames = 0
    if is_reordered and hold_frame(buffer, slots, address, length, time, now):
        buffer.reordered += 1
    else:
        count = append_frame(frames, count, address, length, time)
        passing_frames += 1
    if is_duplicated:
        buffer.duplicated += 1
        count = append_frame(frames, count, address, length, time)
        passing_frames += 1
    return release_due_frames(buffer, slots, now, passing_frames, frames, count) if passing_frames else count


@compiled
def free_leaving_slots(slots: Slots) -> None:
    """Free the slots of frames that have left; call it after the appended frames have been used."""
    for slot in slots:
        if slot.state == LEAVING:
            slot.state = FREE


@compiled
def clear_buffer(buffer: ReorderBuffer, slots: Slots) -> int:
    count: int = buffer.held
    buffer.held = 0
    for slot in slots:
        slot.state = FREE
    return count
