"""What will happen, in order: a heap with four children a node. Equal times keep their order."""

from __future__ import annotations

from nativekit.compile import compiled, int64
from nativekit.records import Records
from simulator.state import Event, World


@compiled
def put_event(world: World, time: int, kind: int, who: int, frame: int) -> None:
    """Let something happen at a time."""
    me, heap = world.me, world.heap
    order, at = int64(me.order), int64(me.events)
    me.order += 1
    me.events += 1
    while at:
        parent = (at - 1) >> 2
        if heap[parent].time <= time:  # what was put before goes first
            break
        _copy(heap[at], heap[parent])
        at = parent
    event = heap[at]
    event.time, event.order, event.kind, event.who, event.frame = time, order, kind, who, frame


@compiled
def drop_event(world: World) -> None:
    """Remove the first event, heap[0]."""
    me, heap = world.me, world.heap
    me.events -= 1
    n, at = int64(me.events), int64(0)
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
    """The place of the earlier of two: chosen without a jump, which would be foreseen half of the time."""
    return other if _is_earlier(heap[other], heap[one]) else one


@compiled
def _is_earlier(event: Event, other: Event) -> bool:
    return bool((event.time < other.time) | ((event.time == other.time) & (event.order < other.order)))


@compiled
def _copy(to: Event, event: Event) -> None:
    to.time, to.order, to.kind, to.who, to.frame = (
        event.time, event.order, event.kind, event.who, event.frame
    )  # fmt: skip
