"""Queues of ports, as machine code and as plain Python, against a model with lists."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nativekit.compile import int64
from nativekit.plain import plain
from softswitch.errors import SwitchError
from softswitch.native import entry_point
from softswitch.queues.fifo import clear, next_departure, put, take
from softswitch.queues.shape import (
    DEFAULT_DEPTH,
    UNLIMITED,
    Depth,
    Rate,
    Shape,
    byte_depth,
    packet_depth,
    parse_depth,
    parse_rate,
)
from softswitch.queues.state import NEVER, NONE, Queues, make_queues
from switch_harness.effort import examples
from switch_harness.wording import mentions

PUT, TAKE, CLEAR = range(3)
SECOND = 10**9
_put, _take, _next = plain(put), plain(take), plain(next_departure)


class Step(NamedTuple):
    kind: int
    port: int
    priority: int
    length: int
    now: int


@entry_point
def _run(queues: Queues, steps: Any, results: Any) -> None:
    """Do the steps; return the slot, the result and the next departure time of each."""
    for k in range(len(steps)):
        kind, port, priority, length, now = steps[k]
        s: int = int64(NONE)
        if kind == PUT:
            s = put(queues, port, priority, length, now)
        elif kind == TAKE:
            s = take(queues, now)
        else:
            clear(queues)
        results[k, 0] = s
        if s != NONE:
            slot = queues.slots[s]
            results[k, 1], results[k, 2] = slot.port, slot.priority
            results[k, 3], results[k, 4] = slot.enq_qdepth, slot.deq_qdepth
        results[k, 5] = next_departure(queues)


_run_plain = plain(_run)


def results_of(run: Any, queues: Queues, steps: Sequence[Step]) -> list[list[int]]:
    results = np.full((len(steps), 6), NONE, np.int64)
    run(queues, np.array(steps, np.int64).reshape(-1, len(Step._fields)), results)
    rows: list[list[int]] = results.tolist()
    return rows


class Item(NamedTuple):
    number: int
    length: int
    due: int
    found: int


class Model:
    """Lists of packets, by port and priority."""

    def __init__(self, shapes: Sequence[Shape], priorities: int) -> None:
        self.shapes = shapes
        self.waiting: list[list[list[Item]]] = [[[] for _ in range(priorities)] for _ in shapes]
        self.last_due = [[-(10**18)] * priorities for _ in shapes]
        self.free_at = [-(10**18)] * len(shapes)
        self.dropped = [0] * len(shapes)

    def put(self, number: int, port: int, priority: int, length: int, now: int) -> int | None:
        """Enqueue a packet; return the number of packets it found, or None if it was dropped."""
        rate, depth = self.shapes[port]
        queue = self.waiting[port][priority]
        if len(queue) == depth.packets or sum(item.length for item in queue) + length > depth.bytes:
            self.dropped[port] += 1
            return None
        gap = SECOND // rate.packets_per_s if rate.packets_per_s else 0
        due = self.last_due[port][priority] = max(now, self.last_due[port][priority] + gap)
        queue.append(Item(number, length, due, len(queue)))
        return len(queue) - 1

    def due(self, port: int) -> int:
        heads = [queue[0].due for queue in self.waiting[port] if queue]
        return max(min(heads), self.free_at[port]) if heads else NEVER

    def next(self) -> int:
        return min(map(self.due, range(len(self.shapes))))

    def take(self, now: int) -> tuple[Item, int, int, int] | None:
        """The packet, its port, its priority, and how many it leaves behind."""
        port = min(range(len(self.shapes)), key=self.due)
        if self.due(port) > now:
            return None
        ready = [k for k, queue in enumerate(self.waiting[port]) if queue and queue[0].due <= now]
        queue = self.waiting[port][max(ready)]
        item, bits = queue.pop(0), self.shapes[port].rate.bits_per_s
        if bits:
            wire = -(-(item.length + 24) * 8 * SECOND // bits)
            self.free_at[port] = max(item.due, self.free_at[port]) + wire
        return item, port, max(ready), len(queue)


rates = st.one_of(
    st.just(UNLIMITED),
    st.builds(Rate, st.sampled_from([1, 3, 1000, 10**6, 10**9]), st.just(0)),
    st.builds(Rate, st.just(0), st.sampled_from([1, 8_000, 10**6, 10**10, 3 * 10**11])),
    st.just(Rate(packets_per_s=1000, bits_per_s=10**6)),
)
depths = st.one_of(st.builds(packet_depth, st.integers(1, 5)), st.builds(byte_depth, st.integers(1, 400)))
shapes = st.lists(st.builds(Shape, rates, depths), min_size=1, max_size=4)


@settings(max_examples=examples(150))
@given(data=st.data(), shapes=shapes, priorities=st.integers(1, 3))
def test_queues_behave_like_a_model_with_lists(
    data: st.DataObject, shapes: list[Shape], priorities: int
) -> None:
    """Packets come in and go out at any times, late ones too."""
    gaps = st.sampled_from([0, 0, 1, 672, 1_000, 1_000_000, SECOND // 3, SECOND])
    packets = st.tuples(
        st.sampled_from([PUT, PUT, TAKE]),
        st.integers(0, len(shapes) - 1),
        st.integers(0, priorities - 1),
        st.sampled_from([0, 1, 60, 61, 100, 1514]),
        gaps,
    )
    steps, now = list[Step](), 0
    for kind, to, of, length, gap in data.draw(st.lists(packets, max_size=60)):
        now += gap
        steps.append(Step(kind, to, of, length, now))
    model, fast, slow = Model(shapes, priorities), *(make_queues(shapes, priorities) for _ in range(2))
    rows = results_of(_run, fast, steps)
    assert rows == results_of(_run_plain, slow, steps)
    numbers: dict[int, int] = {}
    for k, (step, (slot, port, priority, enq, deq, following)) in enumerate(zip(steps, rows, strict=True)):
        if step.kind == PUT:
            found = model.put(k, *step[1:])
            assert (slot == NONE) == (found is None)
            if found is not None:
                assert slot not in numbers
                numbers[slot] = k
                assert (port, priority, enq) == (step.port, step.priority, found)
        else:
            taken = model.take(step.now)
            assert (slot == NONE) == (taken is None)
            if taken is not None:
                item, *rest = taken
                assert (numbers.pop(slot), enq) == (item.number, item.found)
                assert [port, priority, deq] == rest
        assert following == model.next()
    for queues in (fast, slow):
        assert queues.queues["dropped"].sum(axis=1).tolist() == model.dropped
    clearing = [Step(CLEAR, 0, 0, 0, now), Step(TAKE, 0, 0, 0, NEVER)]
    assert [row[5] for row in results_of(_run, fast, clearing)] == [NEVER, NEVER]
    assert fast.queues["dropped"].sum() == sum(model.dropped) + len(numbers)
    assert not fast.queues["packets"].any() and not fast.queues["bytes"].any()


def departures(queues: Queues) -> list[tuple[int, int]]:
    """Return (time, length) of all waiting packets, each taken at its departure time."""
    found = []
    while (now := _next(queues)) != NEVER:
        slot = queues.slots[_take(queues, now)]
        found.append((now, int(slot.length)))
    return found


def one(rate: Rate = UNLIMITED, depth: Depth = DEFAULT_DEPTH, priorities: int = 1) -> Queues:
    return make_queues([Shape(rate, depth)], priorities)


def test_the_first_packet_leaves_at_once_and_later_packets_leave_a_gap_apart() -> None:
    queues = one(Rate(packets_per_s=1000))
    assert [_put(queues, 0, 0, 100, now) for now in (5, 5, 1_000_006)] == [0, 1, 2]
    assert _take(queues, 4) == NONE
    assert [now for now, _ in departures(queues)] == [5, 1_000_005, 2_000_005]
    _put(queues, 0, 0, 100, 9_000_000)
    assert _next(queues) == 9_000_000


def test_a_late_departure_does_not_delay_later_packets() -> None:
    """As in BMv2, a packet's departure time is computed when it arrives."""
    # At 992 kbit/s, 100 B occupy the wire for a millisecond.
    for rate in (Rate(packets_per_s=1000), Rate(bits_per_s=992_000)):
        queues = one(rate)
        for _ in range(3):
            _put(queues, 0, 0, 100, 0)
        assert _take(queues, 1_900_000) != NONE
        assert _next(queues) == 1_000_000
        assert _take(queues, 1_900_000) != NONE
        assert _take(queues, 1_900_000) == NONE


def test_the_time_of_a_frame_on_a_link_includes_preamble_checksum_and_gap() -> None:
    queues = one(Rate(bits_per_s=8_000_000))
    for length in (76, 176, 60):
        _put(queues, 0, 0, length, 0)
    assert departures(queues) == [(0, 76), (100_000, 176), (300_000, 60)]


def test_a_link_never_goes_faster_than_its_rate() -> None:
    queues = one(Rate(bits_per_s=3 * 10**11))
    for _ in range(64):
        _put(queues, 0, 0, 60, 0)
    times = [now for now, _ in departures(queues)]
    assert all((later - sooner) * 3 * 10**11 >= 84 * 8 * SECOND for sooner, later in pairwise(times))


def test_the_highest_priority_goes_first_and_each_has_its_own_packet_rate() -> None:
    queues = one(Rate(packets_per_s=1000), priorities=3)
    for priority in (0, 0, 2, 1, 2):
        _put(queues, 0, priority, 60, 0)
    order = [int(queues.slots[_take(queues, 0)].priority) for _ in range(3)]
    assert (order, _next(queues)) == ([2, 1, 0], 1_000_000)


def test_priorities_share_a_link() -> None:
    queues = one(Rate(bits_per_s=8_000_000), priorities=2)
    for priority in (0, 0, 1):
        _put(queues, 0, priority, 76, 0)
    order = []
    while (now := _next(queues)) != NEVER:
        order.append((now, int(queues.slots[_take(queues, now)].priority)))
    assert order == [(0, 1), (100_000, 0), (200_000, 0)]


def test_a_full_queue_drops_packets_and_a_departure_makes_room_for_a_packet() -> None:
    queues = one(Rate(packets_per_s=1), packet_depth(2))
    assert [_put(queues, 0, 0, 60, 0) for _ in range(4)] == [0, 1, NONE, NONE]
    assert queues.queues[0, 0].dropped == 2
    assert _take(queues, 0) == 0
    assert _put(queues, 0, 0, 60, 0) == 0
    assert queues.slots[0].enq_qdepth == 1


def test_a_queue_of_bytes_takes_packets_that_still_fit() -> None:
    queues = one(Rate(packets_per_s=1), byte_depth(200))
    assert [_put(queues, 0, 0, length, 0) != NONE for length in (100, 101, 100, 1)] == [
        True,
        False,
        True,
        False,
    ]
    queues = one(Rate(packets_per_s=1), byte_depth(200))
    assert sum(_put(queues, 0, 0, 1, 0) != NONE for _ in range(200)) == 3  # of 60 B at least


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1000pps", Rate(packets_per_s=1000)),
        ("1bit", Rate(bits_per_s=1)),
        ("64kbit", Rate(bits_per_s=64_000)),
        ("10mbit", Rate(bits_per_s=10**7)),
        ("1000gbit", Rate(bits_per_s=10**12)),
    ],
)
def test_rates_are_parsed(text: str, rate: Rate) -> None:
    assert parse_rate(text) == rate


def test_depths_of_queues_are_parsed() -> None:
    assert parse_depth("64") == DEFAULT_DEPTH
    assert parse_depth("60b") == Depth(1, 60)
    assert parse_depth("64kb") == Depth(1092, 65_536)
    assert parse_depth("1mb") == Depth(17_476, 1 << 20)


@pytest.mark.parametrize(
    "text", ["", "10", "0pps", "1001gbit", "1.5mbit", "10Mbit", "-1pps", "10 mbit", "٣pps"]
)
def test_invalid_rates_are_refused(text: str) -> None:
    with pytest.raises(SwitchError, match=mentions("number", text)):
        parse_rate(text)


@pytest.mark.parametrize("text", ["", "0", "0kb", "65537", "4mb", "64pkts", "64k", "1.5kb", "٣"])
def test_invalid_depths_are_refused(text: str) -> None:
    with pytest.raises(SwitchError, match=mentions(1, 65536, text)):
        parse_depth(text)
