"""The options `--port-rate` and `--port-queue`: `1=1000pps`, `*=64kb`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from softswitch.errors import SwitchError
from softswitch.ports.sockets import PortError
from softswitch.queues import DEFAULT_DEPTH, Depth, Rate, Shape, parse_depth, parse_rate
from softswitch.queues.shape import UNLIMITED

T = TypeVar("T")
ALL = "*"


def parse_port_rate(text: str) -> tuple[str, Rate]:
    return _parse("--port-rate", text, parse_rate, "1=1000pps")


def parse_port_queue(text: str) -> tuple[str, Depth]:
    return _parse("--port-queue", text, parse_depth, "1=64")


def _parse(option: str, text: str, parse: Callable[[str], T], example: str) -> tuple[str, T]:
    found = re.fullmatch(r"(\d+|\*)=(.*)", text, re.ASCII)
    if found is None:
        raise PortError(f"{option} {text}: expected a port, or {ALL} for all, with its value, as {example}")
    try:
        value = parse(found[2])
    except SwitchError as error:
        raise PortError(f"{option} {text}: {error}") from None
    return found[1] if found[1] == ALL else str(int(found[1])), value


def shapes_of(
    ports: Iterable[int], rates: Mapping[str, Rate], depths: Mapping[str, Depth]
) -> dict[int, Shape]:
    explicit_ports = {int(name) for name in (*rates, *depths) if name != ALL}
    shaped_ports = explicit_ports.union(ports) if ALL in (*rates, *depths) else explicit_ports
    return {
        port: Shape(
            rates.get(str(port), rates.get(ALL, UNLIMITED)),
            depths.get(str(port), depths.get(ALL, DEFAULT_DEPTH)),
        )
        for port in sorted(shaped_ports)
    }
