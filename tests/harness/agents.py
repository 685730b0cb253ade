"""Agents as processes, and their configurations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import pytest

from foundation.checkout import ROOT, environment_with_checkout
from foundation.protocol.header import HOTLINE_PORT, VERSION
from switch_harness.waiting import PATIENCE_S
from tests.harness.warm_processes import WarmProcess, warm_process

_MAIN = {
    "hotline_agents.ps": "hotline_agents.ps.__main__",
    "hotline_agents.worker": "hotline_agents.worker.__main__",
}


def ps_config(
    log_dir: Path, ps: int, address: str, connected: Mapping[int, bool], **changes: object
) -> dict[str, object]:
    """Return a PS's configuration without `n_ps` and `parameters`; `connected` is by job."""
    jobs = [{"job": job, "epoch": 1, "connected": each} for job, each in connected.items()]
    service = {"address": address, "port": HOTLINE_PORT}
    names = {"wire": VERSION, "ps": ps, "address": address, "log_dir": str(log_dir)}
    return {**names, "jobs": jobs, "service": service, **changes}


def worker_config(
    log_dir: Path, address: str, servers: Sequence[str], arms: Mapping[int, str], **changes: object
) -> dict[str, object]:
    """Return a worker's configuration without `trace`; `arms` are by job."""
    jobs = [{"job": job, "arm": arm, "epoch": 1, "udp_port": 20_000 + job} for job, arm in arms.items()]
    to = [{"ps": ps, "address": each, "port": HOTLINE_PORT} for ps, each in enumerate(servers)]
    names = {"wire": VERSION, "number": 1, "address": address, "log_dir": str(log_dir)}
    return {**names, "n_ps": len(servers), "jobs": jobs, "services": to, **changes}


def refusal(module: str, config: Mapping[str, object], directory: Path) -> str:
    """Return the error of an agent that does not start, run in this process, which takes a second less."""
    path = _write(module, config, directory)
    printed = StringIO()
    with (
        open(os.devnull) as no_input,
        patch.object(sys, "stdin", no_input),
        redirect_stdout(printed),
        pytest.raises(SystemExit) as ended,
    ):
        import_module(_MAIN.get(module, module)).main.callback(path)
    assert ended.value.code == 1
    error = json.loads(printed.getvalue())["error"]
    assert isinstance(error, str)
    return error


def _write(module: str, config: Mapping[str, object], directory: Path) -> Path:
    path = directory / f"{module}-{config.get('ps', 'worker')}.json"
    path.write_text(json.dumps(config))
    return path


class Agent:
    """An agent's process: a fork of one that has imported it, as in a run; new if it `is_fresh`.

    With `python` it is new, too, and that interpreter's.
    """

    def __init__(
        self,
        module: str,
        config: dict[str, object],
        directory: Path,
        errors: IO[str] | None = None,
        is_fresh: bool = False,
        python: Path | None = None,
    ) -> None:
        arguments, pipe = ("--config", str(_write(module, config, directory))), subprocess.PIPE
        self.process: WarmProcess | subprocess.Popen[str]
        if is_fresh or python is not None:
            command = [str(python or sys.executable), "-m", module, *arguments]
            self.process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=errors, text=True, cwd=ROOT,
                env=environment_with_checkout(),
            )  # fmt: skip
        else:
            self.process = warm_process(module, *arguments, stdin=pipe, stdout=pipe, stderr=errors)
        self.first = self.read(if_ended="{}")

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Kill the process after a while: without its peer it would wait and report progress for ever."""
        limit = threading.Timer(PATIENCE_S, self.process.kill)
        limit.start()
        try:
            yield
        finally:
            limit.cancel()

    def read(self, if_ended: str = "") -> dict[str, Any]:
        assert self.process.stdout is not None
        with self.limited():
            answer = json.loads(self.process.stdout.readline() or if_ended)
        assert isinstance(answer, dict)
        return answer

    def send(self, **command: object) -> None:
        self.send_together(command)

    def send_together(self, *commands: dict[str, object]) -> None:
        """Write several commands at once, so that the agent reads them together."""
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{json.dumps(command)}\n" for command in commands))
        self.process.stdin.flush()

    def call(self, **command: object) -> dict[str, Any]:
        self.send(**command)
        with self.limited():
            while "progress" in (answer := self.read()):
                pass
        return answer

    def close(self) -> int:
        """Close its input; return its exit status."""
        with self.process:
            try:
                assert self.process.stdin is not None
                self.process.stdin.close()
                return self.process.wait(PATIENCE_S)
            finally:
                self.process.kill()
