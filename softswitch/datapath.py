"""Where packets are processed: in the kernel where it can, in this process's sockets where it cannot.

Which of the two is decided for each program anew: a construct that BPF cannot do is no reason to refuse it.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from softswitch import ir
from softswitch.compiled import CompiledPipeline
from softswitch.kernel.errors import KernelError
from softswitch.kernel.hooks import Hook
from softswitch.kernel.pins import Pins
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.kernel.ports import KernelPorts
from softswitch.kernel.probe import probe
from softswitch.ports import Direction, Impairment, PortLoop, SwitchCounters
from softswitch.ports.ends import ControlEnds
from softswitch.ports.loop import check_ports
from softswitch.queues import Shape
from softswitch.warm import warm_tables
from softswitch.words import counted

if TYPE_CHECKING:
    from softswitch.explain.live import Trace, TracedPipeline

_LOG = logging.getLogger(__name__)
LivePipeline: TypeAlias = "CompiledPipeline | AttachedPipeline | TracedPipeline"


class Datapath(Enum):
    """What the user asks for."""

    AUTO = "auto"
    KERNEL = "kernel"
    SOCKETS = "sockets"


class SwitchPorts:
    """The switch's ports (`softswitch.p4runtime.pipelines.Ports`) on one datapath or the other.

    With `shapes` there are queues before egress (`softswitch.queues`), of all ports, which the sockets have.
    With a `trace` packets pass the interpreter, which tells what it does.

    `reason` says why it is the sockets, where it is. Raises PortError where a port cannot be had, KernelError
    where the kernel is asked for and cannot be the datapath.
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
        trace: Trace | None = None,
    ) -> None:
        check_ports(ports, cpu_port, impairments, shapes)
        warm_tables()  # it takes a while, for which the first program need not wait
        self._names, self._cpu_port = ports, cpu_port
        self._impairments, self._busy_poll, self._shapes = impairments, busy_poll, shapes
        # The sockets' forwarding ends with the process.
        self._wanted = wanted if pin is None else Datapath.KERNEL
        self._priority_queues, self._hook, self._trace = priority_queues, hook, trace
        self._unable = self.reason = self._why_not()
        if self._wanted is Datapath.KERNEL and self.reason:
            raise KernelError(f"the kernel cannot be the datapath: {self.reason}")
        self._pins: Pins | None = None
        self._ends = ControlEnds()
        self.cpu_socket: socket.socket = self._ends.cpu_socket
        self.notice_socket: socket.socket = self._ends.notice_socket
        self._kernel: KernelPorts | None = None
        self._sockets: PortLoop | None = None
        with contextlib.ExitStack() as undo:
            undo.callback(self._ends.close)
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
        if self._trace is not None:
            return "packets are traced"
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
            buffered = bool(self._shapes)
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

    def _use_kernel(self) -> KernelPorts:
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None
        if self._kernel is None:
            self._kernel = KernelPorts(self._names, self._cpu_port, self._ends, self._hook, self._pins)
        return self._kernel

    def _use_sockets(self) -> PortLoop:
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None
        if self._sockets is None:
            self._sockets = PortLoop(
                self._names,
                self._cpu_port,
                self._impairments,
                self._busy_poll,
                self._ends,
                self._shapes,
                self._priority_queues,
            )
        return self._sockets

    @property
    def _used(self) -> KernelPorts | PortLoop:
        used = self._kernel or self._sockets
        assert used is not None
        return used

    def stop(self) -> None:
        """Stop forwarding; harmless when it does not run."""
        self._used.stop()

    def close(self) -> None:
        """Stop, and give the ports back; harmless when repeated."""
        self._used.close()
        self._ends.close()
        if self._pins is not None:
            self._pins.close()

    def now(self) -> int:
        """The time that packets have, in µs since start."""
        return self._used.now()

    def counters(self) -> SwitchCounters:
        """Read the counters of all ports, and of the switch as a whole."""
        return self._used.counters()

    def describe(self) -> list[str]:
        """The counters as text, a line a port."""
        return self._used.describe()

    def describe_datapath(self) -> str:
        """One line: which it is, and why not the kernel."""
        if self._kernel is not None:
            pinned = "" if self._pins is None else f", pinned in {self._pins.folder}"
            count = counted(len(self._names), "interface")
            return f"datapath kernel: BPF ({self._hook.value}) at the ingress of {count}{pinned}"
        return f"datapath sockets: {self.reason}"
