"""A network of two leaves and a spine, each with the P4 program, in place of the testbed's switch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from controller.tables import CPU_PORT, NO_PORT
from foundation.protocol import addressing, frames
from foundation.protocol.frames import UdpEndpoint, packet_out_header
from foundation.protocol.hashing import ps_of
from foundation.protocol.header import unpack
from softswitch.pipeline import Output, Pipeline
from tests.harness.switches import Attached, PipelineSwitch
from tests.harness.testbed import SERVERS, WORKERS, Frame, Testbed
from tests.harness.testnet import insert, write

Placement = Literal["leaves", "spine"]
"""Where hot sets are: each at the leaf of its server, or all at the spine."""
LEAVES, SPINE = (0, 1), 2
_UPLINK = 200
"""A leaf's port to the spine. The spine's ports to leaves follow: 201 and 202."""
_LINKS = {(leaf, _UPLINK): (SPINE, _UPLINK + 1 + leaf) for leaf in LEAVES}
_LINKS |= {end: start for start, end in _LINKS.items()}
"""A switch and its port -> the switch and port at the other end."""
_FIRST_LINK = 1_000
"""Number of the first link on the testbed's wire, where ports of hosts are smaller."""


def leaf_of(host_port: int) -> int:
    """Return the leaf of a host: the first worker and server are at one, the second ones at the other."""
    return (host_port - 1) % len(LEAVES)


def toward(switch: int, host_port: int) -> int:
    """Return a switch's port toward a host, whose own port has the same number at its leaf."""
    leaf = leaf_of(host_port)
    if switch == SPINE:
        return _UPLINK + 1 + leaf
    return host_port if switch == leaf else _UPLINK


class Tree(PipelineSwitch):
    def __init__(self, new_switch: Callable[[], Pipeline], placement: Placement) -> None:
        self.parts = [PipelineSwitch(new_switch()) for _ in (*LEAVES, SPINE)]
        self._links = sorted(_LINKS)
        self._callers: set[tuple[int, int]] = set()
        self._home_switches = [SPINE] if placement == "spine" else list(LEAVES)
        server_ports = [addressing.server_port(WORKERS, ps + 1) for ps in range(SERVERS)]
        self._switch_of_ps = [SPINE if placement == "spine" else leaf_of(port) for port in server_ports]
        self.homes: Sequence[int] = [self._home_switches.index(switch) for switch in self._switch_of_ps]

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        switch, local_port, frame = self._enter(port, frame)
        outputs = self.parts[switch].process(local_port, frame, t_in, now)
        return [output._replace(port=self._leave(switch, output.port)) for output in outputs]

    def _enter(self, port: int, frame: bytes) -> tuple[int, int, bytes]:
        if port >= _FIRST_LINK:
            return (*_LINKS[self._links[port - _FIRST_LINK]], frame)
        if port != CPU_PORT:
            return leaf_of(port), port, frame
        header_bytes = len(packet_out_header(0))
        command = frame[header_bytes:]
        ps = unpack(frames.parse(command).payload).ps
        home = self._switch_of_ps[ps]
        server_port = addressing.server_port(WORKERS, ps + 1)
        return home, CPU_PORT, packet_out_header(toward(home, server_port)) + command

    def _leave(self, switch: int, port: int) -> int:
        if (switch, port) in _LINKS:
            return _FIRST_LINK + self._links.index((switch, port))
        return port

    def set_job(self, job: int, offload: bool, proxy: bool) -> None:
        for switch in self._home_switches:
            self.parts[switch].set_job(job, offload, proxy)

    def add_server(self, job: int, ps: int, server: Attached, service: UdpEndpoint) -> None:
        home = self._switch_of_ps[ps]
        self.parts[home].add_server(job, ps, server._replace(port=toward(home, server.port)), service)
        for switch in {*LEAVES, SPINE} - {home}:
            home_port = _UPLINK if switch != SPINE else _UPLINK + 1 + home
            server_port = toward(switch, server.port)
            ports = home_port, NO_PORT if server_port == home_port else server_port
            row = insert("identify.servers", (job, ps), "identify.set_home", *ports)
            write(self.parts[switch].pipeline, [row])

    def add_caller(self, job: int, caller: int, epoch: int, row: int, at: Attached, privileged: bool) -> None:
        for switch in self._home_switches:
            local = at._replace(port=toward(switch, at.port))
            self.parts[switch].add_caller(job, caller, epoch, row, local, privileged)
        if (job, caller) not in self._callers:
            self._callers.add((job, caller))
            for switch in (*LEAVES, SPINE):
                port = insert(
                    "pass_on.callers", (job, caller), "pass_on.set_caller_port", toward(switch, at.port)
                )
                write(self.parts[switch].pipeline, [port])

    def remove_caller(self, job: int, caller: int, epoch: int) -> None:
        for switch in self._home_switches:
            self.parts[switch].remove_caller(job, caller, epoch)

    def _home(self, key: int) -> PipelineSwitch:
        return self.parts[self._switch_of_ps[ps_of(key, SERVERS)]]

    def set_entry(self, job: int, key: int, state: str | None, slot: int) -> None:
        self._home(key).set_entry(job, key, state, slot)

    def register(self, key: int, slot: int) -> int:
        return self._home(key).register(key, slot)


class TreeTestbed(Testbed):
    """The testbed, whose links between switches lose, double and reorder frames as those of hosts do."""

    switch: Tree

    def arrive(self, message: Frame) -> None:
        is_entering, port, frame = message
        super().arrive((is_entering or port >= _FIRST_LINK, port, frame))
