"""Where packets are processed: in the kernel where it can, in this process's sockets where it cannot.

Which of the two is decided for each program anew: a construct that BPF cannot do is no reason to refuse it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import socket
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from softswitch import ir
from softswitch.compiled import CompiledPipeline
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
from softswitch.ports.impairment import Direction, Impairment
from softswitch.ports.loop import PortLoop, check_ports
from softswitch.ports.qdiscs import DELAYS, shaped
from softswitch.ports.report import SwitchCounters, describe, plus
from softswitch.ports.sockets import ControlSockets
from softswitch.queues import Shape
from softswitch.queues.shape import MAX_PACKETS, MAX_RATE
from softswitch.settings import Datapath
from softswitch.warm import warm_tables

if TYPE_CHECKING:
    from softswitch.explain.live import Trace, TracedPipeline

_LOG = logging.getLogger(__name__)
_SIOCGIFFLAGS = 0x8913
_UP_AND_RUNNING = 0x1 | 0x40
LivePipeline: TypeAlias = "CompiledPipeline | AttachedPipeline | TracedPipeline"


class SwitchPorts:
    """The switch's ports (`softswitch.p4runtime.pipelines.Ports`) on one datapath or the other.

    With `shapes`, or if an interface is shaped when the switch starts (`softswitch.ports.backpressure`), all
    ports have queues before egress (`softswitch.queues`), and the datapath is the sockets. `pcap` is a folder
    for files of each port's frames. With a `trace`, packets pass the interpreter, which reports what it does.
    `rps_cpu` is the CPU on which the kernel runs the program (`softswitch.kernel.steering`).

    `reason` says why the sockets are the datapath; None if they are not. Raises PortError if a port cannot be
    opened, KernelError if the kernel is wanted and cannot be the datapath.
    """

    def __init__(
        self,
        ports: Mapping[int, str],
        cpu_port: int | None = None,
        impairments: Mapping[tuple[int, Direction], Impairment] = {},
        busy_poll: bool = False,
        wanted: Datapath = Datapath.SOCKETS,
        priority_queues: int = 1,
        hook: Hook = Hook.TCX,
        pin: Path | None = None,
        shapes: Mapping[int, Shape] = {},
        pcap: Path | None = None,
        trace: Trace | None = None,
        rps_cpu: int | None = None,
    ) -> None:
        check_ports(ports, cpu_port, impairments, shapes)
        if rps_cpu is not None:
            check_cpu(rps_cpu)
        warm_tables()  # it takes a while, for which the first program need not wait
        self._names, self._cpu_port = ports, cpu_port
        self._impairments, self._busy_poll, self._shapes = impairments, busy_poll, shapes
        self._buffers = bool(shapes)
        self._running: CompiledPipeline | TracedPipeline | None = None
        self._before: SwitchCounters | None = None
        # The sockets' forwarding ends with the process.
        self._wanted = wanted if pin is None else Datapath.KERNEL
        self._priority_queues, self._hook, self._pcap = priority_queues, hook, pcap
        self._trace, self._rps_cpu = trace, rps_cpu
        self._holding = {} if self._wanted is Datapath.KERNEL else _holding(ports, impairments)
        self._unable = self.reason = self._why_not()
        if self._wanted is Datapath.KERNEL and self.reason:
            raise KernelError(f"the kernel cannot be the datapath: {self.reason}")
        self._pins: Pins | None = None
        self._control = ControlSockets()
        self.cpu_socket: socket.socket = self._control.cpu_socket
        self.notice_socket: socket.socket = self._control.notice_socket
        self._kernel: KernelPorts | None = None
        self._sockets: PortLoop | None = None
        with contextlib.ExitStack() as undo:
            undo.callback(self._control.close)
            if pin is not None:
                self._pins = undo.enter_context(contextlib.closing(Pins(pin)))
                self._pins.check(
                    ports=ports, cpu_port=cpu_port, hook=hook.value, priority_queues=priority_queues
                )
            if self.reason is None:
                self._use_kernel()
            else:
                self._use_sockets()
            undo.pop_all()

    def _why_not(self) -> str | None:
        if self._wanted is Datapath.SOCKETS:
            return "asked for"
        if self._impairments:
            return "frames are impaired by the sockets alone"
        if self._busy_poll:
            return "busy polling is the sockets'"
        if self._shapes:
            return "rates and queues of ports are the sockets'"
        if self._pcap is not None:
            return "the sockets write pcap files"
        if self._trace is not None:
            return "packets are traced"
        if self._holding:
            name = self._names[min(self._holding)]
            return f"{name} is shaped (tc qdisc), and packets wait for it in the sockets' queues"
        return probe(self._hook)

    def __enter__(self) -> SwitchPorts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def datapath(self) -> Datapath:
        """What is used now."""
        return Datapath.SOCKETS if self._kernel is None else Datapath.KERNEL

    def make(self, program: ir.Program) -> LivePipeline:
        """A pipeline for the datapath that this program can have; KernelError where it must be the kernel."""
        if self._unable is not None:
            buffered = self._buffers or bool(self._holding)
            if self._trace is not None:
                from softswitch.explain.live import TracedPipeline  # a switch that does not trace needs none

                return TracedPipeline(program, self._trace, self._priority_queues, buffered)
            return CompiledPipeline(program, priority_queues=self._priority_queues, buffered=buffered)
        generation = None if self._pins is None else self._pins.begin()
        try:
            return AttachedPipeline(program, self._priority_queues, self._hook, generation=generation)
        except KernelError as error:
            if generation is not None:
                generation.remove()
            if self._wanted is Datapath.KERNEL:
                raise
            self.reason = str(error)
            _LOG.warning("datapath sockets for this program: %s", error)
            return CompiledPipeline(program, priority_queues=self._priority_queues)

    @property
    def kept(self) -> Path | None:
        """The control plane's folder of the pipeline that packets meet already; None where there is none."""
        kept = None if self._pins is None else self._pins.kept
        return None if kept is None else kept.folder

    def make_kept(self, program: ir.Program) -> LivePipeline:
        """The pipeline that packets meet already."""
        assert self._pins is not None
        return AttachedPipeline(program, self._priority_queues, self._hook, generation=self._pins.kept)

    @staticmethod
    def folder_of(pipeline: LivePipeline) -> Path | None:
        """Where the control plane of a pipeline is to be kept; None where it is not."""
        generation = pipeline.generation if isinstance(pipeline, AttachedPipeline) else None
        return None if generation is None else generation.folder

    def start(self, pipeline: LivePipeline) -> None:
        """Forward through `pipeline` from now on."""
        if isinstance(pipeline, AttachedPipeline):
            self._use_kernel().start(pipeline)
        else:
            self._use_sockets().start(pipeline)
            self._running = pipeline

    def _use_kernel(self) -> KernelPorts:
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None
        if self._kernel is None:
            self._kernel = KernelPorts(
                self._names, self._cpu_port, self._control, self._hook, self._pins, self._rps_cpu
            )
        return self._kernel

    def _use_sockets(self) -> PortLoop:
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None
        if self._sockets is None:
            self._sockets = self._make_loop(self._names)
        return self._sockets

    def _make_loop(self, names: Mapping[int, str], before: PortLoop | None = None) -> PortLoop:
        return PortLoop(
            names,
            self._cpu_port,
            self._impairments,
            self._busy_poll,
            self._control,
            self._shapes,
            self._priority_queues,
            self._holding,
            self._pcap,
            before,
        )

    @property
    def _used(self) -> KernelPorts | PortLoop:
        used = self._kernel or self._sockets
        assert used is not None
        return used

    # -- what commands change

    def names(self) -> dict[int, str]:
        """The interfaces of all ports, by number."""
        return dict(self._names)

    def is_up(self, port: int) -> bool:
        """Whether a port's interface is up and has a carrier."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            request = struct.pack("16sH14x", self._names[port].encode(), 0)
            try:
                (flags,) = struct.unpack_from("H", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request), 16)
            except OSError:
                return False
        return int(flags) & _UP_AND_RUNNING == _UP_AND_RUNNING

    def add(self, port: int, interface: str) -> None:
        """Take one more interface as a port; `PortError` where it cannot be had."""
        self._change_ports({**self._names, port: interface})

    def remove(self, port: int) -> None:
        """Give a port's interface back."""
        if any(number == port for number, _ in self._impairments):
            raise SwitchError(f"Error: port {port} is impaired, and cannot be removed")
        self._shapes = {number: shape for number, shape in self._shapes.items() if number != port}
        self._change_ports({number: name for number, name in self._names.items() if number != port})

    def _change_ports(self, names: Mapping[int, str]) -> None:
        """Go on with other ports. Packets that wait are dropped."""
        old = self._need_sockets("ports that come and go")
        check_ports(names, self._cpu_port, self._impairments, self._shapes)
        self._holding = _holding(names, self._impairments)
        new = self._make_loop(names, before=old)
        old.stop()
        self._before = plus(self._before, old.counters())
        old.close()
        self._names, self._sockets = names, new
        if self._running is not None:
            new.start(self._running)

    def set_queues(self, port: int | None, priority: int | None, rate: int | None, depth: int | None) -> None:
        """Set what queues send or hold (`Runtime.queue_set`); a switch without queues has them then."""
        loop = self._need_sockets("rates and depths of queues")
        if priority is not None and not 0 <= priority < self._priority_queues:
            right = f"there are 0 to {self._priority_queues - 1} (--priority-queues)"
            raise SwitchError(f"Error: priority {priority}: {right}")
        if rate is not None and not 0 <= rate <= MAX_RATE:
            raise SwitchError(f"Error: rate {rate}: 0 to {MAX_RATE} packets/s is right, 0 for no limit")
        if depth is not None and not 1 <= depth <= MAX_PACKETS:
            raise SwitchError(f"Error: depth {depth}: 1 to {MAX_PACKETS} packets is right")
        code, running = None, self._running
        if running is not None and not running.waiting_bytes:
            changed = _need_compiled(running, "rates and depths of queues")
            code = MachineCode(changed.program, self._priority_queues, buffered=True)
        self._buffers = True
        self._unable = self._unable or "rates and queues of ports are the sockets'"
        pauses = code is not None or (depth is not None and not loop.has_room(depth, port, priority))
        if pauses:
            loop.stop()
        if code is not None:
            changed.use_code(code, changed.program)
        if rate is not None:
            loop.set_rate(rate, port, priority)
        if depth is not None:
            loop.set_depth(depth, port, priority)
        if pauses and running is not None:
            loop.start(running)

    def set_crc(self, calculation: str, crc: Crc) -> None:
        """Compute a calculation of the program that runs by another CRC."""
        loop = self._need_sockets("parameters of CRCs")
        assert self._running is not None
        running = _need_compiled(self._running, "parameters of CRCs")
        changed = tuple(
            replace(each, custom=crc) if each.name == calculation else each
            for each in running.program.calculations
        )
        program = replace(running.program, calculations=changed)
        code = MachineCode(program, self._priority_queues, buffered=running.waiting_bytes > 0)
        loop.stop()
        running.use_code(code, program)
        loop.start(running)

    def _need_sockets(self, what: str) -> PortLoop:
        if self._sockets is None:
            raise SwitchError(f"Error: {what} are the sockets': start the switch with --datapath sockets")
        return self._sockets

    def stop(self) -> None:
        """Stop forwarding; harmless when it does not run."""
        self._used.stop()

    def close(self) -> None:
        """Stop, and give the ports back; harmless when repeated."""
        self._used.close()
        self._control.close()
        if self._pins is not None:
            self._pins.close()

    def now(self) -> int:
        """The time that packets have, in µs since start."""
        return self._used.now()

    def counters(self) -> SwitchCounters:
        """Read the counters of all ports, and of the switch as a whole."""
        return plus(self._before, self._used.counters())

    def describe(self) -> list[str]:
        """The counters as text, a line a port."""
        return describe(self.counters())

    def describe_datapath(self) -> str:
        """One line: which it is, and why not the kernel."""
        if self._kernel is not None:
            pinned = "" if self._pins is None else f", pinned in {self._pins.folder}"
            count = pluralize(len(self._names), "interface")
            steered = "" if self._rps_cpu is None else f", on CPU {self._rps_cpu}"
            return f"datapath kernel: BPF ({self._hook.value}) at the ingress of {count}{steered}{pinned}"
        return f"datapath sockets: {self.reason}"


def _need_compiled(running: CompiledPipeline | TracedPipeline, what: str) -> CompiledPipeline:
    if not isinstance(running, CompiledPipeline):
        raise SwitchError(
            f"Error: {what} are fixed while packets are traced: start the switch without --trace"
        )
    return running


def _holding(
    ports: Mapping[int, str], impairments: Mapping[tuple[int, Direction], Impairment]
) -> dict[int, bool]:
    """Ports of shaped interfaces, and whether few packets are to wait in the kernel.

    A delay has all packets wait there that are under way. What leaves an impaired port may be several.
    """
    kinds = shaped(ports.values())
    return {
        number: DELAYS not in kinds[name]
        for number, name in ports.items()
        if name in kinds and (number, Direction.OUT) not in impairments
    }
