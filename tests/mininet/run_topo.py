"""Runs of the main job, small, in forks of a process with its modules, and what they leave on the machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl

from foundation.protocol.addressing import switch_name
from tests.harness.warm_processes import WarmProcess, warm_process
from topologies.run_lock import find_marked_processes

PATIENCE_S = 300.0
SMALL: dict[str, object] = {
    "workers": 2, "top_k": 2000, "rounds": 2, "loads": [0.5], "block_ms": 300, "discard_ms": 100,
    "block_steps": 20, "trace_steps": 400, "profile_lanes": 100_000, "calibration_s": 0.3,
    "empty_rpcs": 20,
    "budget_s": 2.0,  # so that on a busy machine no block is run again
}  # fmt: skip
FEWER_KEYS: dict[str, object] = {
    **SMALL, "top_k": 500, "workload.parameters": 60_000, "workload.hot_parameters": 2_000,
    "workload.keys_per_step": 1_000, "profile_lanes": 30_000, "calibration_s": 0.1,
}  # fmt: skip
"""With a smaller model a run takes a third less CPU time: less is generated, loaded, dumped and compared.
A capacity is measured with ten steps or so, which is precise enough for a load."""
# P4Runtime ports, one or three for each run, below the kernel's ephemeral ports.
_PORTS = count(9_600, 3)


@dataclass
class Run:
    process: WarmProcess
    runs: Path
    port: int
    output: str = ""
    errors: str = ""

    @property
    def folder(self) -> Path:
        latest = self.runs / "latest"
        assert latest.exists(), f"there is no run that can be read: {self.errors}"
        return latest.resolve()

    def wait(self) -> int:
        self.output, self.errors = self.process.communicate(timeout=PATIENCE_S)
        return self.process.wait()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def wait_for_parts(self, pattern: str) -> None:
        self.wait_for(lambda: any(self.runs.glob(f"*/parts/{pattern}")))

    def agents(self, module: str) -> list[int]:
        return [pid for pid in find_marked_processes() if f"\0-m\0{module}\0" in command_line(pid)]

    def kill_restarted(self, module: str) -> None:
        """Kill a PS or the switch of a run with two PSs, and wait until it is started again."""
        os.kill(self.agents(module)[0], signal.SIGKILL)
        self.wait_for(lambda: len(self.agents(module)) == (2 if module == "hotline_agents.ps" else 1))


def command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        # Forked agents have more zeros at the end (`hotline_agents.fork_server`).
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0") + "\0"
    return ""


@contextlib.contextmanager
def run_topo(
    folder: Path,
    *variables: str,
    tables: str = "",
    stdin: int = subprocess.DEVNULL,
    small: Mapping[str, object] = SMALL,
    **settings: object,
) -> Iterator[Run]:
    """Start `hotline run` with the small configuration, other settings, TOML tables and variables."""
    config = folder / "run.toml"
    runs = folder / "runs"
    port = next(_PORTS)
    values = {**small, "runs": str(runs), "p4runtime_port": port, **settings}
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    config.write_text("\n".join([*lines, tables]))
    process = warm_process(
        "hotline.cli", "run", f"CONFIG={config}", *variables,
        stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Run(process, runs, port)
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)


def finished_run(folder: Path, *variables: str, code: int = 0, **settings: Any) -> Run:
    """Start a run as `run_topo` does, and return it when it has ended with this exit code."""
    with run_topo(folder, *variables, **settings) as run:
        assert run.wait() == code, run.errors
    return run


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system of limited size in memory, at a new folder."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def summary_of(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return summary


def record_of(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return record


def check_staleness(staleness: Mapping[str, float]) -> None:
    """Check the ages of copies that servers collected from the switch, in ms."""
    assert staleness["copies"] > 1_000 and 0 < staleness["p50_ms"] <= staleness["p99_ms"]
    assert staleness["p99_ms"] <= staleness["oldest_ms"] and staleness["bound_ms"] == 50


def rpcs_to_servers(folder: Path) -> dict[str, float]:
    """Return the RPCs per step that reached a PS, by arm, without retransmissions.

    They are per step because blocks that were run again are in the logs, too.
    """
    arm = pl.col("arm").cast(pl.String)
    rpcs = pl.read_parquet(folder / "rpc.parquet").filter(
        pl.col("round") >= 0, pl.col("served") < pl.col("lanes")
    )
    steps = pl.read_parquet(folder / "operations.parquet").filter(
        pl.col("round") >= 0, pl.col("op").cast(pl.String) == "step"
    )
    of = dict(steps.group_by(arm).len().rows())
    return {name: number / of[name] for name, number in rpcs.group_by(arm).len().rows()}


def update_log(folder: Path, hot: int = 20, others: int = 40) -> Path:
    """Write 300 iterations that update the hot keys 0, 1, ..., and others of the keys 1,000 to 5,999."""
    lines = ["iteration,worker,key"]
    for iteration in range(300):
        lines += [f"{iteration},0,{key}" for key in range(hot)]
        lines += [f"{iteration},0,{1000 + (7 * iteration + i) % 5000}" for i in range(others)]
    log = folder / "updates.csv"
    log.write_text("\n".join(lines) + "\n")
    return log


@dataclass(frozen=True)
class Traces:
    """What a run may leave on the machine; a namespace lives as long as a process in it."""

    interfaces: frozenset[str]
    processes: frozenset[int]

    @staticmethod
    def look() -> Traces:
        switches = tuple(f"{switch_name(number)}-" for number in range(3))
        names = frozenset(name for _, name in socket.if_nameindex() if name.startswith(switches))
        return Traces(names, frozenset(find_marked_processes()) | frozenset(_mininet_shells()))


def _mininet_shells() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and "mininet:" in command_line(int(entry.name)):
            yield int(entry.name)
