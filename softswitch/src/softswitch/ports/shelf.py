"""The impairments at work: a shelf for each impaired direction, where frames wait for later ones to pass.

Compiled code. Frames come one after another and leave by being appended to a list of `FRAME`s: none (lost
or held), one, two (duplicated), or more (held ones whose time has come).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nativekit.compile import compiled
from nativekit.libc import memcpy
from softswitch.hashing import GOLDEN, SPLITMIX, SPLITMIX_LAST
from softswitch.ports.impairment import Impairment
from softswitch.ports.layout import FREE, HELD, LEAVING, SHELF_SLOTS

HOLD_US = 5_000
_PASSED_BY = 4  # a held frame lets 1.._PASSED_BY later ones pass

Frames = NDArray[Any]
Shelf = Any  # a SHELF record
Slots = NDArray[Any]  # the SHELF_SLOTS slots of one shelf


def fill_shelf(shelf: Shelf, slots: Slots, memory: int, frame_bytes: int, how: Impairment, salt: int) -> None:
    """Set an empty shelf up; its frames lie at `memory`, `frame_bytes` for each of the slots."""
    shelf["loss"], shelf["duplicate"], shelf["reorder"] = how.loss, how.duplicate, how.reorder
    shelf["random"] = np.random.SeedSequence([how.seed, salt]).generate_state(1, np.uint64)[0]
    slots["base"] = memory + frame_bytes * np.arange(SHELF_SLOTS)


@compiled
def draw(shelf: Shelf) -> float:
    """Return the next random number in [0, 1) (splitmix64)."""
    shelf.random += np.uint64(GOLDEN)
    z = shelf.random
    for shift, factor in SPLITMIX:
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    z = z ^ (z >> np.uint64(SPLITMIX_LAST))
    return float(z >> np.uint64(11)) * 2.0**-53


@compiled
def append(frames: Frames, count: int, base: int, length: int, time: int) -> int:
    """Append a frame to the first `count` ones; returns how many there are now."""
    frames[count].base = base
    frames[count].length = length
    frames[count].time = time
    return count + 1


@compiled
def hold(shelf: Shelf, slots: Slots, base: int, length: int, time: int, now: int) -> bool:
    """Copy a frame to a free slot, if there is one."""
    for slot in slots:
        if slot.state == FREE:
            memcpy(slot.base, base, length)
            slot.length = length
            slot.time = time
            slot.passes = 1 + int(draw(shelf) * _PASSED_BY)
            slot.deadline = now + HOLD_US
            slot.state = HELD
            shelf.held += 1
            return True
    return False


@compiled
def release(shelf: Shelf, slots: Slots, now: int, passed: int, frames: Frames, count: int) -> int:
    """Append the held frames that `passed` more frames, or the clock, have set free."""
    for slot in slots:
        if slot.state == HELD:
            slot.passes -= passed
            if slot.passes <= 0 or now >= slot.deadline:
                slot.state = LEAVING
                shelf.held -= 1
                count = append(frames, count, slot.base, slot.length, slot.time)
    return count


@compiled
def impair(
    shelf: Shelf, slots: Slots, base: int, length: int, time: int, now: int, frames: Frames, count: int
) -> int:
    """Pass one frame through the shelf; appends at most 2 + SHELF_SLOTS frames and returns the new count."""
    lost = draw(shelf) < shelf.loss
    duplicated = draw(shelf) < shelf.duplicate
    reordered = draw(shelf) < shelf.reorder
    if lost:
        shelf.lost += 1
        return count
    passed = 0
    if reordered and hold(shelf, slots, base, length, time, now):
        shelf.reordered += 1
    else:
        count = append(frames, count, base, length, time)
        passed += 1
    if duplicated:
        shelf.duplicated += 1
        count = append(frames, count, base, length, time)
        passed += 1
    return release(shelf, slots, now, passed, frames, count) if passed else count


@compiled
def recycle(slots: Slots) -> None:
    """Free the slots of frames that have left; call it when what was appended has been used."""
    for slot in slots:
        if slot.state == LEAVING:
            slot.state = FREE


@compiled
def clear(shelf: Shelf, slots: Slots) -> int:
    """Drop the held frames; returns how many there were."""
    count: int = shelf.held
    shelf.held = 0
    for slot in slots:
        slot.state = FREE
    return count
