"""Networks of P4 switches in virtual time, in one process and without root.

The switches run their programs as machine code, with tables, registers and clocks of their own. A run with
the same seed gives the same frames at the same times, on any machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, NetmaskValueError
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, TypeAlias

from nativekit.installed import require_numba
from softswitch.errors import SwitchError
from softswitch.network.arrays import NetworkSizes
from softswitch.network.compiled_handlers import CompiledHandler
from softswitch.network.engine import Engine
from softswitch.network.flow import FlowHandle, Receipts, Schedule
from softswitch.network.host import Host
from softswitch.network.link import End, LinkHandle, LinkOptions, write_link
from softswitch.network.programs import Programs
from softswitch.network.state import AT_CONTROLLER, AT_HOST, CAPTURED, NOTICE, NetworkState, SwitchState
from softswitch.network.switch import NetworkSwitch
from softswitch.network.trace import Hop, PacketTrace
from softswitch.network.virtual_loop import NEVER, VirtualLoop
from softswitch.pcap import MAX_FRAME_BYTES, create_file, record_header
from softswitch.queues.shape import UNLIMITED, Shape, packet_depth
from softswitch.v1model import DROP_PORT, MAX_PRIORITY_QUEUES, PORT_NUMBERS

_LOG = logging.getLogger(__name__)
Node: TypeAlias = "NetworkSwitch | Host"
MAX_FRAME = 1514
"""Bytes of the largest frame by default: a packet of 1,500 bytes with its Ethernet header."""
_PS_PER_S, _NS_PER_S, _NS_PER_US = 10**12, 10**9, 1e3
_CPU_SHAPE = Shape(UNLIMITED, packet_depth(64))
_MAC_PREFIX = "02:00:00:00"


class Network(contextlib.AbstractContextManager["Network"]):
    """Switches, hosts and links, which are added before the first `run`; close it, or use it as a context.

    All random numbers follow from `seed`. With `knows_neighbours` each host knows the MAC addresses of all
    hosts, as Mininet's static ARP entries do; otherwise hosts resolve addresses by ARP.
    """

    switch_type: ClassVar[type[NetworkSwitch]] = NetworkSwitch
    """Class of the switches that `add_switch` makes."""

    def __init__(
        self, seed: int = 0, *, max_frame_bytes: int = MAX_FRAME, knows_neighbours: bool = True
    ) -> None:
        require_numba("softswitch.network")
        if not 1 <= max_frame_bytes <= MAX_FRAME_BYTES:
            raise SwitchError(f"max_frame_bytes {max_frame_bytes}: expected 1 to {MAX_FRAME_BYTES}")
        self.loop, self.programs = VirtualLoop(), Programs()
        self.nodes: dict[str, Node] = {}
        self.switches: list[NetworkSwitch] = []
        self.hosts: list[Host] = []
        self.links: list[LinkHandle] = []
        self.uses_arp = False
        """Whether hosts ask for the addresses of pings and datagrams by ARP, also with `knows_neighbours`."""
        self._seed, self._max_frame_bytes = seed, max_frame_bytes
        self._knows_neighbours = knows_neighbours
        self._ports: dict[str, dict[int, int]] = {}  # interface by node and port; hosts have port 0
        self._engine: Engine | None = None
        self._begin_actions: list[Callable[[], object]] = []
        self._flow_count = 0
        self._captures: dict[int, BinaryIO] = {}
        self._handlers: dict[int, CompiledHandler] = {}  # by host; machine code stays in memory by them
        self._trace: PacketTrace | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the switches' memory, and finish the captures."""
        for switch in self.switches:
            switch.close()
        for file in self._captures.values():
            file.close()
        self._captures.clear()
        if not self.loop.is_closed():
            self.loop.shut_down()

    # -- topology

    def add_switch(
        self,
        name: str,
        program: str | Path,
        p4info: str | Path | None = None,
        *,
        include_folders: Sequence[str | Path] = (),
        definitions: Mapping[str, str | int] | None = None,
        cpu_port: int | None = None,
        priority_queues: int = 1,
        latency_us: float = 0,
        max_pps: float = math.inf,
    ) -> NetworkSwitch:
        """Add a switch that runs P4 source, or BMv2 JSON with its P4Info.

        A frame waits `latency_us` before its pass, and at most `max_pps` frames a second begin their pass.
        """
        self._check_new(name)
        if cpu_port is not None and not 0 <= cpu_port < PORT_NUMBERS:
            raise SwitchError(f"switch {name}: cpu_port {cpu_port}: expected 0 to {PORT_NUMBERS - 1}")
        if not 1 <= priority_queues <= MAX_PRIORITY_QUEUES:
            raise SwitchError(
                f"switch {name}: priority_queues {priority_queues}: expected 1 to {MAX_PRIORITY_QUEUES}"
            )
        if not latency_us >= 0 or not max_pps > 0:
            raise SwitchError(
                f"switch {name}: expected latency_us of 0 or more and max_pps above 0, "
                f"got {latency_us} and {max_pps}"
            )
        config = self.programs.load(
            Path(program),
            None if p4info is None else Path(p4info),
            [*map(Path, include_folders)],
            definitions,
        )
        number = len(self.switches)
        switch = self.switch_type(name, number, self, config, priority_queues, cpu_port, Path(program))
        self.switches.append(switch)
        self.nodes[name], self._ports[name] = switch, {}
        gap_ps = 0 if max_pps == math.inf else round(_PS_PER_S / max_pps)
        self._begin_actions.append(lambda: self._write_switch(switch, round(latency_us * _NS_PER_US), gap_ps))
        return switch

    def add_host(self, name: str, ip: str, *, mac: str | None = None, gateway: str | None = None) -> Host:
        """Add a host; `ip` is an address with its prefix length, as 10.0.1.1/24.

        Packets to other prefixes go to the MAC address of `gateway`, or of the destination if there is none.
        """
        self._check_new(name)
        number = len(self.hosts)
        try:
            IPv4Interface(ip)
            IPv4Address(gateway or "0.0.0.0")
        except (AddressValueError, NetmaskValueError) as error:
            raise SwitchError(f"host {name}: expected an IPv4 address, as 10.0.1.1/24: {error}") from None
        default_mac = f"{_MAC_PREFIX}:{number + 1 >> 8:02x}:{number + 1 & 0xFF:02x}"
        host = Host(name, number, self, ip, mac or default_mac, gateway)
        self.hosts.append(host)
        self.nodes[name], self._ports[name] = host, {}
        return host

    def add_host_command(self, host: str, command: str) -> None:
        """Warn of a command of a file that only a network of real hosts can execute."""
        _LOG.warning("host %s: the command %r has no effect in a simulated network", host, command)

    def add_link(
        self,
        first: Node | str,
        second: Node | str,
        *,
        ports: tuple[int | None, int | None] = (None, None),
        **options: Any,  # the fields of `LinkOptions`, which checks them
    ) -> LinkHandle:
        """Add a link between two nodes, with the fields of `link.LinkOptions`, as `mbit=10, delay_us=500`.

        `ports` are the numbers of the ports at switches, by default the next ones from 1 on.
        """
        unknown = options.keys() - {field.name for field in fields(LinkOptions)}
        if unknown:
            expected = ", ".join(field.name for field in fields(LinkOptions))
            raise SwitchError(f"a link: {', '.join(sorted(unknown))}: expected options of {expected}")
        self._check_growing()
        nodes = self._node(first), self._node(second)
        i = 2 * len(self.links)
        if nodes[0] is nodes[1] and isinstance(nodes[0], Host):
            raise SwitchError(f"a link: host {nodes[0].name} cannot be both ends")
        ends = self._attach(nodes[0], ports[0], i), self._attach(nodes[1], ports[1], i + 1)
        link = LinkHandle(ends, (i, i + 1), LinkOptions(**options), self)
        self.links.append(link)
        return link

    def _attach(self, node: Node, port: int | None, interface: int) -> End:
        used = self._ports[node.name]
        if isinstance(node, Host):
            if used:
                raise SwitchError(f"host {node.name}: expected one link, got a second one")
            used[0] = interface
            return End(node.name)
        taken = {*used, node.cpu_port}
        number = next(p for p in range(1, PORT_NUMBERS) if p not in taken) if port is None else port
        if number in taken or not 0 <= number < PORT_NUMBERS or number == DROP_PORT:
            raise SwitchError(
                f"switch {node.name}: port {number}: expected a free port from 0 to {PORT_NUMBERS - 2}"
            )
        used[number] = interface
        return End(node.name, number)

    def _node(self, node: Node | str) -> Node:
        name = node if isinstance(node, str) else node.name
        if name not in self.nodes:
            raise SwitchError(f"node {name!r}: expected one of {', '.join(self.nodes) or 'the added ones'}")
        return self.nodes[name]

    def host(self, name: str) -> Host:
        """Return a host by its name; raises `SwitchError`."""
        node = self._node(name)
        if not isinstance(node, Host):
            raise SwitchError(f"node {name!r}: expected a host, got a switch")
        return node

    def switch(self, name: str) -> NetworkSwitch:
        """Return a switch by its name; raises `SwitchError`."""
        node = self._node(name)
        if not isinstance(node, NetworkSwitch):
            raise SwitchError(f"node {name!r}: expected a switch, got a host")
        return node

    def _check_new(self, name: str) -> None:
        self._check_growing()
        if name in self.nodes:
            raise SwitchError(f"node {name!r} is there already")

    def _check_growing(self) -> None:
        if self._engine is not None:
            raise SwitchError("the network has begun: add switches, hosts and links before the first run")

    # -- time

    @property
    def now_us(self) -> float:
        return self.now_ns() / _NS_PER_US

    def now_ns(self) -> int:
        return self.loop.now

    def call_at(self, time_us: float, call: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        """Call a function at a time of the network, or now if that has passed; return what cancels it."""
        return self.loop.call_at(time_us / 1e6, call, *arguments)

    def call_after(
        self, delay_us: float, call: Callable[..., object], *arguments: object
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now_us + delay_us, call, *arguments)

    def run(self, *, until_s: float | None = None, for_s: float | None = None) -> None:
        """Run to a time, for a duration, or by default until nothing is left to happen.

        Exceptions of handlers end the run, and are raised.
        """
        if until_s is not None and for_s is not None:
            raise SwitchError("run: expected until_s or for_s, got both")
        engine = self._begun()
        end = NEVER
        if until_s is not None:
            end = round(until_s * _NS_PER_S)
        elif for_s is not None:
            end = engine.now + round(for_s * _NS_PER_S)
        if end < engine.now:
            raise SwitchError(f"until_s {until_s}: expected no time before now, {engine.now / _NS_PER_S} s")
        while (event_time := engine.next_event()) <= end or self.loop.next_due() <= end:
            call_time = self.loop.next_due()
            if min(event_time, call_time) == NEVER:
                break
            if call_time <= event_time:
                engine.advance(max(call_time, engine.now))
            elif engine.run(min(end, call_time - 1)):
                self.loop.now = engine.now
                self._take_deferred(engine)
            self.loop.run_due(engine.now)
        if end < NEVER:
            engine.advance(end)
            self.loop.run_due(end)

    def _take_deferred(self, engine: Engine) -> None:
        for kind, target, data in engine.take_deferred():
            if kind == AT_HOST:
                self.hosts[target].receive(data)
            elif kind == AT_CONTROLLER:
                self.switches[target].take_packet_in(data)
            elif kind == NOTICE:
                self.switches[target].take_notice(data)
            elif kind == CAPTURED:
                self._captures[target].write(record_header(engine.now, len(data)) + data)
            elif self._trace is not None:
                sender, receiver = self.links[target // 2].ends[:: -1 if target % 2 else 1]
                self._trace.hops.append(Hop(engine.now, sender, receiver, data))

    # -- the running network

    def _begun(self) -> Engine:
        """Return the engine, with all arrays; no node or link can be added after the first call."""
        if self._engine is None:
            self._engine = self._make_engine()
            for action in self._begin_actions:
                action()
            self._begin_actions.clear()
        return self._engine

    def _when_begun(self, action: Callable[[], object]) -> None:
        """Execute an action now, or before the first event."""
        if self._engine is None:
            self._begin_actions.append(action)
        else:
            action()

    def _make_engine(self) -> Engine:
        shapes: list[Shape] = [link.options.shape for link in self.links for _ in range(2)]
        for switch in self.switches:
            if switch.cpu_port is not None:
                self._ports[switch.name][switch.cpu_port] = len(shapes)
                shapes.append(_CPU_SHAPE)
        records = [switch.pipeline.queue_record_bytes for switch in self.switches]
        priorities = max((switch.priorities for switch in self.switches), default=1)
        frame_bytes = self._max_frame_bytes + max(records, default=0)
        sizes = NetworkSizes(len(self.switches), len(self.hosts), shapes, priorities, frame_bytes)
        engine = Engine(sizes, self._seed, [host.name for host in self.hosts])
        state = engine.state
        for number, link in enumerate(self.links):
            for i in (2 * number, 2 * number + 1):
                write_link(state, i, link.options)
                state.interfaces[i].peer = i ^ 1
        for node in self.nodes.values():
            for port, i in self._ports[node.name].items():
                if isinstance(node, Host):
                    state.interfaces[i].host, state.hosts[node.number].interface = node.number, i
                else:
                    state.interfaces[i].switch, state.interfaces[i].port = node.number, port
                    state.ports[node.number, port] = i
        return engine

    def _write_switch(self, switch: NetworkSwitch, latency_ns: int, gap_ps: int) -> None:
        state = self.network_state().switches[switch.number]
        state.latency, state.gap_ps = latency_ns, gap_ps
        state.has_listener = 1
        switch.write_addresses(state)

    def network_state(self) -> NetworkState:
        return self._begun().state

    # -- what switches need

    def switch_state(self, number: int) -> SwitchState | None:
        return None if self._engine is None else self._engine.state.switches[number]

    def port_names(self, number: int) -> dict[int, str]:
        name = self.switches[number].name
        return {
            end.port: str(other)
            for link in self.links
            for end, other in (link.ends, link.ends[::-1])
            if end.node == name and end.port is not None
        }

    def send_to_switch(self, number: int, port: int, frame: bytes) -> None:
        name = self.switches[number].name
        self._when_begun(lambda: self._begun().inject(self._ports[name][port], frame))

    def set_queues(
        self, number: int, port: int | None, priority: int | None, rate: int | None, depth: int | None
    ) -> None:
        self._when_begun(lambda: self._set_queues(number, port, priority, rate, depth))

    def _set_queues(
        self, number: int, port: int | None, priority: int | None, rate: int | None, depth: int | None
    ) -> None:
        ports, engine = self._ports[self.switches[number].name], self._begun()
        queues = engine.state.queues.queues
        priorities = range(queues.shape[1]) if priority is None else [priority]
        for i in ports.values() if port is None else [ports[port]]:
            for k in priorities:
                if rate is not None:
                    queues[i, k].gap = _NS_PER_S // rate if rate else 0
                if depth is not None:
                    self._set_depth(engine, i, k, depth)

    def _set_depth(self, engine: Engine, i: int, k: int, depth: int) -> None:
        queue = engine.state.queues.queues[i, k]
        others = int(engine.state.queues.queues["max_packets"].sum()) - int(queue.max_packets)
        if others + depth > len(engine.state.queues.slots):
            raise SwitchError(f"Error: a depth of {depth}: the queues of the network have less room")
        queue.max_packets = depth

    # -- what hosts need

    def transmit(self, host: int, frame: bytes) -> None:
        self._when_begun(lambda: self._begun().transmit(self._interface_of(host), frame))

    def begin_flow(
        self, host: int, frames: Sequence[bytes], schedule: Schedule, is_logged: bool
    ) -> FlowHandle:
        schedule.times_ns()  # which refuses malformed ones
        self._when_begun(lambda: self._begun().begin_flow(host, frames, schedule, is_logged))
        k = self._flow_count
        self._flow_count += 1
        return FlowHandle(k, self.network_state, lambda: self._receipts(k))

    def _receipts(self, k: int) -> Receipts:
        return self._begun().receipts(k)

    def mac_of(self, address: IPv4Address) -> str | None:
        if not self._knows_neighbours:
            return None
        return next((host.mac for host in self.hosts if host.ip == address), None)

    def hand_frames_over(self, host: int) -> None:
        self._when_begun(lambda: self._hand_frames_over(host))

    def _hand_frames_over(self, host: int) -> None:
        self.network_state().hosts[host].is_python = 1

    def set_handler(self, host: int, handler: CompiledHandler, at_ns: int) -> None:
        self._when_begun(lambda: self._set_handler(host, handler, at_ns))

    def _set_handler(self, host: int, handler: CompiledHandler, at_ns: int) -> None:
        self._interface_of(host)  # which a host without a link does not have
        self._handlers[host] = handler
        self._begun().set_handler(host, handler, at_ns)

    def _interface_of(self, host: int) -> int:
        name = self.hosts[host].name
        if not self._ports[name]:
            raise SwitchError(f"host {name} has no link")
        return self._ports[name][0]

    # -- captures and traces

    def trace(self, flow: FlowHandle) -> PacketTrace:
        """Record the way of a flow's frames from now on, in place of that of a flow traced before."""
        self._trace = PacketTrace()
        self._when_begun(lambda: self._begun().trace(flow.number))
        return self._trace

    def capture(self, interface: int, path: Path) -> None:
        try:
            file = os.fdopen(create_file(path), "ab")
        except OSError as error:
            raise SwitchError(f"{path}: {error.strerror}") from None
        self._captures[interface] = file
        self._when_begun(lambda: self._begin_capture(interface))

    def _begin_capture(self, interface: int) -> None:
        self.network_state().links[interface].is_captured = 1
