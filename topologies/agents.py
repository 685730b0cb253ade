"""Worker and PS processes inside the hosts: JSON lines on their pipes, death noticed at once."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from experiment.errors import AgentFailed
from experiment.health import Health
from experiment.session import OnProgress
from foundation.concurrency import gather_or_cancel

log = logging.getLogger(__name__)

Answer = dict[str, Any]
T = TypeVar("T")

_LINE_LIMIT = 1 << 20
_READY_S = 180.0
"""One that finds no machine code of its own compiles it first: 15 s of CPU, on machines that may be busy."""
_BACK_S = 300.0
"""Others wait for one that comes back, which has a journal to read, beside the run."""
_QUIT_S = 3.0
_SETTLE_S = 30.0
_GRACE_S = 0.5
_TICK_S = 1.0


class _Question(NamedTuple):
    answer: asyncio.Future[Answer | None]
    """None where the process has ended."""
    on_progress: Callable[[int], None]


class _Life:
    """One process of an agent, which answers in the order in which it is asked, after a first line.

    Nobody but this reads its output, however many wait for answers, for the first line, or for its end.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.ended = asyncio.Event()
        self.successor: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Whether there is a next process; not before that is known."""
        self._asked: deque[_Question] = deque()
        self.first = self.expect()
        self._reading = asyncio.ensure_future(self._read())

    def expect(
        self, on_progress: Callable[[int], None] = lambda steps: None
    ) -> asyncio.Future[Answer | None]:
        """The next answer that nobody waits for yet. Whoever no longer waits for it leaves it as it is."""
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        if self.ended.is_set():
            answer.set_result(None)
        else:
            self._asked.append(_Question(answer, on_progress))
        return answer

    def write(self, command: Answer) -> None:
        """Send a line; one that has ended does not read it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")

    @property
    def unanswered(self) -> list[asyncio.Future[Answer | None]]:
        """All that is to come."""
        return [question.answer for question in self._asked]

    def will_have(self, successor: bool) -> None:
        """Tell whether there is a next process, who is told once."""
        if not self.successor.done():
            self.successor.set_result(successor)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # a line too long, or cut off by the end
            while line := await self.process.stdout.readline():
                self._take(json.loads(line))
        # One that still lives speaks no JSON.
        if self.process.returncode is None and not self.process.stdout.at_eof():
            self.process.kill()
        await self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        with suppress(OSError):  # it did not read all that was written
            await self.process.stdin.wait_closed()
        self.ended.set()
        for question in self._asked:
            question.answer.set_result(None)
        self._asked.clear()

    def _take(self, answer: Answer) -> None:
        if "progress" in answer:
            self._asked[0].on_progress(answer["progress"])
        else:
            self._asked.popleft().answer.set_result(answer)


class CommandTarget(Protocol):
    """What a run commands: an agent, or the processes of a script that are a worker together."""

    @property
    def name(self) -> str:
        """As logs and messages have it."""
        ...

    @property
    def alive(self) -> bool:
        """Whether nothing of it has died."""
        ...

    async def call(
        self, command: Answer, patience: float = 30.0, on_progress: OnProgress | None = None
    ) -> Answer:
        """Send a command and wait for its answer; AgentFailed when that is an error, or does not come."""
        ...

    async def tell(self, command: Answer) -> None:
        """Send a command that is not answered."""
        ...

    async def settle(self) -> None:
        """Wait until it does nothing any more."""
        ...

    async def until_it_dies(self) -> None:
        """Wait for a death and raise it as AgentFailed."""
        ...


class Agent:
    """One agent process. Commands are answered one at a time.

    One that `restarts_after_death` is started again when it dies, as long as somebody watches for that.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_file: Path,
        restarts_after_death: bool = False,
        health: Health | None = None,
    ) -> None:
        self.name = name
        self.restarts = 0
        self._command = command
        self._restarts_after_death = restarts_after_death
        self._health = health or Health()
        self._is_watched = False
        self._is_ready = False
        self._log_file = log_file
        self._life: _Life

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str],
        config: Answer,
        log_dir: Path,
        restarts_after_death: bool = False,
        health: Health | None = None,
    ) -> Agent:
        """Start `command --config FILE`, without waiting until it is ready."""
        config_file = log_dir / f"{name}.json"
        config_file.write_text(json.dumps(config, indent=2))
        command = [*command, "--config", str(config_file)]
        agent = cls(name, command, log_dir / f"{name}.log", restarts_after_death, health)
        await agent._begin()
        return agent

    async def _begin(self) -> None:
        self._is_ready = False
        with self._log_file.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                limit=_LINE_LIMIT,
                start_new_session=True,
            )
        self._life = _Life(process)

    @property
    def pid(self) -> int:
        """The agent's process id."""
        return self._life.process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._life.process.returncode is None

    async def ready(self, patience: float = _READY_S) -> None:
        """Wait for its first line; AgentFailed when that is an error, or does not come."""
        first = self._life.first
        await asyncio.wait([first], timeout=patience)
        if not first.done():
            raise AgentFailed(f"{self.name} was not ready in {patience:.0f} s; see {self._log_file}")
        self._check(first.result())
        self._is_ready = True

    async def call(
        self, command: Answer, patience: float = 30.0, on_progress: OnProgress | None = None
    ) -> Answer:
        """Send a command and wait for its answer; AgentFailed when that is an error, or does not come.

        One that comes back is asked again then. Patience, s, lasts while nobody of the run is missing.
        """
        while True:
            life = self._life
            answer = life.expect(lambda steps: on_progress(self.name, steps) if on_progress else None)
            life.write(command)
            if not await self._await_answer(answer, patience):
                raise AgentFailed(
                    f"{self.name} did not answer '{command['cmd']}' within {patience:.0f} s; "
                    f"see {self._log_file}"
                )
            told = answer.result()
            if told is not None or not await self._has_successor(life):
                return self._check(told)

    async def tell(self, command: Answer) -> None:
        """Send a command that is not answered, whatever else is under way."""
        self._life.write(command)

    async def settle(self) -> None:
        """Wait for the answers to calls that were cancelled."""
        for answer in self._life.unanswered:
            if not await self._await_answer(answer, _SETTLE_S):
                raise AgentFailed(f"{self.name} has not come to rest in {_SETTLE_S:.0f} s")
            self._check(answer.result())

    async def until_it_dies(self) -> None:
        """Wait for the end of the process and raise it as AgentFailed, unless it comes back."""
        self._is_watched = True
        try:
            while True:
                await self._life.ended.wait()
                if not self._restarts_after_death:
                    raise self._died()
                await self._restart()
        finally:
            self._is_watched = False
            self._life.will_have(successor=False)

    async def quit(self) -> None:
        """End the process: by closing its standard input, or else by force.

        One that is not ready has nothing to write, and is still importing.
        """
        process = self._life.process
        assert process.stdin is not None
        process.stdin.close()
        if not self._is_ready and self.alive:
            process.kill()
        try:
            await asyncio.wait_for(self._life.ended.wait(), _QUIT_S)
        except asyncio.TimeoutError:
            log.warning("%s did not quit and is killed", self.name)
            process.kill()
            await self._life.ended.wait()

    async def _restart(self) -> None:
        """Start it until it is ready; one that ends by itself before that is an error."""
        self._health.lose(self.name)
        while True:
            log.warning("%s; it is started again", self._died())
            self.restarts += 1
            before = self._life
            await self._begin()
            before.will_have(successor=True)
            try:
                await self.ready(_BACK_S)
            except AgentFailed:
                if not self._was_killed:
                    raise
            else:
                self._health.regain(self.name)
                return

    @property
    def _was_killed(self) -> bool:
        return self._life.process.returncode == -signal.SIGKILL

    async def _await_answer(self, answer: asyncio.Future[Answer | None], patience: float) -> bool:
        while patience > 0 and not answer.done():
            tick = min(patience, _TICK_S)
            await asyncio.wait([answer], timeout=tick)
            if self._health.is_whole:
                patience -= tick
        return answer.done()

    async def _has_successor(self, life: _Life) -> bool:
        return self._restarts_after_death and self._is_watched and await asyncio.shield(life.successor)

    def _check(self, answer: Answer | None) -> Answer:
        if answer is None:
            raise self._died()
        if "error" in answer:
            raise AgentFailed(f"{self.name}: {answer['error']}")
        return answer

    def _died(self) -> AgentFailed:
        lines = self._log_file.read_text(errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return AgentFailed(f"{self.name} ended with code {self._life.process.returncode}{last}")


def command_in(namespaces_of: int, module: str) -> list[str]:
    """Command line of `python -m module` in the namespaces of a process."""
    return ["mnexec", "-a", str(namespaces_of), sys.executable, "-m", module]


async def call_all(
    agents: Iterable[CommandTarget],
    command: Answer,
    patience: float = 30.0,
    on_progress: OnProgress | None = None,
) -> list[Answer]:
    """Send all agents the same command at once; their answers in order."""
    return await gather_or_cancel(agent.call(command, patience, on_progress) for agent in agents)


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
