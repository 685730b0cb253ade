"""The switch behind its P4Runtime service: its ports, and the program given on the command line.

Modules that import or compile slowly are imported only from here.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from softswitch.cache import compile_lock
from softswitch.datapath import LivePipeline, SwitchPorts
from softswitch.errors import KernelError, ProgramError, SwitchError
from softswitch.frames.grpc_stream import GrpcStream
from softswitch.frames.nanomsg import Nanomsg
from softswitch.frames.pcap_files import PcapFiles
from softswitch.frames.ports import FramePorts, Transport
from softswitch.load import load_program
from softswitch.p4runtime.journal import Journal
from softswitch.p4runtime.loaded_config import read_p4info
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.service import P4RuntimeServer
from softswitch.p4runtime.status import Refusal
from softswitch.ports.report import SwitchCounters
from softswitch.program_files import ProgramFile, read_program
from softswitch.runtime.device import SwitchRuntime
from softswitch.settings import Datapath, FrameTransport, Settings
from softswitch.warm import is_cold, warm

if TYPE_CHECKING:
    from softswitch.explain.live import Trace

_LOG = logging.getLogger(__name__)


class Machine:
    def __init__(self, settings: Settings, server: P4RuntimeServer[LivePipeline]) -> None:
        self._settings, self._server = settings, server
        if is_cold():
            _print_status("compiling the switch once, which takes 7 s of CPU time; P4Runtime calls wait")
            with compile_lock():
                warm()
        with ExitStack() as resources:
            trace = self._open_trace()
            if trace is not None:
                resources.callback(trace.close)
            self.ports = self._open_ports(trace)
            resources.callback(self.ports.close)
            server.attach(self.ports, self.ports.make, self.ports.folder_of)
            resources.callback(server.pipelines.close)
            self.runtime = SwitchRuntime[LivePipeline](server.pipelines, self.ports, settings.device_id)
            self._load_program()
            self._write_counters(self.counters())
            self._resources = resources.pop_all()
        if settings.datapath is not Datapath.SOCKETS or settings.frames is not None:
            _print_status(self.ports.describe_datapath())
        if isinstance(self.ports, SwitchPorts) and (offloads := self.ports.describe_offloads()):
            _print_status(offloads)

    def counters(self) -> SwitchCounters:
        return self.ports.counters()._replace(lost_messages=self._server.lost_messages)

    def watch_interfaces(self, loop: asyncio.AbstractEventLoop) -> None:
        if isinstance(self.ports, SwitchPorts):
            loop.add_reader(self.ports.interface_watch.fileno(), self.ports.follow_interfaces)

    def report(self) -> None:
        counters = self.counters()
        for line in counters.describe():
            print(f"softswitch: {line}", file=sys.stderr)
        sys.stderr.flush()
        try:
            self._write_counters(counters)
        except SwitchError as error:  # the switch continues without the file
            _LOG.error("%s", error)

    def close(self) -> None:
        try:
            self.ports.stop()
            for line in self.counters().describe():
                _LOG.info("%s", line)
            self._write_counters(self.counters())
        finally:
            self._resources.close()

    def _open_ports(self, trace: Trace | None) -> SwitchPorts | FramePorts:
        settings = self._settings
        if settings.frames is not None:
            transport = _make_transport(settings.frames, settings)
            names = settings.ports if settings.frames.kind == "files" else {}
            ports = FramePorts(transport, settings.cpu_port, settings.priority_queues, names)
            ports.on_status = self._server.port_status_changed
            return ports
        return SwitchPorts(settings, trace)

    def _open_trace(self) -> Trace | None:
        file, program = self._settings.trace, self._settings.program
        if file is None:
            return None
        from softswitch.explain.filters import parse_filter  # imported only for tracing
        from softswitch.explain.live import Trace

        filters = [parse_filter(text) for text in self._settings.trace_filters]
        if filters and program is not None:
            try:
                loaded_program = load_program(self._read_program(program).json)
            except ProgramError as error:
                raise SwitchError(f"{program}: {error}") from error
            for packet_filter in filters:
                packet_filter.check(loaded_program)
        _print_status(f"tracing packets to {file}; the interpreter runs them, which is slow")
        return Trace(file, filters)

    def _write_counters(self, counters: SwitchCounters) -> None:
        if self._settings.counters is not None:
            counters.write(self._settings.counters)

    def _load_program(self) -> None:
        program, p4info = self._settings.program, self._settings.p4info
        ports = self.ports
        if isinstance(ports, SwitchPorts) and ports.pinned_folder is not None:
            self._resume_pinned(ports, ports.pinned_folder, program, p4info)
        elif program is not None:
            self._load_from_files(program, p4info)

    def _load_from_files(self, program: Path, p4info: Path | None) -> None:
        program_data, compiled_p4info = self._read_program(program)
        p4info_message = read_p4info(p4info) if p4info is not None else compiled_p4info
        try:
            config = p4r.ForwardingPipelineConfig(p4info=p4info_message, p4_device_config=program_data)
            if p4info_message is not None:
                self._server.pipelines.load(config)
            else:
                self._server.pipelines.load_bare(program_data)
        except (ProgramError, Refusal) as error:
            p4info_text = "" if p4info is None else f" with {p4info}"
            raise SwitchError(f"{program}{p4info_text}: {error}") from error

    def _read_program(self, program: Path) -> ProgramFile:
        return read_program(program, self._settings.include_folders, self._settings.definitions)

    def _resume_pinned(
        self, ports: SwitchPorts, folder: Path, program: Path | None, p4info: Path | None
    ) -> None:
        """Resume the program of a pinned datapath; `program` and `p4info` must be the pinned ones or None."""
        with closing(Journal(folder)) as journal:
            config = journal.config()
        unpin_hint = f"`--unpin {folder.parent}` removes the pinned datapath"
        if program is not None and self._read_program(program).json != config.p4_device_config:
            raise SwitchError(
                f"{program}: expected the program pinned in {folder.parent}: "
                f"`--no-p4` resumes it, {unpin_hint}"
            )
        if p4info is not None and read_p4info(p4info) != config.p4info:
            raise SwitchError(
                f"{p4info}: expected the P4Info pinned in {folder.parent}: omit --p4info; {unpin_hint}"
            )
        try:
            self._server.pipelines.resume(folder, ports.make_pinned)
        except (KernelError, Refusal) as error:
            raise SwitchError(f"--pin {folder.parent}: {error}; {unpin_hint}") from error
        _print_status(f"resumed the program pinned in {folder.parent}")


def _make_transport(frames: FrameTransport, settings: Settings) -> Transport:
    if frames.kind == "grpc":
        return GrpcStream(frames.argument, settings.device_id, settings.access)
    if frames.kind == "nanomsg":
        return Nanomsg(frames.argument)
    return PcapFiles(settings.ports, delay_s=int(frames.argument))


def _print_status(text: str) -> None:
    print(f"softswitch: {text}", file=sys.stderr, flush=True)
