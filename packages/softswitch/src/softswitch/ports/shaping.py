"""The options `--port-rate` and `--port-queue`: `1=1000pps`, `*=64kb`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from softswitch.errors import PortError, SwitchError
from softswitch.queues.shape import DEFAULT_DEPTH, UNLIMITED, Depth, Rate, Shape, parse_depth, parse_rate

T = TypeVar("T")
ALL_PORTS = "*"


def parse_port_rate(text: str) -> tuple[str, Rate]:
    return _parse_option("--port-rate", text, parse_rate, "1=1000pps")


def parse_port_queue(text: str) -> tuple[str, Depth]:
    return _parse_option("--port-queue", text, parse_depth, "1=64")


def _parse_option(option: str, text: str, parse_value: Callable[[str], T], example: str) -> tuple[str, T]:
    match = re.fullmatch(r"(\d+|\*)=(.*)", text, re.ASCII)
    if match is None:
        raise PortError(
            f"{option} {text}: expected a port, or {ALL_PORTS} for all, with its value, as {example}"
        )
    try:
        value = parse_value(match[2])
    except SwitchError as error:
        raise PortError(f"{option} {text}: {error}") from None
    port = match[1] if match[1] == ALL_PORTS else str(int(match[1]))  # without leading zeros
    return port, value


def make_shapes(
    ports: Iterable[int], rates: Mapping[str, Rate], depths: Mapping[str, Depth]
) -> dict[int, Shape]:
    explicit_ports = {int(name) for name in (*rates, *depths) if name != ALL_PORTS}
    shaped_ports = explicit_ports.union(ports) if ALL_PORTS in (*rates, *depths) else explicit_ports
    return {
        port: Shape(
            rates.get(str(port), rates.get(ALL_PORTS, UNLIMITED)),
            depths.get(str(port), depths.get(ALL_PORTS, DEFAULT_DEPTH)),
        )
        for port in sorted(shaped_ports)
    }
