"""The arrays of a running network, and the calls of its compiled event loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from nativekit.reference import pinned_ref
from softswitch.compiled import OUT_CAPACITY
from softswitch.errors import SwitchError
from softswitch.network import loop
from softswitch.network.arrays import (
    NetworkSizes,
    extend,
    frame_octets,
    make_state,
    with_events,
    with_frames_and_events,
)
from softswitch.network.compiled_handlers import CompiledHandler
from softswitch.network.flow import Receipts, Schedule
from softswitch.network.state import ABSENT, Flow, NetworkState, Receipt, Template

_NS_PER_US, _NS_PER_S = 1e3, 1e9
_NEVER = 1 << 62
_WORD = 1 << 64
_GOLDEN = 0x9E3779B97F4A7C15  # spreads the seeds of flows


class DeferredFrame(NamedTuple):
    """A frame or notice for Python (`state.Deferred`)."""

    kind: int
    target: int
    data: bytes


class Engine:
    def __init__(self, sizes: NetworkSizes, seed: int, host_names: Sequence[str]) -> None:
        self._seed, self._host_names = seed, host_names
        self._output_buffer = np.zeros(OUT_CAPACITY, np.uint8)
        self._flow_count = self._template_count = self._octet_count = 0
        self._use(make_state(sizes, seed % _WORD, self._output_buffer))

    def _use(self, state: NetworkState) -> None:
        self.state = state
        self._reference = pinned_ref(state, loop.write_network)

    @property
    def now(self) -> int:
        return int(self.state.header.now)

    def next_event(self) -> int:
        """Return the time of the next event, ns; `_NEVER` if there is none."""
        return int(self.state.heap[0].time) if self.state.header.events else _NEVER

    def run(self, until: int) -> bool:
        """Handle the events up to a time, ns; return early with True if frames wait for `take_deferred`."""
        while True:
            reason = loop.run(self._reference, until)
            if reason == loop.OUT_OF_ROOM:
                self._use(with_frames_and_events(self.state, 2 * len(self.state.frames)))
            elif reason == loop.LOG_FULL:
                receipts = extend(self.state.receipts, 2 * len(self.state.receipts), Receipt)
                self._use(self.state._replace(receipts=receipts))
            elif reason == loop.STUCK:
                raise SwitchError(
                    f"at {self.now / _NS_PER_S:.9f} s {loop.MAX_AT_ONCE} events have happened, and no time "
                    "has passed: frames circulate on links without delay and mbit"
                )
            elif reason == loop.FAILED:
                self._raise_failure()
            elif reason != loop.PAUSED:
                return bool(reason == loop.DEFERRED)

    def _raise_failure(self) -> NoReturn:
        header = self.state.header
        name, length = self._host_names[int(header.failed_host)], int(header.failed_length)
        header.failed_host = ABSENT
        place = f"at {self.now / _NS_PER_S:.9f} s the compiled handler of host {name}"
        if length == ABSENT:
            raise SwitchError(f"{place} has raised an exception")
        raise SwitchError(f"{place} sends {_bad_length(length, int(header.frame_room))}")

    def set_handler(self, host: int, handler: CompiledHandler, at: int) -> None:
        state = handler.state
        loop.set_handler(self._reference, host, handler.address, state.ctypes.data, len(state), at)

    def advance(self, now: int) -> None:
        """Set the time, up to which all events have been handled."""
        self.state.header.now = now

    def take_deferred(self) -> list[DeferredFrame]:
        header, state = self.state.header, self.state
        taken = []
        for deferred in state.deferred[: header.deferred]:
            f = int(deferred.frame)
            data = frame_octets(state, f)[: int(state.frames[f].length)].tobytes()
            taken.append(DeferredFrame(int(deferred.kind), int(deferred.target), data))
            state.free[header.free] = f
            header.free += 1
        header.deferred = 0
        return taken

    # -- frames from Python

    def transmit(self, interface: int, frame: bytes) -> None:
        """Send a frame from the host at an interface."""
        loop.transmit(self._reference, interface, self._new_frame(frame))

    def inject(self, interface: int, frame: bytes) -> None:
        """Have a frame arrive at an interface now."""
        loop.inject(self._reference, interface, self._new_frame(frame))

    def _new_frame(self, data: bytes) -> int:
        self._check_length(data)
        if self.state.header.free < loop.MARGIN:
            self._use(with_frames_and_events(self.state, 2 * len(self.state.frames)))
        state, header = self.state, self.state.header
        header.free -= 1
        f = int(state.free[header.free])
        frame_octets(state, f)[: len(data)] = np.frombuffer(data, np.uint8)
        frame = state.frames[f]
        frame.length, frame.flow, frame.sent = len(data), -1, header.now
        return f

    def _check_length(self, frame: bytes) -> None:
        longest = int(self.state.header.frame_room)
        if not 0 < len(frame) <= longest:
            raise SwitchError(_bad_length(len(frame), longest))

    # -- flows

    def begin_flow(self, host: int, frames: Sequence[bytes], schedule: Schedule, is_logged: bool) -> int:
        """Return the number of a flow, whose first frame is an event from now on."""
        for frame in frames:
            self._check_length(frame)
        times = schedule.times_ns()
        k, begin = self._flow_count, max(round(schedule.begin_us * _NS_PER_US), self.now)
        state = self.state._replace(times=np.concatenate([self.state.times, times]))
        first_template, state = self._add_templates(state, frames)
        if k == len(state.flows):
            state = with_events(state._replace(flows=extend(state.flows, 2 * k, Flow)))
        flow = state.flows[k]
        flow.kind, flow.host, flow.interval = schedule.kind, host, schedule.interval_ns
        flow.first_template, flow.templates = first_template, len(frames)
        flow.first_time, flow.begin, flow.count = len(self.state.times), begin, schedule.count
        flow.min_delay, flow.is_logged = _NEVER, is_logged
        flow.random = np.uint64((self._seed + (k + 1) * _GOLDEN) % _WORD)
        self._flow_count += 1
        self._use(state)
        loop.begin_flow(self._reference, k, begin + (int(times[0]) if len(times) else 0))
        return k

    def _add_templates(self, state: NetworkState, frames: Sequence[bytes]) -> tuple[int, NetworkState]:
        first, begin = self._template_count, self._octet_count
        lengths, octets = np.array([len(frame) for frame in frames]), b"".join(frames)
        self._template_count, self._octet_count = first + len(frames), begin + len(octets)
        while self._template_count > len(state.templates):
            state = state._replace(templates=extend(state.templates, 2 * len(state.templates), Template))
        while self._octet_count > len(state.template_octets):
            room = state.template_octets
            state = state._replace(template_octets=np.concatenate([room, np.zeros_like(room)]))
        added = state.templates[first : self._template_count]
        added["length"], added["offset"] = lengths, begin + np.cumsum(lengths) - lengths
        state.template_octets[begin : self._octet_count] = np.frombuffer(octets, np.uint8)
        return first, state

    def receipts(self, k: int) -> Receipts:
        log = self.state.receipts[: int(self.state.header.receipts)]
        rows = log[log.flow == k]
        return Receipts(rows.host.copy(), rows.sent.copy(), rows.received.copy(), rows.length.copy())

    def trace(self, k: int) -> None:
        """Have `take_deferred` return the frames of a flow on each link, and of no other flow."""
        self.state.header.traced = k

    # -- queues

    def reschedule(self, interface: int) -> None:
        loop.reschedule(self._reference, interface)


def _bad_length(length: int, longest: int) -> str:
    return f"a frame of {length} bytes: expected 1 to {longest}: set max_frame_bytes"
