"""The counters of the ports as lines for people."""

from collections.abc import Mapping
from typing import NamedTuple


class PortCounters(NamedTuple):
    """Frames of one port since it was opened; dropped ones by reason."""

    rx: int
    tx: int
    rx_dropped: int  # the ring was full, or no pipeline ran
    tx_dropped: int  # the port would not take the frame (slow, down)
    rx_oversize: int  # larger than a ring slot
    tx_oversize: int  # larger than the interface's MTU
    lost: int  # by impairment, both directions, as the next two
    duplicated: int
    reordered: int


_REASONS = {
    "rx_dropped": "dropped on arrival (no room, or no program)",
    "tx_dropped": "not taken by the interface (slow, or down)",
    "rx_oversize": "too large to receive",
    "tx_oversize": "too large to send",
    "lost": "lost by --impair",
    "duplicated": "duplicated by --impair",
    "reordered": "reordered by --impair",
}


def describe(counters: Mapping[int, PortCounters], names: Mapping[int, str], no_such_port: int) -> list[str]:
    """A line a port, with the reasons that have occurred, and one for frames to ports that there are not."""
    lines = [_line(f"port {number} ({names[number]})", count) for number, count in counters.items()]
    if no_such_port:
        lines.append(f"sent to ports that the switch does not have: {no_such_port}")
    return lines


def _line(port: str, counters: PortCounters) -> str:
    parts = [f"received {counters.rx}", f"sent {counters.tx}"]
    parts += [f"{text} {count}" for name, text in _REASONS.items() if (count := getattr(counters, name))]
    return f"{port}: {', '.join(parts)}"
