"""Output of `softswitch explain` for the frames of a host in a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click

from softswitch.errors import SwitchError
from softswitch.explain.events import to_dict
from softswitch.explain.filters import Filter, select
from softswitch.explain.tree import LINE_WIDTH, draw, make_tree
from softswitch.messages import pluralize
from softswitch.network.files import read_network
from softswitch.network.network import Network
from softswitch.network.route import CopiedSwitch, RouteHop, copy_planned, copy_running, follow

_UDP_PORT = 5001
_PAYLOAD_BYTES = 22  # a frame of 64 bytes
_INDENT = "    "
_MAX_PORT = 65535


@dataclass(frozen=True)
class NetworkRequest:
    """Frames of a host in a network, and how to show what switches do to them."""

    file: Path
    sources: Path | None
    host: str
    destination: str | None
    """Host that gets a datagram, if no frames are given."""
    frames: list[bytes]
    live: str | None
    """P4Runtime address of the first running switch; None simulates the switches."""
    filters: list[Filter]
    as_json: bool
    show_all: bool


def print_route(request: NetworkRequest) -> None:
    """Follow each frame through the network, and print what each switch does to it; raises `SwitchError`."""
    with ExitStack() as opened:
        net = opened.enter_context(Network(seed=1))
        read_network(request.file, net, request.sources)
        host = net.host(request.host)
        frames = request.frames
        if request.destination is not None:
            address = str(net.host(request.destination).ip)
            frames = [host.udp_frame(address, _UDP_PORT, bytes(_PAYLOAD_BYTES))]
        switches = _copy_switches(net, request.live, opened)
        _check_filters(request, switches)
        for frame in frames:
            hops = follow(net, host, frame, switches)
            for line in _json_lines(hops, request) if request.as_json else _lines(net, hops, request):
                click.echo(line)


def _copy_switches(net: Network, live: str | None, opened: ExitStack) -> dict[str, CopiedSwitch]:
    if live is None:
        return {switch.name: copy_planned(switch, opened) for switch in net.switches}
    host, colon, port_text = live.rpartition(":")
    port = int(port_text) if port_text.isdecimal() else 0
    if not colon or not 1 <= port <= _MAX_PORT - len(net.switches):
        raise SwitchError(f"--live {live}: expected HOST:PORT of the first switch, as 127.0.0.1:50051")
    return {
        switch.name: copy_running(switch, f"{host}:{port + number}")
        for number, switch in enumerate(net.switches)
    }


def _check_filters(request: NetworkRequest, switches: dict[str, CopiedSwitch]) -> None:
    """Raise `SwitchError` for a filter with names that no switch's program has."""
    for event_filter in request.filters:
        errors = []
        for switch in switches.values():
            try:
                event_filter.check(switch.program)
            except SwitchError as error:
                errors.append(error)
        if len(errors) == len(switches) and errors:
            raise errors[0]


def _json_lines(hops: Iterator[RouteHop], request: NetworkRequest) -> Iterator[str]:
    """Yield the events of all switches, each with the name of its switch."""
    for hop in hops:
        if hop.events is not None and hop.receiver is not None:
            for event in select(hop.events, request.filters):
                yield json.dumps({"switch": hop.receiver.node, **to_dict(event)}, separators=(",", ":"))


def _lines(net: Network, hops: Iterator[RouteHop], request: NetworkRequest) -> Iterator[str]:
    reached = []
    for hop in hops:
        yield click.style(f"{_describe(net, hop)}  {pluralize(len(hop.frame), 'byte')}", bold=True)
        if hop.events is not None:
            events = select(hop.events, request.filters)
            trees = make_tree(events, request.show_all or bool(request.filters))
            yield from (f"{_INDENT}{line}" for line in draw(trees, LINE_WIDTH - len(_INDENT)))
        elif hop.receiver is not None:
            reached.append(hop.receiver.node)
    yield click.style(f"reaches {', '.join(reached) or 'no host'}", bold=True)


def _describe(net: Network, hop: RouteHop) -> str:
    if hop.receiver is not None:
        return f"{hop.sender} -> {hop.receiver}"
    sender = net.nodes[hop.sender.node]
    is_controller = hop.sender.port is not None and hop.sender.port == getattr(sender, "cpu_port", None)
    return f"{hop.sender} -> {'the controller' if is_controller else 'nothing: there is no link'}"
