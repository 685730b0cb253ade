"""Many switches as processes: memory and start of each, alone and as forks of a shared process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from softswitch.processes import reserved_port
from softswitch.progress import read_activity
from softswitch.shared import VARIABLE
from switch_bench.results import Result, Targets, at_most
from switch_bench.sections.networks import small_l3
from switch_bench.stage import Stage

_SWITCHES = 20
_POLL_S = 0.05
_ALONE, _SHARED = "alone", "sharing a process"


class Cost(NamedTuple):
    """What one of many switches takes, with its part of the shared process."""

    memory_mb: float
    """Proportional set size, since many of its pages are those of the others, too."""
    start_s: float
    """CPU time until it is ready."""


def many(stage: Stage) -> list[Result]:
    costs: dict[str, list[Cost]] = {_ALONE: [], _SHARED: []}
    with small_l3() as program:
        for is_shared in (False, True):  # compiles the program, and loads what the disk has
            cost_of_switches(program, 1, is_shared)
        for _ in range(stage.scale.rounds):
            for name in stage.shuffled(list(costs)):
                stage.announce(f"{_SWITCHES} switches, {name}")
                costs[name].append(cost_of_switches(program, _SWITCHES, name == _SHARED))
    what = f"each of {_SWITCHES} switches"
    memory = {name: [each.memory_mb for each in found] for name, found in costs.items()}
    start = {name: [each.start_s for each in found] for name, found in costs.items()}
    targets = Targets(_SHARED, (_ALONE,))
    return [
        Result("many", f"memory of {what}", "MB", memory, (at_most(40),), targets),
        Result("many", f"start of {what}", "CPU s", start, (at_most(0.3),), targets),
    ]


def cost_of_switches(program: Path, count: int, is_shared: bool) -> Cost:
    with tempfile.TemporaryDirectory() as folder, started(program, count, is_shared, Path(folder)) as pids:
        known = process_tree(pids)
        memory_mb = sum(map(pss_mb, known)) / count
        return Cost(memory_mb, sum(read_activity(pid).cpu_s for pid in pids) / count)


@contextmanager
def started(program: Path, count: int, is_shared: bool, folder: Path) -> Iterator[list[int]]:
    """Start switches, and wait until all are ready; yield the process ids of their commands."""
    # TMPDIR has this round's switches share a process that no other has started.
    environment = {**os.environ, VARIABLE: str(int(is_shared)), "TMPDIR": str(folder)}
    logs = [folder / f"{number}.log" for number in range(count)]
    with ExitStack() as stack:
        pids = []
        for log in logs:
            port = stack.enter_context(reserved_port(socket.SO_REUSEADDR))
            command = [sys.executable, "-m", "softswitch", str(program), "--datapath", "sockets"]
            process = subprocess.Popen(
                [*command, "--grpc-server-addr", f"127.0.0.1:{port}"],
                env=environment, stderr=stack.enter_context(log.open("w")),
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.terminate)
            pids.append(process.pid)
        while not all("ready" in log.read_text() for log in logs):
            time.sleep(_POLL_S)
        yield pids


def process_tree(pids: Sequence[int]) -> set[int]:
    """Return processes with all that descend from them: the first command has started the shared process."""
    found, remaining = set(pids), list(pids)
    while remaining:
        pid = remaining.pop()
        for task in Path(f"/proc/{pid}/task").iterdir():
            children = {int(word) for word in (task / "children").read_text().split()} - found
            found |= children
            remaining += children
    return found


def pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("Pss:")]
    return int(line.split()[1]) / 1024
