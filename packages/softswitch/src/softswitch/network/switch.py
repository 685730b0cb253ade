"""A switch of a network: a compiled program with its own state, under P4Runtime and BMv2's commands."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Protocol

from softswitch import ir
from softswitch.commands.console import Console
from softswitch.compiled import CompiledPipeline
from softswitch.errors import SwitchError
from softswitch.hashing import Crc
from softswitch.network.controller import Controller
from softswitch.network.datagrams import Datagrams
from softswitch.network.programs import Programs
from softswitch.network.state import SwitchState
from softswitch.network.virtual_loop import VirtualLoop
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.loaded_config import LoadedConfig
from softswitch.p4runtime.messages import p4i, p4r
from softswitch.p4runtime.service import P4RuntimeServer

_NS_PER_US = 1000
_numbers: Iterator[int] = count(1 << 20)  # of datagram queues, in the place of file descriptors


class SwitchNetwork(Protocol):
    """The part of a network that its switches call."""

    @property
    def loop(self) -> VirtualLoop: ...

    @property
    def programs(self) -> Programs: ...

    def switch_state(self, number: int) -> SwitchState | None:
        """Return the record of a switch; None as long as the network has not begun."""

    def port_names(self, number: int) -> dict[int, str]:
        """Return the names of the other ends of a switch's links, by port."""

    def send_to_switch(self, number: int, port: int, frame: bytes) -> None:
        """Have a frame arrive at a port now."""

    def set_queues(
        self, number: int, port: int | None, priority: int | None, rate: int | None, depth: int | None
    ) -> None: ...


class NetworkSwitch:
    """A switch of a network; make it by `Network.add_switch`.

    It is its own ports (`softswitch.p4runtime.pipelines.Ports`). Its clock is the network's, in µs.
    """

    def __init__(
        self,
        name: str,
        number: int,
        net: SwitchNetwork,
        config: LoadedConfig,
        priorities: int,
        cpu_port: int | None,
        program: Path,
    ) -> None:
        self.name, self.number, self.cpu_port = name, number, cpu_port
        self.program = program
        """The file of its program, as P4 source or BMv2 JSON."""
        self.priorities = priorities
        self._net = net
        self.cpu_socket = Datagrams(next(_numbers), self._send_packet_out)
        self.notice_socket = Datagrams(next(_numbers), lambda _: None)
        self.lost_packet_ins = 0
        self.pipeline: CompiledPipeline
        self._server: P4RuntimeServer[CompiledPipeline] = P4RuntimeServer(number, self, self._make_pipeline)
        self._console = Console(self._server.pipelines, self, number)
        self._server.pipelines.load(config)
        net.loop.begin(self._begin())

    def __repr__(self) -> str:
        return f"<switch {self.name}>"

    async def _begin(self) -> None:
        self._server.begin()

    def _make_pipeline(self, program: ir.Program) -> CompiledPipeline:
        return self._net.programs.make_pipeline(program, self.priorities)

    @property
    def passes(self) -> int:
        """Number of frames whose ingress has run."""
        state = self._net.switch_state(self.number)
        return 0 if state is None else int(state.passes)

    def close(self) -> None:
        self._server.pipelines.close()

    # -- control

    def run(self, *commands: str) -> list[str]:
        """Run commands of simple_switch_CLI; return the lines of their output. Raises `SwitchError`."""
        lines = self._console.run(*commands)
        self._net.loop.call_soon(self._server.reschedule_notifications)
        return lines

    def run_file(self, lines: list[str], name: str) -> None:
        """Run the lines of a command file of simple_switch_CLI."""
        self._console.run_file(lines, name)
        self._net.loop.call_soon(self._server.reschedule_notifications)

    @property
    def config(self) -> p4r.ForwardingPipelineConfig:
        return self.control.config

    @property
    def control(self) -> ControlledPipeline[CompiledPipeline]:
        """The program that runs, with its entities; for reading."""
        return self._server.pipelines.get_running()

    @property
    def p4info(self) -> p4i.P4Info:
        return self._server.pipelines.get_served().config.p4info

    def write(self, request: str | p4r.WriteRequest) -> None:
        """Apply a P4Runtime `WriteRequest`, perhaps in protobuf's text format; raises the first refusal."""
        self._console.write(request)
        self._net.loop.call_soon(self._server.reschedule_notifications)

    def connect(self, election_id: int = 1, role: str = "") -> Controller:
        """Return a controller with a session of the P4Runtime service of this switch."""
        return Controller(self._net.loop, self._server, self.number, election_id, role)

    # -- packets to and from the controller

    def _send_packet_out(self, frame: bytes) -> None:
        if self.cpu_port is None:
            raise OSError(0, f"switch {self.name} has no CPU port: set cpu_port")
        self._net.send_to_switch(self.number, self.cpu_port, frame)

    def take_packet_in(self, frame: bytes) -> None:
        self.lost_packet_ins += not self.cpu_socket.put(frame)
        self._net.loop.call_reader(self.cpu_socket.fileno())

    def take_notice(self, record: bytes) -> None:
        self.notice_socket.put(record)
        self._net.loop.call_reader(self.notice_socket.fileno())

    # -- ports, as the control plane sees them

    def now(self) -> int:
        return self._net.loop.now // _NS_PER_US

    def start(self, pipeline: CompiledPipeline) -> None:
        self.pipeline = pipeline
        state = self._net.switch_state(self.number)
        if state is not None:
            self.write_addresses(state)

    def stop(self) -> None:
        pass  # no frame is processed while Python runs

    def write_addresses(self, state: SwitchState) -> None:
        state.process, state.state = self.pipeline.process_address, self.pipeline.state_address

    def names(self) -> dict[int, str]:
        return self._net.port_names(self.number)

    def is_up(self, port: int) -> bool:
        return port in self.names()

    def add(self, port: int, interface: str) -> None:
        raise SwitchError(f"Error: port {port}: ports of a network's switch are made by its links")

    def remove(self, port: int) -> None:
        raise SwitchError(f"Error: port {port}: ports of a network's switch are made by its links")

    def set_queues(self, port: int | None, priority: int | None, rate: int | None, depth: int | None) -> None:
        self._net.set_queues(self.number, port, priority, rate, depth)

    def set_crc(self, calculation: str, crc: Crc) -> None:
        self.pipeline.use_code(*self.pipeline.code_with_crc(calculation, crc))
        self.start(self.pipeline)
