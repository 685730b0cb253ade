"""The impairments at work: a shelf for each impaired direction, where frames wait for later ones to pass.

Compiled code. Frames come one after another and leave by being appended to a list of `FRAME`s: none (lost
or held), one, two (duplicated), or more (held ones whose time has come).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softswitch.hashing import GOLDEN, SPLITMIX, SPLITMIX_LAST
from softswitch.native import compiled, memcpy
from softswitch.ports.impairment import Impairment
from softswitch.ports.layout import FREE, HELD, LEAVING, PLACES

HOLD_US = 5_000
_PASSED_BY = 4  # a held frame lets 1.._PASSED_BY later ones pass

Frames = NDArray[Any]
Shelf = Any  # a SHELF record
Places = NDArray[Any]  # the PLACES places of one shelf


def fill_shelf(
    shelf: Shelf, places: Places, memory: int, frame_bytes: int, how: Impairment, salt: int
) -> None:
    """Set an empty shelf up; its frames lie at `memory`, `frame_bytes` for each of the places."""
    shelf["loss"], shelf["duplicate"], shelf["reorder"] = how.loss, how.duplicate, how.reorder
    shelf["random"] = np.random.SeedSequence([how.seed, salt]).generate_state(1, np.uint64)[0]
    places["base"] = memory + frame_bytes * np.arange(PLACES)


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
def hold(shelf: Shelf, places: Places, base: int, length: int, time: int, now: int) -> bool:
    """Copy a frame to a free place, if there is one."""
    for place in places:
        if place.state == FREE:
            memcpy(place.base, base, length)
            place.length = length
            place.time = time
            place.passes = 1 + int(draw(shelf) * _PASSED_BY)
            place.deadline = now + HOLD_US
            place.state = HELD
            shelf.held += 1
            return True
    return False


@compiled
def release(shelf: Shelf, places: Places, now: int, passed: int, frames: Frames, count: int) -> int:
    """Append the held frames that `passed` more frames, or the clock, have set free."""
    for place in places:
        if place.state == HELD:
            place.passes -= passed
            if place.passes <= 0 or now >= place.deadline:
                place.state = LEAVING
                shelf.held -= 1
                count = append(frames, count, place.base, place.length, place.time)
    return count


@compiled
def impair(
    shelf: Shelf, places: Places, base: int, length: int, time: int, now: int, frames: Frames, count: int
) -> int:
    """Pass one frame through the shelf; appends at most 2 + PLACES frames and returns the new count."""
    lost = draw(shelf) < shelf.loss
    duplicated = draw(shelf) < shelf.duplicate
    reordered = draw(shelf) < shelf.reorder
    if lost:
        shelf.lost += 1
        return count
    passed = 0
    if reordered and hold(shelf, places, base, length, time, now):
        shelf.reordered += 1
    else:
        count = append(frames, count, base, length, time)
        passed += 1
    if duplicated:
        shelf.duplicated += 1
        count = append(frames, count, base, length, time)
        passed += 1
    return release(shelf, places, now, passed, frames, count) if passed else count


@compiled
def recycle(places: Places) -> None:
    """Free the places of frames that have left; call it when what was appended has been used."""
    for place in places:
        if place.state == LEAVING:
            place.state = FREE


@compiled
def clear(shelf: Shelf, places: Places) -> int:
    """Drop the held frames; returns how many there were."""
    count: int = shelf.held
    shelf.held = 0
    for place in places:
        place.state = FREE
    return count
