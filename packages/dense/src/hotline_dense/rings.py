"""Ring all-reduces on simulated links: every frame of every step, from host to host.

In each step a host sends a part of a buffer to the next host, which adds it and sends the sum in its next
step. The messages of steps that are due share a host's link round-robin, frame by frame.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from foundation.compiled import entry_point
from hotline_simulator.state import HEAD_BYTES
from nativekit.compile import compiled, int64
from softswitch.network.events import pop_event, push_event
from softswitch.network.links import free_frame, new_frame, send_over

DUE, FREE, AT_SWITCH, AT_HOST, READY = range(5)
"""Events: a step may be sent, a link is free, a frame reached the switch or a host, a buffer is ready."""
_NO_FRAME = 0  # frame of an event that has none


class Rings(NamedTuple):
    """State of n hosts, b buffers, f frames, in ns; `softswitch.network.links` uses the first four fields."""

    header: Any  # NetworkHeader
    heap: Any  # EVENT[events]: scheduled events, the next first
    frames: Any  # FrameState[f]: frames on links and in queues; `flow` is the number of their buffer
    free: Any  # int64[f]: the first header.free are unused frames
    up: Any  # LinkState[n]: links from hosts to the switch
    down: Any  # LinkState[n]: links from the switch to hosts
    ready_times: Any  # int64[b]: time at which each host has a buffer's gradients
    part_bytes: Any  # int64[b]: bytes sent in a step
    add_times: Any  # int64[b]: time to add one part
    due_frames: Any  # int64[b, n]: frames that each host may send by now, in all steps so far
    sent_frames: Any  # int64[b, n]: frames sent
    received_frames: Any  # int64[b, n]: frames received
    end_times: Any  # int64[b, n]: end of each buffer's all-reduce at each host
    begun_buffers: Any  # int64[n]: number of buffers begun, in order
    active_buffers: Any  # int64[n]: number of buffers begun and not finished
    is_sending: Any  # int64[n]: 1 while the host's link sends
    last_buffer: Any  # int64[n]: buffer of the frame sent last


@entry_point
def run_rings(rings: Any, payload: int, startup: int, at_once: int) -> None:
    """Run until all buffers are reduced; each step's message is delayed by `startup` ns."""
    header, heap = rings.header, rings.heap
    for b in range(len(rings.ready_times)):
        for h in range(len(rings.up)):
            push_event(rings, int64(rings.ready_times[b]), READY, h, b)
    while header.events:
        # For READY and DUE, the event's `frame` is a buffer.
        now, kind = int64(heap[0].time), int64(heap[0].kind)
        h, f = int64(heap[0].target), int64(heap[0].frame)
        pop_event(rings)
        if kind == READY:
            _begin_buffers(rings, h, now, startup, at_once)
        elif kind == DUE:
            rings.due_frames[f, h] += _count_frames_per_step(rings, f, payload)
            if not rings.is_sending[h]:
                _send_frame(rings, h, now, payload)
        elif kind == FREE:
            _send_frame(rings, h, now, payload)
        elif kind == AT_SWITCH:
            next_host = (h + 1) % len(rings.up)
            send_over(rings, rings.down[next_host], f, now, AT_HOST, next_host)
        else:
            b = int64(rings.frames[f].flow)
            free_frame(rings, f)
            _receive_frame(rings, b, h, now, payload, startup, at_once)


@compiled
def _count_frames_per_step(rings: Any, b: int, payload: int) -> int:
    return (int64(rings.part_bytes[b]) + payload - 1) // payload


@compiled
def _begin_buffers(rings: Any, h: int, now: int, startup: int, at_once: int) -> None:
    while rings.active_buffers[h] < at_once and rings.begun_buffers[h] < len(rings.ready_times):
        b = int64(rings.begun_buffers[h])
        if rings.ready_times[b] > now:
            return
        rings.begun_buffers[h] += 1
        rings.active_buffers[h] += 1
        push_event(rings, now + startup, DUE, h, b)


@compiled
def _send_frame(rings: Any, h: int, now: int, payload: int) -> None:
    buffer_count = len(rings.ready_times)
    rings.is_sending[h] = 0
    # Round-robin: search from the buffer after that of the last frame.
    b = int64(rings.last_buffer[h])
    for _ in range(buffer_count):
        b = (b + 1) % buffer_count
        if rings.sent_frames[b, h] < rings.due_frames[b, h]:
            break
    if rings.sent_frames[b, h] >= rings.due_frames[b, h]:
        return
    rings.last_buffer[h] = b
    frames_per_step = _count_frames_per_step(rings, b, payload)
    is_last = rings.sent_frames[b, h] % frames_per_step == frames_per_step - 1
    rings.sent_frames[b, h] += 1
    last_bytes = int64(rings.part_bytes[b]) - (frames_per_step - 1) * payload
    f = new_frame(rings, HEAD_BYTES + (last_bytes if is_last else payload), b, now)
    send_over(rings, rings.up[h], f, now, AT_SWITCH, h)
    rings.is_sending[h] = 1
    push_event(rings, int64(rings.up[h].free_at), FREE, h, _NO_FRAME)


@compiled
def _receive_frame(rings: Any, b: int, h: int, now: int, payload: int, startup: int, at_once: int) -> None:
    hosts = len(rings.up)
    rings.received_frames[b, h] += 1
    frames_per_step = _count_frames_per_step(rings, b, payload)
    if rings.received_frames[b, h] % frames_per_step:
        return
    # The first n - 1 steps reduce and scatter; the others gather sums, to which nothing is added.
    steps = rings.received_frames[b, h] // frames_per_step
    add_ns = int64(rings.add_times[b]) if steps <= hosts - 1 else 0
    if steps < 2 * (hosts - 1):
        push_event(rings, now + add_ns + startup, DUE, h, b)
        return
    rings.end_times[b, h] = now
    rings.active_buffers[h] -= 1
    _begin_buffers(rings, h, now, startup, at_once)
