"""A `hotline up` with two servers, and workers that are killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from foundation.checkout import ROOT
from foundation.errors import HotlineError
from hotline_scripts.kv import launch
from hotline_scripts.kv.connection import Connection
from hotline_scripts.lines import socket_path
from softswitch.progress import IdleLimit, read_activity
from tools.bench.deaths.steps import Times, read_times
from topologies.run_lock import find_marked_processes

SERVERS = 2
KEEPER, SERVER = "hotline_scripts.keeper", "hotline_agents.ps"
"""Modules of processes whose CPU time is read."""
_IDLE_S, _POLL_S = 60.0, 0.002


class BenchError(HotlineError):
    """The reason why a study cannot go on, in one line."""


class Session:
    """Workers of a `hotline up`; `folder` has a log of steps for each rank."""

    def __init__(self, folder: Path, workers: int, up: int, arguments: tuple[str, ...]) -> None:
        self._folder, self.workers, self._up, self._arguments = folder, workers, up, arguments
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self.is_up = True

    def begin(self, folder: Path, arguments: tuple[str, ...]) -> None:
        """Begin another session with the same `hotline up`, after all workers have ended."""
        folder.mkdir()
        self._folder, self._arguments = folder, arguments
        self._processes = {}

    @property
    def ranks(self) -> range:
        return range(self.workers)

    def log(self, rank: int) -> Path:
        return self._folder / f"{rank}.steps"

    def start(self, rank: int) -> None:
        options = "--rank", f"{rank}", "--workers", f"{self.workers}", "--log", str(self.log(rank))
        self._processes[rank] = subprocess.Popen(
            [sys.executable, "-m", "tools.bench.deaths.trainer", *options, *self._arguments],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def start_all(self) -> None:
        for rank in range(self.workers):
            self.start(rank)

    def kill(self, rank: int) -> float:
        """Kill a worker; return the time before that in s of the monotonic clock."""
        begin_s = time.monotonic()
        process = self._processes.pop(rank)
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return begin_s

    def kill_all(self) -> float:
        """Kill `hotline up` and all workers; return the time before that in s of the monotonic clock."""
        begin_s = time.monotonic()
        for process in self._processes.values():
            process.kill()
        os.kill(self._up, signal.SIGKILL)
        self.is_up = False
        for rank in list(self._processes):
            self.kill(rank)
        return begin_s

    def acknowledged(self, rank: int) -> Times:
        return read_times(self.log(rank))[1]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition; raise `BenchError` if a worker fails, or all of them do nothing."""
        limit = IdleLimit(_IDLE_S)
        while not condition():
            for rank, process in self._processes.items():
                if process.poll():
                    raise BenchError(
                        f"worker {rank} of {self._folder} ended with status {process.returncode}"
                    )
            if limit.look_s == 0:
                limit.look([read_activity(each.pid) for each in self._processes.values()])
            if limit.is_exceeded:
                raise BenchError(f"{self._folder}: expected a step or an end, and no worker did anything")
            time.sleep(_POLL_S)

    def has_ended(self, rank: int) -> bool:
        return self._processes[rank].poll() is not None

    def output(self, rank: int) -> str:
        """Return what a worker that ends has printed."""
        return self._processes[rank].communicate()[0]


@contextmanager
def session(
    folder: Path, workers: int, arguments: tuple[str, ...] = (), settings: str = ""
) -> Iterator[Session]:
    """Start `hotline up`, whose dead workers are waited for; `arguments` are those of the trainer."""
    folder.mkdir(parents=True)
    file = folder / "up.toml"
    runs = json.dumps(str(folder / "runs"))
    file.write_text(
        f'workers = {workers}\nservers = {SERVERS}\nafter_death = "wait"\nruns = {runs}\n{settings}\n'
    )
    command = [sys.executable, "-m", "hotline.cli", "up", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise BenchError(f"`hotline up` of {file}: {ran.stderr.strip()}")
    with closing(Connection(socket_path())) as connection:
        made = Session(folder, workers, connection.ask("who")["pid"], arguments)
    try:
        yield made
    finally:
        for rank in list(made._processes):
            made.kill(rank)
        if made.is_up:
            launch.down()


def cpu_s(module: str) -> float:
    """Return the CPU time in s so far of the processes of a module."""
    name = f"\0{module}\0".encode()
    found = (each for each in find_marked_processes() if name in Path(f"/proc/{each}/cmdline").read_bytes())
    return sum(read_activity(each).cpu_s for each in found)
