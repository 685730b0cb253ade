"""Events in order, and cables: when a frame arrives, what is dropped, marked, doubled and late."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.protocol import frames
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from hotline_agents.interface import NEVER
from hotline_simulator.costs import Network, links_of
from hotline_simulator.links import fill_head, swap_endpoints
from hotline_simulator.state import FRAME_BYTES, HEAD_BYTES
from nativekit.plain import plain
from nativekit.records import Ints, Octets, Records, one_record, records
from softswitch.network.arrays import with_frames
from softswitch.network.events import pop_event, push_event
from softswitch.network.links import mark_congestion, octets_at, send_over
from softswitch.network.state import ARRIVES, FrameState, NetworkHeader, ScheduledEvent

A = UdpEndpoint("02:00:00:00:01:01", "10.0.1.1", 20002)
B = UdpEndpoint("02:00:00:00:03:01", "10.0.3.1", 4800)
_put, _drop = plain(push_event), plain(pop_event)


def octets_by_ctypes(address: int, length: int) -> Octets:
    """Do what `octets_at` does, with an address that numba's pointers do not hide from Python."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * length).from_address(int(address)))


_carry = plain(send_over, {octets_at: octets_by_ctypes})


class Frames(NamedTuple):
    """The state that `send_over` needs."""

    header: NetworkHeader
    heap: Records[ScheduledEvent]
    frames: Records[FrameState]
    octets: Octets
    free: Ints


def world(n: int = 64, seed: int = 1) -> Frames:
    header = one_record(NetworkHeader)
    header.random, header.frame_stride, header.frame_room = np.uint64(seed), FRAME_BYTES, FRAME_BYTES
    empty = Frames(header, records(4 * n, ScheduledEvent), records(0, FrameState), np.zeros((0, 0), np.uint8),
                   np.zeros(0, np.int64))  # fmt: skip
    return with_frames(empty, n)


def taken(of: Frames) -> list[tuple[int, int]]:
    """Return time and frame of all events, in order."""
    found = []
    while of.header.events:
        found.append((int(of.heap[0].time), int(of.heap[0].frame)))
        _drop(of)
    return found


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(0, 20))
def test_events_come_in_the_order_of_time_and_equal_times_keep_their_order(
    times: list[int], early: int
) -> None:
    found, model = world(), list[tuple[int, int]]()
    for number, time in enumerate(times):
        if number == early and model:
            assert (found.heap[0].time, found.heap[0].frame) == min(model)
            model.remove(min(model))
            _drop(found)
        _put(found, time, ARRIVES, 0, number)
        model.append((time, number))
    assert taken(found) == sorted(model)


def put(of: Frames, link: Any, length: int, now: int) -> int:
    of.header.free -= 1
    f = int(of.free[of.header.free])
    of.frames[f].length = length
    _carry(of, link, f, now, ARRIVES, 0)
    return f


def test_a_frame_takes_transmission_and_delay_and_waits_for_earlier_frames() -> None:
    """At 8 Mbit/s a byte takes 1 µs; a frame has 24 more on the wire."""
    found, link = world(), links_of(Network(rate_mbit=8, delay_us=50), 1)[0]
    for now in (0, 0, 10_000_000):
        put(found, link, 76, now)
    assert [time for time, _ in taken(found)] == [150_000, 250_000, 10_150_000]
    assert (link.waited, link.longest_queue, link.frames, link.bytes) == (100_000, 176, 3, 228)


def test_frames_that_do_not_fit_the_queue_are_dropped() -> None:
    found, link = world(), links_of(Network(rate_mbit=8, delay_us=0, queue_kb=1), 1)[0]
    for _ in range(12):
        put(found, link, 100, 0)
    # 124 µs each on the wire: after k frames 124 k bytes wait, and the ninth finds 992.
    assert (link.dropped, link.dropped_bytes) == (4, 400)
    assert len(taken(found)) == 8 and found.header.free == 64 - 8


def test_a_cable_without_limit_takes_no_time() -> None:
    found, link = world(), links_of(Network(rate_mbit=0, delay_us=3, queue_kb=1), 1)[0]
    for _ in range(50):
        put(found, link, 1000, 7)
    assert {time for time, _ in taken(found)} == {3_007} and link.dropped == 0


def test_faults_have_their_configured_rates_and_every_frame_is_accounted_for() -> None:
    network = Network(rate_mbit=0, delay_us=1, loss=0.2, duplication=0.3, reordering=0.25, extra_delay_us=5)
    found, link = world(), links_of(network, 1)[0]
    arrived = []
    for _ in range(2000):
        put(found, link, 60, 0)
        for time, f in taken(found):
            arrived.append(time)
            found.free[found.header.free] = f
            found.header.free += 1
    assert link.frames + link.doubled == len(arrived) + link.lost and found.header.free == 64
    shares = (link.lost / 2000, link.doubled / 1600, link.delayed / 1600)
    assert shares == pytest.approx((0.2, 0.3, 0.25), abs=0.04)
    assert {time for time in arrived if time != 1_000} and max(arrived) < 6_000
    assert sum(time > 1_000 for time in arrived) <= link.delayed


@given(st.integers(0, 1500))
def test_a_finished_head_is_a_whole_frames(datagram: int) -> None:
    whole = frames.build(UdpFrame(A, B, bytes(datagram)))
    head = np.frombuffer(frames.build(UdpFrame(A, B, b"")), np.uint8).copy()
    plain(fill_head)(head, datagram)
    assert head.tobytes() == whole[:HEAD_BYTES]


def test_an_answer_goes_back_where_the_request_came_from() -> None:
    request = np.frombuffer(frames.build(UdpFrame(A, B, b"x")), np.uint8).copy()[:HEAD_BYTES]
    answer = np.zeros(HEAD_BYTES, np.uint8)
    plain(swap_endpoints)(answer, request)
    plain(fill_head)(answer, 1)
    assert answer.tobytes() == frames.build(UdpFrame(B, A, b"x"))[:HEAD_BYTES]


@pytest.mark.parametrize(("bits", "marked"), [(0, 0), (1, 3), (2, 3), (3, 3)])
def test_only_ecn_capable_frames_are_marked_with_a_valid_checksum(bits: int, marked: int) -> None:
    """RFC 3168 §5: 00 is no ECN, 11 is congestion experienced."""
    head = np.frombuffer(frames.build(UdpFrame(A, B, b"")), np.uint8).copy()
    head[15] = 0xB8 | bits
    plain(fill_head)(head, 10)
    assert plain(mark_congestion)(head) == (bits != 0)
    expected = head.copy()
    assert head[15] == 0xB8 | marked
    plain(fill_head)(expected, 10)
    assert head.tobytes() == expected.tobytes()


def test_ecn_capable_frames_are_marked_in_a_long_queue() -> None:
    found, link = world(), links_of(Network(rate_mbit=8, delay_us=0, mark_kb=0.25), 1)[0]
    head = np.frombuffer(frames.build(UdpFrame(A, B, b"")), np.uint8)
    found.octets[:, :HEAD_BYTES] = head
    found.octets[:, 15] = 2
    sent = [put(found, link, 100, 0) for _ in range(5)]
    # Before them wait 0, 124, 248, 372 and 496 bytes, of which 256 are no congestion.
    assert [int(found.octets[f, 15]) for f in sent] == [2, 2, 2, 3, 3]
    assert (link.marked, link.ecn_threshold) == (2, 256) and links_of(Network(), 1)[0].ecn_threshold == NEVER
