"""Pings between all hosts and commands on hosts, of a network that is used without a command line."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from softswitch.emulation.mininet_names import Mininet, Node
from softswitch.network.host import Host, Ping

PING_S = 2
"""Time in s that a ping waits for its answer."""
_TIME = re.compile(r"icmp_seq=(?P<sequence>\d+) .*time=(?P<ms>[\d.]+) ms")
_US_PER_MS = 1e3


class CommandResult(NamedTuple):
    """A command that a host has executed; `output` is None if it went to standard output."""

    host: str
    command: str
    status: int
    output: str | None


def ping_all(net: Mininet, hosts: Sequence[Host]) -> Mapping[tuple[str, str], Ping]:
    """Have each host ping all others once; the pings of one host are sent together."""
    pings: dict[tuple[str, str], Ping] = {}
    for host in hosts:
        others = [other for other in hosts if other is not host]
        sent = {other.name: _start_ping(net[host.name], other) for other in others}
        for name, process in sent.items():
            pings[host.name, name] = _read_ping(process.communicate()[0])
        answered = sum(pings[host.name, other.name].received for other in others)
        _report(f"pings of {host.name}: {answered} of {len(others)} answered")
    return pings


def _start_ping(node: Node, destination: Host) -> subprocess.Popen[str]:
    command = ["ping", "-n", "-c", "1", "-W", str(PING_S), str(destination.ip)]
    process: subprocess.Popen[str] = node.popen(command, text=True, stdin=subprocess.DEVNULL)
    return process


def _read_ping(output: str) -> Ping:
    return Ping(
        sent=1,
        round_trips_us={
            int(found["sequence"]): float(found["ms"]) * _US_PER_MS for found in _TIME.finditer(output)
        },
    )


def run_on_hosts(net: Mininet, commands: Iterable[tuple[str, str]], is_captured: bool) -> list[CommandResult]:
    """Execute shell commands on hosts in order, one after the other."""
    return [_run(net[host], command, is_captured) for host, command in commands]


def _run(node: Node, command: str, is_captured: bool) -> CommandResult:
    _report(f"{node.name}: {command}")
    process = node.popen(
        ["sh", "-c", command],
        mncmd=["mnexec", "-a", str(node.pid)],
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if is_captured else None,
        stderr=None,
    )
    output, _ = process.communicate()
    return CommandResult(node.name, command, process.returncode, output)


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
