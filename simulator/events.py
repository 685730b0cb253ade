"""The event queue: a heap with four children a node. Events of equal times keep their order."""

from __future__ import annotations

from nativekit.compile import compiled, int64
from nativekit.records import Records
from simulator.state import Event, World


@compiled
def push_event(world: World, time: int, kind: int, target: int, frame: int) -> None:
    header, heap = world.header, world.heap
    order, at = int64(header.order), int64(header.events)
    header.order += 1
    header.events += 1
    while at:
        parent = (at - 1) >> 2
        if heap[parent].time <= time:  # of equal times, the event pushed earlier comes first
            break
        _copy(heap[at], heap[parent])
        at = parent
    event = heap[at]
    event.time, event.order, event.kind, event.target, event.frame = time, order, kind, target, frame


@compiled
def pop_event(world: World) -> None:
    header, heap = world.header, world.heap
    header.events -= 1
    n, at = int64(header.events), int64(0)
    last = heap[n]
    while True:
        first = 4 * at + 1
        if first + 3 < n:
            best = _earlier(heap, _earlier(heap, first, first + 1), _earlier(heap, first + 2, first + 3))
        elif first < n:
            best = first
            for child in range(first + 1, n):
                best = _earlier(heap, best, child)
        else:
            break
        if not _is_earlier(heap[best], last):
            break
        _copy(heap[at], heap[best])
        at = best
    _copy(heap[at], last)


@compiled
def _earlier(heap: Records[Event], one: int, other: int) -> int:
    """Return the index of the earlier event, without a branch that would be mispredicted half of the time."""
    return other if _is_earlier(heap[other], heap[one]) else one


@compiled
def _is_earlier(event: Event, other: Event) -> bool:
    return bool((event.time < other.time) | ((event.time == other.time) & (event.order < other.order)))


@compiled
def _copy(to: Event, event: Event) -> None:
    to.time, to.order, to.kind, to.target, to.frame = (
        event.time, event.order, event.kind, event.target, event.frame
    )  # fmt: skip
