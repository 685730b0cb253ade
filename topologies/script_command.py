"""The command of a script's process, with its user and its environment, on the machine where it runs."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from softswitch.progress import Activity, read_activity

SOCKET_VARIABLE = "HOTLINE_CONNECT"
RANK_VARIABLE = "HOTLINE_RANK"


class ScriptCommand(NamedTuple):
    """How a script is started, for one worker in one arm."""

    script: tuple[str, ...]
    """Path of the script, and its arguments."""
    rendezvous: Path
    """Socket by which the script joins."""
    rank: int
    cpu: int | None

    def arguments(self, enter: Sequence[str], last: Sequence[str] = ()) -> list[str]:
        """Return the command line, as the user that called sudo.

        `enter` are the words before it, of a program that enters the host's namespaces as root; `last` are
        those directly before Python.
        """
        uid, gid = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
        setpriv = [] if uid is None else ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--init-groups"]
        taskset = [] if self.cpu is None else ["taskset", "--cpu-list", str(self.cpu)]
        return [*enter, *taskset, *setpriv, *last, sys.executable, *self.script]

    def environment(self) -> dict[str, str]:
        """Return the environment: rendezvous, rank, and by default one thread for libraries."""
        environment = {
            "OMP_NUM_THREADS": "1",
            **os.environ,
            SOCKET_VARIABLE: str(self.rendezvous),
            RANK_VARIABLE: str(self.rank),
        }
        environment["PYTHONUNBUFFERED"] = "1"
        if uid := os.environ.get("SUDO_UID"):
            account = pwd.getpwuid(int(uid))
            environment |= {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name}
        return environment


class LocalScript:
    """A `topologies.testbed.ScriptProcess` of this machine."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def activity(self) -> Activity:
        return read_activity(self.pid)

    async def wait(self) -> int:
        return await self._process.wait()

    def signal_group(self, signal_number: signal.Signals) -> None:
        signal_group(self.pid, signal_number)


def signal_group(pid: int, signal_number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal_number)


async def start_script_process(
    command: ScriptCommand,
    output: IO[bytes] | int,
    *,
    enter: Sequence[str],
    last: Sequence[str] = (),
    folder: Path | None = None,
) -> asyncio.subprocess.Process:
    """Start a script in a process group of its own; `folder` is its working directory."""
    return await asyncio.create_subprocess_exec(
        *command.arguments(enter, last),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=asyncio.subprocess.STDOUT,
        env=command.environment(),
        cwd=folder,
        start_new_session=True,
    )


async def start_script_here(command: ScriptCommand, enter: Sequence[str], log: Path) -> LocalScript:
    with log.open("wb") as output:
        return LocalScript(await start_script_process(command, output, enter=enter))
