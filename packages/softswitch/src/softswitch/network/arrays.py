"""The arrays of a network (`state.NetworkState`): made from its switches, hosts and links, and extended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from nativekit.records import Octets, Records, one_record, records, sparse_zeros, with_arrays
from softswitch.compiled import OUT_CAPACITY
from softswitch.network.loop import MARGIN
from softswitch.network.state import (
    ABSENT,
    MAX_DEFERRED,
    BufferedFrames,
    Deferred,
    Flow,
    FrameState,
    HostState,
    LinkState,
    NetworkHeader,
    NetworkInterface,
    NetworkState,
    Receipt,
    ScheduledEvent,
    SwitchState,
    Template,
)
from softswitch.queues.shape import Shape
from softswitch.queues.state import make_queues
from softswitch.v1model import PORT_NUMBERS

_FIRST_FRAMES = 4 * MARGIN
_FIRST_FLOWS = 64
_FIRST_OCTETS = 1 << 16
_FIRST_RECEIPTS = 2 * MARGIN
_ALIGNMENT = 64
R = TypeVar("R")
M = TypeVar("M", bound=BufferedFrames)


class NetworkSizes(NamedTuple):
    """The numbers of objects that the arrays of a network have room for."""

    switches: int
    hosts: int
    shapes: Sequence[Shape]  # of the queues of each interface
    priorities: int
    frame_bytes: int  # the largest frame, or record of a waiting packet


def make_state(sizes: NetworkSizes, seed: int, output_buffer: Octets) -> NetworkState:
    """Return the arrays of a network without interfaces' ends, links' rates and switches' programs."""
    interfaces = len(sizes.shapes)
    queues = make_queues(sizes.shapes, sizes.priorities)
    stride = -(-sizes.frame_bytes // _ALIGNMENT) * _ALIGNMENT
    header = one_record(NetworkHeader)
    header.out, header.out_bytes = output_buffer.ctypes.data, OUT_CAPACITY
    header.frame_stride = header.frame_room = stride
    header.random, header.traced = np.uint64(seed), ABSENT
    state = NetworkState(
        header=header,
        heap=records(0, ScheduledEvent),
        frames=records(0, FrameState),
        octets=np.zeros((0, stride), np.uint8),
        free=np.zeros(0, np.int64),
        links=records(interfaces, LinkState),
        interfaces=records(interfaces, NetworkInterface),
        ports=np.full((max(sizes.switches, 1), PORT_NUMBERS), ABSENT, np.int64),
        switches=records(sizes.switches, SwitchState),
        hosts=records(sizes.hosts, HostState),
        queues=queues,
        queued=np.zeros(len(queues.slots), np.int64),
        ready=np.zeros(max(interfaces, 1), np.int64),
        flows=records(_FIRST_FLOWS, Flow),
        times=np.zeros(0, np.int64),
        templates=records(_FIRST_FLOWS, Template),
        template_octets=np.zeros(_FIRST_OCTETS, np.uint8),
        receipts=records(_FIRST_RECEIPTS, Receipt),
        deferred=records(MAX_DEFERRED, Deferred),
    )
    for name in ("switch", "host", "peer"):
        state.interfaces[name] = ABSENT
    state.hosts["wake_frame"] = header.failed_host = ABSENT
    return with_frames_and_events(state, _FIRST_FRAMES)


def with_frames_and_events(state: NetworkState, count: int) -> NetworkState:
    """Return the state with `count` frames; no more events than frames, interfaces and flows can wait."""
    return with_events(with_frames(state, count))


def with_frames(state: M, count: int) -> M:
    """Return a state, a `NamedTuple`, with `count` frames, of which it has fewer."""
    old_count, free_count = len(state.frames), int(state.header.free)
    octets = sparse_zeros((count, int(state.header.frame_stride)), np.dtype(np.uint8))
    if old_count:
        octets[:old_count] = state.octets
    free = np.zeros(count, np.int64)
    # The frames that are used first are the ones that have been used before.
    free[: count - old_count] = np.arange(count - 1, old_count - 1, -1)
    free[count - old_count : count - old_count + free_count] = state.free[:free_count]
    state.header.free = free_count + count - old_count
    state.header.frames_at = octets.ctypes.data + int(state.header.frame_offset)
    return with_arrays(state, frames=extend(state.frames, count, FrameState), octets=octets, free=free)


def frame_octets(state: BufferedFrames, f: int) -> Octets:
    """Return the octets of a buffer that a frame may have."""
    offset = int(state.header.frame_offset)
    octets: Octets = state.octets[f, offset : offset + int(state.header.frame_room)]
    return octets


def with_events(state: NetworkState) -> NetworkState:
    needed = len(state.frames) + len(state.interfaces) + len(state.flows) + 1
    return with_arrays(state, heap=extend(state.heap, max(needed, len(state.heap)), ScheduledEvent))


def extend(array: Records[R], count: int, kind: type[R]) -> Records[R]:
    extended = records(count, kind)
    extended[: len(array)] = array
    return extended
