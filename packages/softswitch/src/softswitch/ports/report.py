"""Counters of the ports, and their description as lines of text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from nativekit.files import replace_file
from softswitch.errors import SwitchError


class PortCounters(NamedTuple):
    """Frames of one port since it was opened, with dropped frames by reason.

    `rx` counts all arrivals: the frames that the pipeline processed (impairments aside), `rx_dropped` and
    `rx_oversize`. The pipeline's outputs to the port are the sum of `tx`, `tx_dropped` and `tx_oversize`;
    with queues before egress, `queue_dropped` counts packets that were never output.
    """

    name: str  # of the interface
    rx: int
    tx: int
    rx_dropped: int  # the ring was full, or no pipeline ran
    tx_dropped: int  # the interface refused the frame (slow, down)
    rx_oversize: int  # larger than a ring slot, or merged by offloads
    tx_oversize: int  # larger than the interface's MTU
    lost: int  # frames lost by impairment in both directions; `duplicated`, `reordered` likewise
    duplicated: int
    reordered: int
    queue_dropped: int = 0  # packets before egress: their queue was full, or the pipeline was stopped
    program_ns: int = 0  # CPU time of the kernel's program for all of `rx`, ns; 0 with the datapath `sockets`
    program_runs: tuple[int, ...] = ()  # frames of `rx` that the kernel's program processed, by CPU


class SwitchCounters(NamedTuple):
    """Counters of the ports by number, the CPU port included, and of the switch as a whole."""

    ports: Mapping[int, PortCounters]
    no_such_port: int  # frames that the pipeline sent to a port that the switch does not have
    lost_notices: int  # digests and log records that were not read from `notice_socket` in time
    lost_messages: int = 0  # packets, digests and notifications that a controller did not read in time
    datapath: str = "sockets"  # or "kernel"

    def describe(self) -> list[str]:
        lines = [_describe_port(number, port) for number, port in self.ports.items()]
        if self.no_such_port:
            lines.append(f"sent to ports that the switch does not have: {self.no_such_port}")
        if self.lost_notices:
            lines.append(f"digests and log records lost (not read in time): {self.lost_notices}")
        if self.lost_messages:
            lines.append(f"messages to controllers lost (not read in time): {self.lost_messages}")
        return lines

    def write(self, path: Path) -> None:
        ports = {number: port._asdict() for number, port in self.ports.items()}
        text = json.dumps({**self._asdict(), "ports": ports}, indent=2) + "\n"
        try:
            replace_file(path, text.encode(), mode=0o644)
        except OSError as error:
            raise SwitchError(f"counters cannot be written to {path}: {error.strerror}") from None


def add_counters(earlier_counters: SwitchCounters | None, new_counters: SwitchCounters) -> SwitchCounters:
    if earlier_counters is None:
        return new_counters
    ports = {
        number: _add_port_counters(earlier_counters.ports[number], port)
        if number in earlier_counters.ports
        else port
        for number, port in new_counters.ports.items()
    }
    # `lost_messages` is counted by the P4Runtime server, which adds it later.
    return new_counters._replace(
        ports=ports,
        no_such_port=earlier_counters.no_such_port + new_counters.no_such_port,
        lost_notices=earlier_counters.lost_notices + new_counters.lost_notices,
    )


def _add_port_counters(earlier_counters: PortCounters, new_counters: PortCounters) -> PortCounters:
    # All fields but the first, `name`, and the last, `program_runs`.
    sums = (a + b for a, b in zip(earlier_counters[1:-1], new_counters[1:-1], strict=True))
    runs = zip_longest(earlier_counters.program_runs, new_counters.program_runs, fillvalue=0)
    return PortCounters._make([new_counters.name, *sums, tuple(map(sum, runs))])


_REASONS = {
    "rx_dropped": "dropped on arrival (no room, or no program)",
    "tx_dropped": "refused by the interface (slow, or down)",
    "rx_oversize": "too large to receive",
    "tx_oversize": "too large to send",
    "queue_dropped": "dropped by the queue (full, or the program ended)",
    "lost": "lost by --impair",
    "duplicated": "duplicated by --impair",
    "reordered": "reordered by --impair",
}


def _describe_port(number: int, port: PortCounters) -> str:
    parts = [f"received {port.rx}", f"sent {port.tx}"]
    parts += [f"{text} {count}" for name, text in _REASONS.items() if (count := getattr(port, name))]
    return f"port {number} ({port.name}): {', '.join(parts)}"
