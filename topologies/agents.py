"""Worker and PS processes inside the hosts: JSON lines on their pipes, death noticed at once."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from common.concurrency import together
from topologies.errors import AgentFailed

log = logging.getLogger(__name__)

Answer = dict[str, Any]
OnProgress = Callable[["Agent", int], None]
T = TypeVar("T")

_LINE_LIMIT = 1 << 20
_READY_S = 60.0
_QUIT_S = 3.0
_SETTLE_S = 30.0
_GRACE_S = 0.5


class Agent:
    """One agent process. Commands are answered one at a time."""

    def __init__(self, name: str, command: Sequence[str], log_file: Path, comes_back: bool = False) -> None:
        self.name = name
        self.restarts = 0
        self._command = command
        self._comes_back = comes_back
        self._is_watched = False
        self._log_file = log_file
        self._process: asyncio.subprocess.Process
        self._lives = asyncio.Event()

    @classmethod
    async def start(
        cls, name: str, command: Sequence[str], config: Answer, log_dir: Path, comes_back: bool = False
    ) -> Agent:
        """Start `command --config FILE`, without waiting until it is ready.

        One that `comes_back` is started again when it dies.
        """
        config_file = log_dir / f"{name}.json"
        config_file.write_text(json.dumps(config, indent=2))
        agent = cls(name, [*command, "--config", str(config_file)], log_dir / f"{name}.log", comes_back)
        await agent._begin()
        return agent

    async def _begin(self) -> None:
        self._unanswered = 1  # its first line
        self._is_ready = False
        with self._log_file.open("ab") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                limit=_LINE_LIMIT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The agent's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.returncode is None

    async def ready(self) -> None:
        """Wait for its first line; AgentFailed when that is an error, or does not come."""
        try:
            await asyncio.wait_for(self._answer(None), _READY_S)
            self._is_ready = True
            self._lives.set()
        except asyncio.TimeoutError:
            raise AgentFailed(
                f"{self.name} was not ready in {_READY_S:.0f} s; see {self._log_file}"
            ) from None

    async def call(
        self, command: Answer, patience: float = 30.0, on_progress: OnProgress | None = None
    ) -> Answer:
        """Send a command and wait for its answer; AgentFailed when that is an error, or does not come.

        One that comes back, as long as somebody watches for its death, is asked again then.
        """
        while True:
            restarts = self.restarts
            try:
                return await self._call(command, patience, on_progress)
            except AgentFailed:
                has_died = not self.alive or restarts < self.restarts
                if not (self._comes_back and self._is_watched and has_died):
                    raise
                # It may be that only this one has noticed its death, and `_lives` is still set.
                await asyncio.sleep(0)
                await self._lives.wait()

    async def tell(self, command: Answer) -> None:
        """Send a command that is not answered, whatever else is under way."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()

    async def _call(self, command: Answer, patience: float, on_progress: OnProgress | None) -> Answer:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._unanswered += 1
            return await asyncio.wait_for(self._answer(on_progress), patience)
        except ConnectionError:
            raise self._died() from None
        except asyncio.TimeoutError:
            raise AgentFailed(
                f"{self.name} did not answer '{command['cmd']}' within {patience:.0f} s; see {self._log_file}"
            ) from None

    async def settle(self) -> None:
        """Wait for the answers to calls that were cancelled."""
        while self._unanswered:
            await asyncio.wait_for(self._answer(None), _SETTLE_S)

    async def until_it_dies(self) -> None:
        """Wait for the end of the process and raise it as AgentFailed, unless it comes back."""
        self._is_watched = True
        try:
            await self._process.wait()
            while self._comes_back:
                self._lives.clear()
                self.restarts += 1
                log.warning("%s; it is started again", self._died())
                await self._begin()
                await self.ready()
                await self._process.wait()
        finally:
            self._is_watched = False
            self._lives.set()
        raise self._died()

    async def quit(self) -> None:
        """End the process: by closing its standard input, or else by force.

        One that is not ready has nothing to write, and is still importing.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        if not self._is_ready and self.alive:
            self._process.kill()
        try:
            await asyncio.wait_for(self._process.wait(), _QUIT_S)
        except asyncio.TimeoutError:
            log.warning("%s did not quit and is killed", self.name)
            self._process.kill()
            await self._process.wait()

    async def _answer(self, on_progress: OnProgress | None) -> Answer:
        while True:
            answer = await self._line()
            if "progress" in answer:
                if on_progress is not None:
                    on_progress(self, answer["progress"])
                continue
            self._unanswered -= 1
            if "error" in answer:
                raise AgentFailed(f"{self.name}: {answer['error']}")
            return answer

    async def _line(self) -> Answer:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            await self._process.wait()
            raise self._died()
        answer: Answer = json.loads(line)
        return answer

    def _died(self) -> AgentFailed:
        lines = self._log_file.read_text(errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return AgentFailed(f"{self.name} ended with code {self._process.returncode}{last}")


def command_in(namespaces_of: int, module: str) -> list[str]:
    """Command line of `python -m module` in the namespaces of a process."""
    return ["mnexec", "-a", str(namespaces_of), sys.executable, "-m", module]


async def call_all(
    agents: Iterable[Agent], command: Answer, patience: float = 30.0, on_progress: OnProgress | None = None
) -> list[Answer]:
    """Send all agents the same command at once; their answers in order."""
    return await together(agent.call(command, patience, on_progress) for agent in agents)


async def supervised(work: Coroutine[Any, Any, T], deaths: Iterable[Coroutine[Any, Any, None]]) -> T:
    """Do the work, and stop it as soon as any of `deaths` ends, with what that raises."""
    task = asyncio.ensure_future(work)
    watches = [asyncio.ensure_future(death) for death in deaths]
    try:
        await asyncio.wait([task, *watches], return_when=asyncio.FIRST_COMPLETED)
        # A death explains the work's own failure better than that does, and may be seen a little later.
        if task.done() and task.exception() is not None:
            await asyncio.wait(watches, timeout=_GRACE_S, return_when=asyncio.FIRST_COMPLETED)
        for watch in watches:
            if watch.done():
                await watch
        return await task
    finally:
        for each in (task, *watches):
            each.cancel()
        await asyncio.gather(task, *watches, return_exceptions=True)
