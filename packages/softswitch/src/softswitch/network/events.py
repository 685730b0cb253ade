"""The event queue: a heap with four children a node. Events of equal times keep their order."""

from __future__ import annotations

from typing import Protocol

from nativekit.compile import compiled
from nativekit.records import Records
from softswitch.network.state import ScheduledEvent


class EventsHeader(Protocol):
    order: int
    events: int


class Scheduler(Protocol):
    """Any state with an event queue."""

    @property
    def header(self) -> EventsHeader: ...

    @property
    def heap(self) -> Records[ScheduledEvent]: ...


@compiled
def push_event(state: Scheduler, time: int, kind: int, target: int, frame: int) -> None:
    header, heap = state.header, state.heap
    order, at = header.order, header.events
    header.order += 1
    header.events += 1
    while at:
        parent = (at - 1) >> 2  # the children of a node are at 4 * node + 1 to 4 * node + 4
        if heap[parent].time <= time:  # of equal times, the event pushed earlier comes first
            break
        _copy(heap[at], heap[parent])
        at = parent
    event = heap[at]
    event.time, event.order, event.kind, event.target, event.frame = time, order, kind, target, frame


@compiled
def pop_event(state: Scheduler) -> None:
    header, heap = state.header, state.heap
    header.events -= 1
    n, at = header.events, 0
    last_event = heap[n]
    while True:
        first = 4 * at + 1
        if first + 3 < n:
            earliest = _earlier_index(
                heap, _earlier_index(heap, first, first + 1), _earlier_index(heap, first + 2, first + 3)
            )
        elif first < n:
            earliest = first
            for child in range(first + 1, n):
                earliest = _earlier_index(heap, earliest, child)
        else:
            break
        if not _is_earlier(heap[earliest], last_event):
            break
        _copy(heap[at], heap[earliest])
        at = earliest
    _copy(heap[at], last_event)


@compiled
def _earlier_index(heap: Records[ScheduledEvent], first: int, second: int) -> int:
    """Return the index of the earlier event, without a branch that would be mispredicted half of the time."""
    return second if _is_earlier(heap[second], heap[first]) else first


@compiled
def _is_earlier(event: ScheduledEvent, other_event: ScheduledEvent) -> bool:
    return bool(
        (event.time < other_event.time)
        | ((event.time == other_event.time) & (event.order < other_event.order))
    )


@compiled
def _copy(destination: ScheduledEvent, source: ScheduledEvent) -> None:
    destination.time, destination.order, destination.kind, destination.target, destination.frame = (
        source.time, source.order, source.kind, source.target, source.frame
    )  # fmt: skip
