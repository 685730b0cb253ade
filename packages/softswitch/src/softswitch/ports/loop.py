"""Ports of a running switch: open the sockets, run the compiled loop in a thread, read its counters."""

import contextlib
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from softswitch.errors import PortError
from softswitch.memory.output import record_bytes
from softswitch.messages import pluralize
from softswitch.ports import forwarding
from softswitch.ports.backpressure import SEND_BUFFER_BYTES
from softswitch.ports.capture import NO_FILE, open_files
from softswitch.ports.epoll import make_timer, watch
from softswitch.ports.impairment import Direction, Impairment
from softswitch.ports.layout import (
    BURST,
    FRAME,
    IN,
    NO_PORT,
    NOTICES_LOST,
    OUT,
    OUT_BYTES,
    REORDER_SLOTS,
    STOP_EVENT,
    STOPPED,
    SWITCH,
    TIMER,
)
from softswitch.ports.options import PortOptions
from softswitch.ports.reorder_buffer import fill_reorder_buffer
from softswitch.ports.report import PortCounters, SwitchCounters
from softswitch.ports.sockets import ControlSockets, PortSocket, ring_bytes_per_port
from softswitch.queues.shape import DEFAULT_DEPTH, UNLIMITED, Shape, packet_depth
from softswitch.queues.state import NEVER, Queue, Queues, copy_settings, make_queues

_LOG = logging.getLogger(__name__)
DEFAULT_OPTIONS = PortOptions()
REPORT_INTERVAL_US = 10_000_000  # between two warnings of lost notices
_NS_PER_S = 1_000_000_000
_CPU_FRAME_BYTES = 2048  # maximum frame if there are no interfaces, whose MTUs would be the limit


class NativePipeline(Protocol):
    """Addresses of a pipeline in machine code (see `softswitch.pipeline`)."""

    @property
    def process_address(self) -> int:
        """Address of the packet function, whose signature is `native.PROCESS_SIGNATURE`."""

    @property
    def state_address(self) -> int:
        """Address of the state, the first argument of the packet function."""

    @property
    def mutex_address(self) -> int:
        """Address of the pthread_mutex_t that guards the state."""

    @property
    def queue_record_bytes(self) -> int:
        """Bytes of a waiting packet's record besides its payload (`memory.waiting`); 0 without queues."""

    @property
    def waiting_address(self) -> int:
        """Address of the number of threads that wait for the mutex, a uint32."""


class PortLoop(contextlib.AbstractContextManager["PortLoop"]):
    """The switch's ports, by number. They are open until `close`; frames flow between `start` and `stop`.

    `ports` maps port numbers to interface names. A datagram written to `cpu_socket` is processed as a frame
    received on the CPU port, and frames for this port can be read from it. Digests and log records can be
    read from `notice_socket`, one per datagram (`CompiledPipeline.decode_notice`). Both sockets are those of
    `control_sockets`, if given. A buffered pipeline has queues before egress, one for each port and priority.
    `backpressure` maps each port with backpressure (`ports.backpressure`) to whether its send buffer is
    small. `old_loop` is the loop that this loop replaces: its clock, and the queue settings of the ports that
    both have, are copied. Raises PortError.
    """

    def __init__(
        self,
        ports: Mapping[int, str],
        options: PortOptions = DEFAULT_OPTIONS,
        *,
        control_sockets: ControlSockets | None = None,
        backpressure: Mapping[int, bool] = {},
        old_loop: "PortLoop | None" = None,
    ) -> None:
        options.check(ports)
        cpu_port, impairments, shapes, pcap = (
            options.cpu_port,
            options.impairments,
            options.shapes,
            options.pcap,
        )
        self._thread: threading.Thread | None = None
        self._port_names = {**ports, **({} if cpu_port is None else {cpu_port: "CPU"})}
        self._port_numbers = list(self._port_names)
        with contextlib.ExitStack() as exit_stack:
            self._sockets = [
                exit_stack.enter_context(
                    contextlib.closing(PortSocket(number, name, ring_bytes_per_port(len(ports))))
                )
                for number, name in ports.items()
            ]
            self._control = control_sockets or exit_stack.enter_context(contextlib.closing(ControlSockets()))
            self.cpu_socket, self.notice_socket = self._control.cpu_socket, self._control.notice_socket
            self._stop_event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            exit_stack.callback(os.close, self._stop_event)
            self._timer = make_timer()
            exit_stack.callback(os.close, self._timer)
            self._epoll = exit_stack.enter_context(select.epoll())
            self._frame_bytes = max((s.slot_size for s in self._sockets), default=_CPU_FRAME_BYTES)
            self._output_buffer = np.zeros(OUT_BYTES, np.uint8)
            self._cpu_frames = np.zeros(BURST * self._frame_bytes, np.uint8)
            self._records = np.zeros(0, np.uint8)
            self._switch = np.zeros(1, SWITCH)[0]
            unshaped = Shape(UNLIMITED, DEFAULT_DEPTH)
            self._shapes = [shapes.get(number, unshaped) for number in self._port_numbers]
            self._queues = make_queues(self._shapes, options.priority_queues)
            # Whether the version of the loop without queues, impairments and pcap files suffices.
            self._is_plain = not (shapes or backpressure or impairments or pcap)
            self._fill_switch(self._switch, options.busy_poll)
            if old_loop is not None:
                self._switch["start_ns"] = old_loop._switch["start_ns"]
                common_ports = [
                    (self._port_numbers.index(number), p)
                    for p, number in enumerate(old_loop._port_numbers)
                    if number in self._port_numbers
                ]
                copy_settings(self._queues, old_loop._queues, common_ports)
                self._resize_queues(int(self._queues.queues["max_packets"].sum()))
            self._reorder_frames = self._set_impairments(self._switch, impairments)
            self._pending_frames = self._enable_backpressure(self._switch, backpressure)
            self._captured_ports = 0 if pcap is None else self._open_captures(self._switch, pcap, exit_stack)
            self._compile()
            self._exit_stack = exit_stack.pop_all()

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, pipeline: NativePipeline) -> None:
        """Forward through `pipeline`, without frames received before; raises PortError if running already."""
        if self._thread is not None:
            raise PortError("the ports are already running; stop them first")
        for name in ("process", "state", "mutex", "waiting"):
            self._switch[name] = getattr(pipeline, f"{name}_address")
        self._make_records(pipeline.queue_record_bytes)
        self._compile()
        self._thread = threading.Thread(target=self._run, args=(pipeline,), name="ports")
        self._thread.start()

    def stop(self) -> None:
        """Stop forwarding, wait for the loop's end, and drop received frames; may be repeated."""
        if self._thread is not None:
            os.eventfd_write(self._stop_event, 1)
            self._thread.join()
            os.eventfd_read(self._stop_event)
            self._thread = None
            forwarding.discard_frames(self._switch, self._queues_in_use())

    def set_rate(self, rate: int, port: int | None, priority: int | None) -> None:
        """Set the rate of queues in packets/s from the next packet on; 0 is unlimited, None selects all."""
        gap = _NS_PER_S // rate if rate else 0
        for queue in self._select_queues(port, priority):
            queue.gap = gap

    def has_room(self, depth: int, port: int | None, priority: int | None) -> bool:
        """Return whether queues can be set to this depth, in packets, while the loop runs."""
        return self._slots_needed(depth, port, priority) <= len(self._queues.slots)

    def set_depth(self, depth: int, port: int | None, priority: int | None) -> None:
        """Set the depth of queues in packets; unless `has_room`, the loop must not be running."""
        if not self.has_room(depth, port, priority):
            assert self._thread is None
            self._resize_queues(self._slots_needed(depth, port, priority))
        for queue in self._select_queues(port, priority):
            queue.max_packets, queue.max_bytes = packet_depth(depth)

    def _slots_needed(self, depth: int, port: int | None, priority: int | None) -> int:
        queues = self._select_queues(port, priority)
        other_slots = int(self._queues.queues["max_packets"].sum()) - sum(
            int(queue.max_packets) for queue in queues
        )
        return other_slots + depth * len(queues)

    def _resize_queues(self, slots: int) -> None:
        old = self._queues
        _, priority_queues = old.queues.shape
        self._queues = make_queues(self._shapes, priority_queues, slots)
        copy_settings(self._queues, old, [(p, p) for p in range(len(old.ports))])
        self._queues.queues["dropped"] = old.queues["dropped"]

    def _select_queues(self, port: int | None, priority: int | None) -> list[Queue]:
        ports = range(len(self._port_numbers)) if port is None else [self._port_numbers.index(port)]
        _, priority_queues = self._queues.queues.shape
        priorities = range(priority_queues) if priority is None else [priority]
        return [self._queues.queues[p, k] for p in ports for k in priorities]

    def interface_index(self, port: int) -> int:
        return self._sockets[self._port_numbers.index(port)].index

    def attach_again(self, port: int) -> None:
        """Attach a port whose interface was made anew, while frames flow; raises OSError."""
        self._sockets[self._port_numbers.index(port)].bind()

    def close(self) -> None:
        self.stop()
        self._exit_stack.close()

    def counters(self) -> SwitchCounters:
        kernel_drops = [packet_socket.read_kernel_drops() for packet_socket in self._sockets]
        kernel_drops += [0] * (len(self._port_numbers) - len(self._sockets))
        return SwitchCounters(
            ports={
                number: self._port_counters(p, kernel_drops[p]) for p, number in enumerate(self._port_numbers)
            },
            no_such_port=int(self._switch["no_such_port"]),
            lost_notices=int(self._switch["lost_notices"]),
        )

    def now(self) -> int:  # µs since the switch's start
        return (time.monotonic_ns() - int(self._switch["start_ns"])) // 1000

    def _run(self, _pipeline: NativePipeline) -> None:  # the argument keeps the pipeline's memory alive
        while (reason := forwarding.run(self._switch, self._queues_in_use())) != STOPPED:
            if reason == NOTICES_LOST:
                self._report_lost_notices()
            else:
                self._report_oversize(reason)
        self._report_lost_notices()
        self._report_truncated_captures()

    def _queues_in_use(self) -> Queues | None:
        return None if self._is_plain else self._queues

    def _report_lost_notices(self) -> None:
        lost_count, reported_count = int(self._switch["lost_notices"]), int(self._switch["reported_notices"])
        if lost_count == reported_count:
            return
        self._switch["reported_notices"], self._switch["report_at"] = (
            lost_count,
            self.now() + REPORT_INTERVAL_US,
        )
        _LOG.warning(
            "lost %s that the control plane did not read in time, %d since the start",
            pluralize(lost_count - reported_count, "digest or log record", "digests and log records"),
            lost_count,
        )

    def _report_truncated_captures(self) -> None:
        for port in self._switch["ports"][: self._captured_ports]:
            if NO_FILE in port["capture"]:
                name = self._port_names[int(port["number"])]
                _LOG.warning(
                    "port %d (%s): its pcap files end early, because a write failed", port["number"], name
                )

    def _report_oversize(self, p: int) -> None:
        length = self._switch["ports"][p]["largest_oversize"]
        number = self._port_numbers[p]
        _LOG.warning(
            "%s: dropped a frame of %d B: it is larger than the MTU that the interface had when the switch "
            "started, or several frames merged into one (segmentation offload? "
            "`ethtool -K ... tso off gso off`); later ones are only counted",
            f"port {number} ({self._port_names[number]})",
            length,
        )

    def _port_counters(self, p: int, kernel_drops: int) -> PortCounters:
        counts, buffers = self._switch["ports"][p], self._switch["reorder_buffers"][p]
        return PortCounters(
            name=self._port_names[self._port_numbers[p]],
            rx=int(counts["rx"]) + kernel_drops,
            tx=int(counts["tx"]),
            rx_dropped=int(counts["discarded"]) + kernel_drops,
            tx_dropped=int(counts["tx_dropped"]),
            rx_oversize=int(counts["rx_oversize"]),
            tx_oversize=int(counts["tx_oversize"]),
            lost=int(buffers["lost"].sum()),
            duplicated=int(buffers["duplicated"].sum()),
            reordered=int(buffers["reordered"].sum()),
            queue_dropped=int(self._queues.queues[p]["dropped"].sum()),
        )

    def _compile(self) -> None:
        """Compile the loop, or load it from the cache, by running it once with the stop event set.

        Switches with queues, impairments or pcap files have a version of their own. Frames that have arrived
        are dropped.
        """
        # Frames may have arrived already, but no pipeline can process them: poll the stop event only.
        os.eventfd_write(self._stop_event, 1)
        with select.epoll() as stop_epoll:
            watch(stop_epoll.fileno(), self._stop_event, STOP_EVENT)
            self._switch["epoll"] = stop_epoll.fileno()
            forwarding.run(self._switch, self._queues_in_use())
            self._switch["epoll"] = self._epoll.fileno()
        forwarding.discard_frames(self._switch, self._queues_in_use())
        os.eventfd_read(self._stop_event)

    def _fill_switch(self, switch: np.void, busy_poll: bool) -> None:
        switch["epoll"], switch["busy_poll"] = self._epoll.fileno(), busy_poll
        switch["start_ns"] = time.monotonic_ns()
        switch["unix_offset_ns"] = time.time_ns() - time.monotonic_ns()
        switch["output_buffer"], switch["cpu_frames"] = (
            self._output_buffer.ctypes.data,
            self._cpu_frames.ctypes.data,
        )
        switch["frame_bytes"] = self._frame_bytes
        switch["notice_fd"] = self._control.notice_end.fileno()
        batch = switch["send_batch"]
        switch["messages"]["msg_iov"] = batch.ctypes.data + FRAME.itemsize * np.arange(batch.size).reshape(
            batch.shape
        )
        switch["messages"]["msg_iovlen"] = 1
        switch["index_of"] = NO_PORT
        switch["port_count"] = len(self._port_numbers)
        cpu_end = self._control.switch_end.fileno()
        send_fds = [*(packet_socket.sender.fileno() for packet_socket in self._sockets), cpu_end]
        receive_fds = [*(packet_socket.receiver.fileno() for packet_socket in self._sockets), cpu_end]
        for p, number in enumerate(self._port_numbers):
            switch["index_of"][number] = p
            port = switch["ports"][p]
            port["number"], port["fd"], port["receive_fd"] = number, send_fds[p], receive_fds[p]
            watch(self._epoll.fileno(), receive_fds[p], p)
        watch(self._epoll.fileno(), self._stop_event, STOP_EVENT)
        watch(self._epoll.fileno(), self._timer, TIMER)
        switch["timer"], switch["alarm"], switch["retry_at"] = self._timer, NEVER, NEVER
        switch["ports"]["capture"] = NO_FILE
        for port, packet_socket in zip(switch["ports"], self._sockets, strict=False):
            port["ring"], port["slots"] = packet_socket.address, packet_socket.slots
            port["slot_size"] = packet_socket.slot_size

    def _make_records(self, queue_record_bytes: int) -> None:
        self._switch["buffered"] = queue_record_bytes > 0
        if queue_record_bytes:
            self._is_plain = False
            record_size, count = record_bytes(queue_record_bytes + self._frame_bytes), len(self._queues.slots)
            try:
                self._records = np.zeros(count * record_size, np.uint8)
            except MemoryError:
                raise PortError(
                    f"queues of {count} packets need {count * record_size >> 20} MiB: too many"
                ) from None
            self._switch["records"], self._switch["record_bytes"] = self._records.ctypes.data, record_size

    def _enable_backpressure(
        self, switch: np.void, has_small_buffer: Mapping[int, bool]
    ) -> NDArray[np.uint8]:
        frames = np.zeros((len(has_small_buffer), self._frame_bytes), np.uint8)
        for frame_memory, (number, is_small) in zip(frames, has_small_buffer.items(), strict=True):
            p = self._port_numbers.index(number)
            port = switch["ports"][p]
            port["backpressure"], port["pending_frame"] = 1, frame_memory.ctypes.data
            if is_small:
                self._sockets[p].sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        switch["backpressure"] = len(has_small_buffer) > 0
        return frames

    def _open_captures(self, switch: np.void, folder: Path, exit_stack: contextlib.ExitStack) -> int:
        for port, packet_socket in zip(switch["ports"], self._sockets, strict=False):
            port["capture"] = open_files(folder, packet_socket.interface, exit_stack)
        return len(self._sockets)

    def _set_impairments(
        self, switch: np.void, impairments: Mapping[tuple[int, Direction], Impairment]
    ) -> NDArray[np.uint8]:
        frames = np.zeros((len(impairments), REORDER_SLOTS * self._frame_bytes), np.uint8)
        for frame_memory, ((number, direction), impairment) in zip(frames, impairments.items(), strict=True):
            p, direction_index = self._port_numbers.index(number), IN if direction is Direction.IN else OUT
            buffer = switch["reorder_buffers"][p, direction_index]
            slots = switch["reorder_slots"][p, direction_index]
            fill_reorder_buffer(
                buffer,
                slots,
                frame_memory.ctypes.data,
                self._frame_bytes,
                impairment,
                salt=2 * number + direction_index,  # other draws for each direction of each port
            )
            switch["ports"][p]["impaired"][direction_index] = switch["impaired"] = 1
        return frames
