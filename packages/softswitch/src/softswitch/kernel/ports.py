"""Ports whose frames the kernel processes; only frames of the CPU port pass through this process.

A frame is processed on the core of its sender, or on a selected one (`steering`), without waking a process.
The kernel drops frames that an interface refuses. The counters are those of `softswitch.ports`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping

import numpy as np

from softswitch.errors import PortError
from softswitch.kernel import arena, bpf
from softswitch.kernel.front import MAX_FRAME_BYTES
from softswitch.kernel.hooks import Hook
from softswitch.kernel.interfaces import CpuInterface, Interface, tx_drops
from softswitch.kernel.pins import STEERING, Pins
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.kernel.steering import Masks, restore_masks, steer
from softswitch.ports.options import PortOptions
from softswitch.ports.report import PortCounters, SwitchCounters
from softswitch.ports.sockets import ControlSockets
from softswitch.v1model import PORT_NUMBERS

_LOG = logging.getLogger(__name__)
_CPU_BUFFER_BYTES = 1 << 16  # for any frame of the CPU port
_POLL_INTERVAL_S = 1.0
_MAX_FRAMES_PER_WAKEUP = 64
_COUNTER_WORDS = arena.COUNTER_BYTES // 8
_LOSS_COUNTERS = {"no_such_port": arena.NO_SUCH_PORT, "lost_notices": arena.LOST_NOTICES}
_TX_DROPS, _PROGRAM_MAP = "tx_drops", "programs"  # names in the folder of `Pins`


class KernelPorts(contextlib.AbstractContextManager["KernelPorts"]):
    """The switch's ports, used like `ports.loop.PortLoop`; `rps_cpu` selects a CPU (`steering`)."""

    def __init__(
        self,
        ports: Mapping[int, str],
        cpu_port: int | None = None,
        control_sockets: ControlSockets | None = None,
        hook: Hook = Hook.TCX,
        pins: Pins | None = None,
        rps_cpu: int | None = None,
    ) -> None:
        PortOptions(cpu_port).check(ports)
        self._pins = pins
        self._start_ns = time.monotonic_ns()
        self._cpu_interface: CpuInterface | None = None
        self._cpu_port, self._rps_cpu = cpu_port, rps_cpu
        self._pipeline: AttachedPipeline | None = None
        self._thread: threading.Thread | None = None
        self._saved_counters = np.zeros((PORT_NUMBERS, _COUNTER_WORDS), dtype=np.uint64)
        self._saved_runs = np.zeros((arena.possible_cpus(), PORT_NUMBERS), dtype=np.uint64)
        self._saved_losses = dict.fromkeys(_LOSS_COUNTERS, 0)
        """Saved while no pipeline runs, like `_saved_counters` and `_saved_runs`."""
        self._lost_cpu_frames = self._lost_notices = 0
        self._warned_ports: set[int] = set()
        with contextlib.ExitStack() as resources:
            self._control = control_sockets or resources.enter_context(contextlib.closing(ControlSockets()))
            self.cpu_socket, self.notice_socket = self._control.cpu_socket, self._control.notice_socket
            resources.callback(bpf.close, bpf.count_usage())
            self._program_map = self._open_program_map()
            resources.callback(bpf.close, self._program_map)
            self._interfaces: dict[int, Interface] = {}
            for number, name in ports.items():
                interface = Interface(number, name, self._program_map, hook, pins)
                self._interfaces[number] = resources.enter_context(contextlib.closing(interface))
            if cpu_port is not None:
                self._cpu_interface = resources.enter_context(
                    contextlib.closing(CpuInterface(cpu_port, self._program_map, hook, pins))
                )
                self._interfaces[cpu_port] = self._cpu_interface
            self._steer_interfaces(resources)
            self._initial_drops = self._initial_tx_drops()
            self._stop_event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            resources.callback(os.close, self._stop_event)
            self._resources = resources.pop_all()

    def _open_program_map(self) -> int:
        pinned_map = None if self._pins is None else self._pins.open_object(_PROGRAM_MAP)
        program_map = (
            bpf.create_map(bpf.PROGRAMS, key_bytes=4, value_bytes=4, max_entries=1)
            if pinned_map is None
            else pinned_map
        )
        if self._pins is not None and pinned_map is None:
            self._pins.pin(_PROGRAM_MAP, program_map)
        return program_map

    def _steer_interfaces(self, resources: contextlib.ExitStack) -> None:
        """Undo the steering of a previous switch, then steer to the selected CPU, if any."""
        previous_masks: Masks = (None if self._pins is None else self._pins.load(STEERING)) or {}
        restore_masks(previous_masks)
        names = [interface.name for interface in self._interfaces.values()]
        previous_masks = {} if self._rps_cpu is None else steer(names, self._rps_cpu)
        if self._pins is None:
            resources.callback(restore_masks, previous_masks)
        else:
            self._pins.save(STEERING, previous_masks)

    def _initial_tx_drops(self) -> Counter[str]:
        pinned_drops = None if self._pins is None else self._pins.load(_TX_DROPS)
        initial_drops = tx_drops() if pinned_drops is None else Counter(pinned_drops)
        if self._pins is not None and pinned_drops is None:
            self._pins.save(_TX_DROPS, initial_drops)
        return initial_drops

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- start and stop

    def start(self, pipeline: AttachedPipeline) -> None:
        if self._pipeline is not None:
            raise PortError("the ports are already running; stop them first")
        self._pipeline = pipeline
        words = pipeline.arena.words
        if pipeline.arena.is_restored:
            pipeline.finish_replay()
            self._start_ns = int(words[arena.START_NS // 8])
        else:
            words[arena.START_NS // 8] = self._start_ns
            self._port_counters(pipeline)[:] = self._saved_counters
            pipeline.arena.program_runs()[:] = self._saved_runs
            for name, offset in _LOSS_COUNTERS.items():
                words[offset // 8] = self._saved_losses[name]
        self._connect(pipeline)
        bpf.set_program(self._program_map, pipeline.descriptor)
        if self._pins is not None and pipeline.generation is not None:
            self._pins.commit(pipeline.generation)
        self._thread = threading.Thread(target=self._serve_control_plane, args=(pipeline,), name="ports")
        self._thread.start()

    def _connect(self, pipeline: AttachedPipeline) -> None:
        pipeline.arena.connect({number: interface.index for number, interface in self._interfaces.items()})

    def interface_index(self, port: int) -> int:
        return self._interfaces[port].index

    def attach_again(self, port: int) -> None:
        """Attach a port whose interface was made anew, while frames flow; raises OSError or BpfError."""
        interface = self._interfaces[port]
        interface.attach_again()
        self._initial_drops[interface.name] = 0
        if self._rps_cpu is not None:
            steer([interface.name], self._rps_cpu)
        if self._pipeline is not None:
            self._connect(self._pipeline)

    def stop(self) -> None:
        """Stop the thread and, unless the datapath is pinned, drop all frames from now on. Idempotent."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is None or self._thread is None:
            return
        if self._pins is None:
            bpf.clear_program(self._program_map)
        os.eventfd_write(self._stop_event, 1)
        self._thread.join()
        os.eventfd_read(self._stop_event)
        self._thread = None
        self._saved_counters, self._saved_losses = (
            self._port_counters(pipeline).copy(),
            _read_losses(pipeline),
        )
        self._saved_runs = pipeline.arena.program_runs().copy()

    def close(self) -> None:
        self.stop()
        self.release_interfaces()

    def release_interfaces(self) -> None:
        """Detach from the interfaces and undo their settings; in any thread, as the process ends."""
        self._resources.close()

    def now(self) -> int:
        return (time.monotonic_ns() - self._start_ns) // 1000  # µs

    # -- counters

    def counters(self) -> SwitchCounters:
        # The kernel counts a run when it ends, but a program counts a frame when it begins. So the kernel's
        # counts are read first: a frame in progress must not count as one without a program.
        usages = {number: interface.usage() for number, interface in self._interfaces.items()}
        counts, runs, losses = self._saved_counters, self._saved_runs, self._saved_losses
        if self._pipeline is not None:
            counts, losses = self._port_counters(self._pipeline).copy(), _read_losses(self._pipeline)
            runs = self._pipeline.arena.program_runs().copy()
        drops = tx_drops()
        ports: dict[int, PortCounters] = {}
        for number, interface in self._interfaces.items():
            # In the order of `arena.RECEIVED` to `arena.OVERSIZE_OUT`.
            rx, sent_frames, unsent_frames, oversize_in, _, oversize_out = counts[number][:6].tolist()
            kernel_drops = max(0, drops[interface.name] - self._initial_drops[interface.name])
            is_cpu = interface is self._cpu_interface
            runs_without_program = max(0, usages[number].runs - rx)
            rx_dropped = runs_without_program + (self._lost_cpu_frames if is_cpu else 0)
            ports[number] = PortCounters(
                name="CPU" if is_cpu else interface.name,
                rx=rx + rx_dropped,
                tx=sent_frames - kernel_drops,
                rx_dropped=rx_dropped,
                tx_dropped=unsent_frames + kernel_drops,
                rx_oversize=oversize_in,
                tx_oversize=oversize_out,
                lost=0,
                duplicated=0,
                reordered=0,
                program_ns=usages[number].ns,
                program_runs=tuple(runs[:, number].tolist()),
            )
        return SwitchCounters(
            ports=ports,
            no_such_port=losses["no_such_port"],
            lost_notices=losses["lost_notices"] + self._lost_notices,
            datapath="kernel",
        )

    @staticmethod
    def _port_counters(pipeline: AttachedPipeline) -> np.ndarray:
        words = pipeline.arena.view(arena.COUNTERS, arena.COUNTER_BYTES * PORT_NUMBERS)
        return words.reshape(PORT_NUMBERS, _COUNTER_WORDS)

    # -- the CPU port and notices

    def _serve_control_plane(self, pipeline: AttachedPipeline) -> None:
        poll = select.epoll()
        with contextlib.closing(poll):
            for descriptor in (self._stop_event, pipeline.notices.descriptor):
                poll.register(descriptor, select.EPOLLIN)
            if self._cpu_interface is not None:
                poll.register(self._control.switch_end, select.EPOLLIN)
                poll.register(self._cpu_interface.descriptor, select.EPOLLIN)
            while True:
                ready_descriptors = {descriptor for descriptor, _ in poll.poll(_POLL_INTERVAL_S)}
                self._warn_oversize(pipeline)
                if self._stop_event in ready_descriptors:
                    return
                if pipeline.notices.descriptor in ready_descriptors:
                    self._forward_notices(pipeline)
                if self._cpu_interface is not None and self._control.switch_end.fileno() in ready_descriptors:
                    self._forward_packets_out(self._cpu_interface.descriptor)
                if self._cpu_interface is not None and self._cpu_interface.descriptor in ready_descriptors:
                    self._forward_packets_in(self._cpu_interface.descriptor)

    def _warn_oversize(self, pipeline: AttachedPipeline) -> None:
        counts = self._port_counters(pipeline)
        for number in self._interfaces.keys() - self._warned_ports:
            if counts[number, arena.OVERSIZE_IN // 8]:
                self._warned_ports.add(number)
                _LOG.warning(
                    "port %d (%s): dropped a frame of %d B: it has more than %d B, or holds several segments "
                    "(segmentation offload? `ethtool -K ... tso off gso off`); later frames are only counted",
                    number,
                    self._interfaces[number].name,
                    counts[number, arena.LAST_OVERSIZE_BYTES // 8],
                    MAX_FRAME_BYTES,
                )

    def _forward_notices(self, pipeline: AttachedPipeline) -> None:
        for record in pipeline.notices.take():
            try:
                self._control.notice_end.send(record, socket.MSG_DONTWAIT)
            except OSError:
                self._lost_notices += 1

    def _forward_packets_out(self, cpu_descriptor: int) -> None:
        for _ in range(_MAX_FRAMES_PER_WAKEUP):
            try:
                frame = self._control.switch_end.recv(_CPU_BUFFER_BYTES, socket.MSG_DONTWAIT)
            except OSError:
                return
            try:
                os.write(cpu_descriptor, frame)
            except OSError:  # shorter than an Ethernet header
                self._lost_cpu_frames += 1

    def _forward_packets_in(self, cpu_descriptor: int) -> None:
        for _ in range(_MAX_FRAMES_PER_WAKEUP):
            try:
                frame = os.read(cpu_descriptor, _CPU_BUFFER_BYTES)
            except OSError:
                return
            with contextlib.suppress(OSError):  # the control plane does not read them
                self._control.switch_end.send(frame, socket.MSG_DONTWAIT)


def _read_losses(pipeline: AttachedPipeline) -> dict[str, int]:
    words = pipeline.arena.words
    return {name: int(words[offset // 8]) for name, offset in _LOSS_COUNTERS.items()}
