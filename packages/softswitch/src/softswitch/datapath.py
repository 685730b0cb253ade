"""Selection of a program's datapath: the kernel if BPF supports its constructs, else packet sockets."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from softswitch import ir
from softswitch.compiled import CompiledPipeline
from softswitch.ending import undo_at_end
from softswitch.errors import KernelError, SwitchError
from softswitch.hashing import Crc
from softswitch.jit import MachineCode
from softswitch.kernel.hooks import Hook
from softswitch.kernel.pins import Pins
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.kernel.ports import KernelPorts
from softswitch.kernel.probe import probe
from softswitch.kernel.steering import check_cpu
from softswitch.messages import pluralize
from softswitch.ports.host_use import find_host_use
from softswitch.ports.impairment import Direction, Impairment
from softswitch.ports.interface_watch import InterfaceWatch
from softswitch.ports.loop import PortLoop
from softswitch.ports.offloads import Offloads
from softswitch.ports.options import PortOptions
from softswitch.ports.qdiscs import DELAY_KIND, shaped_interfaces
from softswitch.ports.report import SwitchCounters, add_counters
from softswitch.ports.sockets import ControlSockets
from softswitch.queues.shape import MAX_PACKETS, MAX_RATE
from softswitch.settings import Datapath, Settings
from softswitch.warm import warm_tables

if TYPE_CHECKING:
    from softswitch.explain.live import Trace, TracedPipeline

_LOG = logging.getLogger(__name__)
_SIOCGIFFLAGS = 0x8913
_IFREQ = struct.Struct("16sH14x")  # an interface's name and flags (netdevice(7))
_IFF_UP, _IFF_RUNNING = 0x1, 0x40
_UP_AND_RUNNING = _IFF_UP | _IFF_RUNNING
LivePipeline: TypeAlias = "CompiledPipeline | AttachedPipeline | TracedPipeline"


class SwitchPorts(contextlib.AbstractContextManager["SwitchPorts"]):
    """The switch's ports (`softswitch.p4runtime.pipelines.Ports`) in the kernel or on packet sockets.

    With shapes, or if an interface is shaped when the switch starts (`softswitch.ports.backpressure`), all
    ports have queues before egress (`softswitch.queues`), and the datapath is the sockets. With a `trace`,
    packets pass the interpreter, which reports what it does.

    `sockets_reason` says why the sockets are the datapath; None if the kernel is. Raises PortError if a port
    cannot be opened, KernelError if only the kernel is allowed and cannot be used.
    """

    def __init__(self, settings: Settings, trace: Trace | None = None) -> None:
        ports, pin = settings.ports, settings.pin
        self._options = PortOptions(
            settings.cpu_port,
            settings.impairments,
            settings.busy_poll,
            settings.shapes,
            settings.priority_queues,
            settings.pcap,
        )
        self._options.check(ports)
        if settings.rps_cpu is not None:
            check_cpu(settings.rps_cpu)
        # Compile or load the control plane's code for tables now, since it would delay the first program.
        warm_tables()
        self._names, self._trace, self._rps_cpu = ports, trace, settings.rps_cpu
        self._hook = Hook(settings.hook)
        self._has_queues = bool(settings.shapes)
        self._running_pipeline: CompiledPipeline | TracedPipeline | None = None
        self._replaced_counters: SwitchCounters | None = None  # of port loops that were replaced
        # Packet sockets forward only while the process runs.
        self._requested_datapath = settings.datapath if pin is None else Datapath.KERNEL
        self._backpressure = (
            {}
            if self._requested_datapath is Datapath.KERNEL
            else _find_backpressure(ports, settings.impairments)
        )
        self.interface_watch = InterfaceWatch()  # before the interfaces are opened: it misses no change
        self._offloads = Offloads()
        self._kernel: KernelPorts | None = None
        self._sockets: PortLoop | None = None
        self._pins: Pins | None = None
        self._unfinished = self._turn_off_offloads(ports)
        undo_at_end(self, self._release_interfaces)
        # The obstacle concerns every program; `make` sets the reason if the kernel refuses one program.
        self._kernel_obstacle = self.sockets_reason = self._find_kernel_obstacle()
        if self._requested_datapath is Datapath.KERNEL and self.sockets_reason:
            self._close_offloads()
            self.interface_watch.close()
            raise KernelError(f"the kernel cannot be the datapath: {self.sockets_reason}")
        if self._requested_datapath is Datapath.KERNEL:
            for reason in self._unfinished.values():
                _LOG.warning("%s: programs may see them so", reason)
        self._control_sockets = ControlSockets()
        self.cpu_socket: socket.socket = self._control_sockets.cpu_socket
        self.notice_socket: socket.socket = self._control_sockets.notice_socket
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(self.interface_watch.close)
            cleanup.callback(self._close_offloads)
            cleanup.callback(self._control_sockets.close)
            if pin is not None:
                self._pins = cleanup.enter_context(contextlib.closing(Pins(pin)))
                self._pins.check(
                    ports=ports,
                    cpu_port=settings.cpu_port,
                    hook=settings.hook,
                    priority_queues=settings.priority_queues,
                )
            if self.sockets_reason is None:
                self._use_kernel()
            else:
                self._use_sockets()
            cleanup.pop_all()

    def _find_kernel_obstacle(self) -> str | None:
        if self._requested_datapath is Datapath.SOCKETS:
            return "requested"
        if self._options.impairments:
            return "only the sockets can impair frames"
        if self._options.busy_poll:
            return "only the sockets support busy polling"
        if self._options.shapes:
            return "only the sockets support rates and queues of ports"
        if self._options.pcap is not None:
            return "the sockets write pcap files"
        if self._trace is not None:
            return "packets are traced"
        if self._backpressure:
            name = self._names[min(self._backpressure)]
            return f"{name} is shaped (tc qdisc), and packets wait for it in the sockets' queues"
        return self._find_host_use() or probe(self._hook) or self._find_unfinished()

    def _find_host_use(self) -> str | None:
        """Return why the kernel must not take all frames of a port."""
        use = find_host_use(self._names.values())
        return use and f"{use}, and the kernel's datapath would take its frames from this machine"

    def _find_unfinished(self) -> str | None:
        """Return why only the sockets are sure to give programs finished checksums, unless requested."""
        is_decided = self._requested_datapath is not Datapath.AUTO
        return None if is_decided else next(iter(self._unfinished.values()), None)

    def _turn_off_offloads(self, names: Mapping[int, str]) -> dict[str, str]:
        """Return the interfaces which may go on receiving unfinished frames, with the reason."""
        reasons = {name: self._offloads.turn_off(name) for name in names.values()}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def _restore_offloads(self, names: Iterable[str]) -> None:
        for name in names:
            self._offloads.restore(name)
            self._unfinished.pop(name, None)

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def datapath(self) -> Datapath:
        return Datapath.SOCKETS if self._kernel is None else Datapath.KERNEL

    def make(self, program: ir.Program) -> LivePipeline:
        """Return a pipeline for the datapath. Raises KernelError if only the kernel is allowed and fails."""
        if self._kernel_obstacle is None and self._requested_datapath is Datapath.AUTO:
            # Ports may have changed, and what their interfaces are used for.
            self.sockets_reason = self._find_host_use() or self._find_unfinished()
            if self.sockets_reason is not None:
                _LOG.warning("datapath sockets for this program: %s", self.sockets_reason)
        if self._kernel_obstacle is not None or self.sockets_reason is not None:
            buffered = self._has_queues or bool(self._backpressure)
            if self._trace is not None:
                from softswitch.explain.live import TracedPipeline  # imported only for tracing

                return TracedPipeline(program, self._trace, self._options.priority_queues, buffered)
            return CompiledPipeline(program, priority_queues=self._options.priority_queues, buffered=buffered)
        # A generation is the set of pinned objects of one pipeline.
        generation = None if self._pins is None else self._pins.begin()
        try:
            return AttachedPipeline(program, self._options.priority_queues, self._hook, generation=generation)
        except KernelError as error:
            if self._requested_datapath is Datapath.KERNEL:
                raise
            self.sockets_reason = str(error)
            _LOG.warning("datapath sockets for this program: %s", error)
            return CompiledPipeline(program, priority_queues=self._options.priority_queues)

    @property
    def pinned_folder(self) -> Path | None:
        generation = None if self._pins is None else self._pins.pinned
        return None if generation is None else generation.folder

    def make_pinned(self, program: ir.Program) -> LivePipeline:
        assert self._pins is not None
        return AttachedPipeline(
            program, self._options.priority_queues, self._hook, generation=self._pins.pinned
        )

    @staticmethod
    def folder_of(pipeline: LivePipeline) -> Path | None:
        """Return the folder of a pinned pipeline's journal; None if the pipeline is not pinned."""
        generation = pipeline.generation if isinstance(pipeline, AttachedPipeline) else None
        return None if generation is None else generation.folder

    def start(self, pipeline: LivePipeline) -> None:
        if isinstance(pipeline, AttachedPipeline):
            self._use_kernel().start(pipeline)
            self._running_pipeline = None
        else:
            self._use_sockets().start(pipeline)
            self._running_pipeline = pipeline

    def _use_kernel(self) -> KernelPorts:
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None
        if self._kernel is None:
            self._kernel = KernelPorts(
                self._names,
                self._options.cpu_port,
                self._control_sockets,
                self._hook,
                self._pins,
                self._rps_cpu,
            )
        return self._kernel

    def _use_sockets(self) -> PortLoop:
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None
        if self._sockets is None:
            self._sockets = self._make_loop(self._names)
        return self._sockets

    def _make_loop(self, names: Mapping[int, str], predecessor: PortLoop | None = None) -> PortLoop:
        return PortLoop(
            names,
            self._options,
            control_sockets=self._control_sockets,
            backpressure=self._backpressure,
            old_loop=predecessor,
        )

    @property
    def _active_ports(self) -> KernelPorts | PortLoop:
        ports = self._kernel or self._sockets
        assert ports is not None
        return ports

    # -- interfaces that go and come

    def follow_interfaces(self) -> None:
        """Follow interfaces that have gone or come; call this when `interface_watch` can be read."""
        names = self.interface_watch.follow(self._names, self._active_ports)
        self._unfinished |= self._turn_off_offloads(names)

    # -- changes by commands

    def names(self) -> dict[int, str]:
        return dict(self._names)

    def is_up(self, port: int) -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            request = _IFREQ.pack(self._names[port].encode(), 0)
            try:
                _, flags = _IFREQ.unpack(fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))
            except OSError:
                return False
        return int(flags) & _UP_AND_RUNNING == _UP_AND_RUNNING

    def add(self, port: int, interface: str) -> None:
        self._change_ports({**self._names, port: interface})

    def remove(self, port: int) -> None:
        if any(number == port for number, _ in self._options.impairments):
            raise SwitchError(f"Error: port {port} is impaired, and cannot be removed")
        shapes = {number: shape for number, shape in self._options.shapes.items() if number != port}
        self._options = replace(self._options, shapes=shapes)
        interface = self._names[port]
        self._change_ports({number: name for number, name in self._names.items() if number != port})
        self._restore_offloads([interface])

    def _change_ports(self, names: Mapping[int, str]) -> None:
        """Replace the ports; packets in queues are dropped."""
        old_loop = self._require_sockets("adding and removing ports")
        self._options.check(names)
        added = {number: name for number, name in names.items() if number not in self._names}
        self._unfinished |= self._turn_off_offloads(added)
        try:
            self._backpressure = _find_backpressure(names, self._options.impairments)
            new_loop = self._make_loop(names, predecessor=old_loop)
        except SwitchError:
            self._restore_offloads(added.values())
            raise
        old_loop.stop()
        self._replaced_counters = add_counters(self._replaced_counters, old_loop.counters())
        old_loop.close()
        self._names, self._sockets = names, new_loop
        if self._running_pipeline is not None:
            new_loop.start(self._running_pipeline)

    def set_queues(self, port: int | None, priority: int | None, rate: int | None, depth: int | None) -> None:
        """Set rates or depths of queues (`Runtime.queue_set`); a switch without queues creates them."""
        loop = self._require_sockets("changing rates and depths of queues")
        if priority is not None and not 0 <= priority < self._options.priority_queues:
            expected = f"expected 0 to {self._options.priority_queues - 1} (--priority-queues)"
            raise SwitchError(f"Error: priority {priority}: {expected}")
        if rate is not None and not 0 <= rate <= MAX_RATE:
            raise SwitchError(f"Error: rate: expected 0 (unlimited) to {MAX_RATE} packets/s, got {rate}")
        if depth is not None and not 1 <= depth <= MAX_PACKETS:
            raise SwitchError(f"Error: depth: expected 1 to {MAX_PACKETS} packets, got {depth}")
        code, pipeline = None, self._running_pipeline
        if pipeline is not None and not pipeline.queue_record_bytes:  # it was compiled without queues
            compiled = _require_compiled(pipeline, "rates and depths of queues")
            code = MachineCode(compiled.program, self._options.priority_queues, buffered=True)
        self._has_queues = True
        self._kernel_obstacle = self._kernel_obstacle or "only the sockets support rates and queues of ports"
        must_stop = code is not None or (depth is not None and not loop.has_room(depth, port, priority))
        if must_stop:
            loop.stop()
        if code is not None:
            compiled.use_code(code, compiled.program)
        if rate is not None:
            loop.set_rate(rate, port, priority)
        if depth is not None:
            loop.set_depth(depth, port, priority)
        if must_stop and pipeline is not None:
            loop.start(pipeline)

    def set_crc(self, calculation: str, crc: Crc) -> None:
        loop = self._require_sockets("changing parameters of CRCs")
        assert self._running_pipeline is not None
        pipeline = _require_compiled(self._running_pipeline, "parameters of CRCs")
        code = pipeline.code_with_crc(calculation, crc)
        loop.stop()
        pipeline.use_code(*code)
        loop.start(pipeline)

    def _require_sockets(self, operation: str) -> PortLoop:
        if self._sockets is None:
            raise SwitchError(
                f"Error: only the sockets support {operation}: start the switch with --datapath sockets "
                "(with BMv2's command line, behind `--`)"
            )
        return self._sockets

    def stop(self) -> None:
        self._active_ports.stop()

    def close(self) -> None:
        self._active_ports.close()
        self._control_sockets.close()
        self.interface_watch.close()
        self._close_offloads(restores=self._pins is None)
        if self._pins is not None:
            self._pins.close()

    def _release_interfaces(self) -> None:
        """Undo the settings of interfaces, unless they are pinned; in any thread, as the process ends."""
        if self._pins is None:
            self._offloads.restore_all()
        if self._kernel is not None:
            self._kernel.release_interfaces()

    def _close_offloads(self, restores: bool = True) -> None:
        undo_at_end(self, None)
        self._offloads.close(restores)

    def now(self) -> int:
        return self._active_ports.now()

    def counters(self) -> SwitchCounters:
        return add_counters(self._replaced_counters, self._active_ports.counters())

    def describe_offloads(self) -> str | None:
        return self._offloads.describe()

    def describe_datapath(self) -> str:
        if self._kernel is not None:
            pin = "" if self._pins is None else f", pinned in {self._pins.folder}"
            interfaces = pluralize(len(self._names), "interface")
            cpu = "" if self._rps_cpu is None else f", on CPU {self._rps_cpu}"
            return f"datapath kernel: BPF ({self._hook.value}) at the ingress of {interfaces}{cpu}{pin}"
        return f"datapath sockets: {self.sockets_reason}"


def _require_compiled(pipeline: CompiledPipeline | TracedPipeline, subject: str) -> CompiledPipeline:
    if not isinstance(pipeline, CompiledPipeline):
        raise SwitchError(
            f"Error: {subject} cannot be changed while packets are traced: start the switch without --trace"
        )
    return pipeline


def _find_backpressure(
    ports: Mapping[int, str], impairments: Mapping[tuple[int, Direction], Impairment]
) -> dict[int, bool]:
    """Return the ports of shaped interfaces, and whether their send buffers must be small."""
    # An interface that delays packets keeps all delayed packets in its send buffer, which must be large.
    # Ports with outgoing impairments are left out, because one packet may become several.
    kinds = shaped_interfaces(ports.values())
    return {
        number: DELAY_KIND not in kinds[name]
        for number, name in ports.items()
        if name in kinds and (number, Direction.OUT) not in impairments
    }
