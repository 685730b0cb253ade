"""Control worker and PS processes inside the hosts: JSON lines on pipes, and detection of their exit."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from experiment.errors import AgentFailed
from experiment.liveness import Liveness
from experiment.processes import ProcessLimit, read_here
from experiment.session import OnProgress
from foundation.concurrency import gather_or_cancel
from foundation.limits import wait_within
from foundation.logs.parts import write_text
from softswitch.progress import ENDED, Activity, ProcessState, last_line

log = logging.getLogger(__name__)

Message = dict[str, Any]  # JSON
T = TypeVar("T")

MAX_LINE_BYTES = 1 << 20
_READY_TIMEOUT_S = 60.0
_CALL_TIMEOUT_S = 30.0
_QUIT_TIMEOUT_S = 10.0
_SETTLE_TIMEOUT_S = 30.0
_GRACE_S = 0.5  # time to wait, after work has failed, for notice of the death that caused it


class InputPipe(Protocol):
    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    async def wait_closed(self) -> None: ...


class ChildProcess(Protocol):
    """The part of `asyncio.subprocess.Process` that runs use; the process may be on another machine."""

    @property
    def stdin(self) -> InputPipe | None: ...

    @property
    def stdout(self) -> asyncio.StreamReader | None: ...

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def kill(self) -> None: ...

    async def wait(self) -> int: ...


Launch: TypeAlias = Callable[[Sequence[str], Path], Awaitable[ChildProcess]]
"""Starts a command whose standard error is appended to a file."""
ReadProcess: TypeAlias = Callable[[int], Awaitable[Activity]]
"""Returns what the process with an id does, on the machine where it is."""


async def launch_here(command: Sequence[str], log_file: Path) -> ChildProcess:
    with log_file.open("ab") as stderr:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            limit=MAX_LINE_BYTES,
            start_new_session=True,
        )


class _PendingAnswer(NamedTuple):
    answer: asyncio.Future[Message | None]
    on_progress: Callable[[int], None]


class _AgentProcess:
    """An agent's process, which answers commands in their order. Only this object reads its output."""

    def __init__(self, process: ChildProcess) -> None:
        self.process = process
        self.end_event = asyncio.Event()
        # Whether another process is started after the end of this one.
        self.has_successor: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.error: str | None = None  # last line of the process that was not the answer to a command
        self._pending: deque[_PendingAnswer] = deque()
        self.first_answer = self.expect_answer()
        self._read_task = asyncio.ensure_future(self._read())

    def expect_answer(
        self, on_progress: Callable[[int], None] = lambda steps: None
    ) -> asyncio.Future[Message | None]:
        """Return a future of the answer to the next command. A caller may stop awaiting it."""
        answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        if self.end_event.is_set():
            answer.set_result(None)
        else:
            self._pending.append(_PendingAnswer(answer, on_progress))
        return answer

    def write(self, command: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")

    @property
    def pending_answers(self) -> list[asyncio.Future[Message | None]]:
        return [pending.answer for pending in self._pending]

    def resolve_successor(self, has_successor: bool) -> None:
        if not self.has_successor.done():
            self.has_successor.set_result(has_successor)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # a line that is too long, or cut off by the end
            while line := await self.process.stdout.readline():
                self._handle_answer(json.loads(line))
        # A process that is still alive has written a line that is not JSON, or is too long.
        if self.process.returncode is None and not self.process.stdout.at_eof():
            self.process.kill()
        await self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        with suppress(OSError):  # the process did not read everything
            await self.process.stdin.wait_closed()
        self.end_event.set()
        for pending in self._pending:
            pending.answer.set_result(None)
        self._pending.clear()

    def _handle_answer(self, answer: Message) -> None:
        if not self._pending:
            self.error = str(answer.get("error", answer))
        elif "progress" in answer:
            self._pending[0].on_progress(answer["progress"])
        else:
            self._pending.popleft().answer.set_result(answer)


class CommandTarget(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def alive(self) -> bool: ...

    async def call(
        self, command: Message, timeout_s: float = _CALL_TIMEOUT_S, on_progress: OnProgress | None = None
    ) -> Message:
        """Send a command and return its answer; raise AgentFailed for an error or a missing answer."""
        ...

    async def send(self, command: Message) -> None: ...

    async def settle(self) -> None:
        """Wait until no command is under way."""
        ...

    async def wait_until_failed(self) -> None: ...


class Agent:
    """An agent's process, which executes one command at a time; `wait_until_failed` may restart it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        config: Message,
        log_dir: Path,
        restarts_after_death: bool = False,
        liveness: Liveness | None = None,
        launch: Launch = launch_here,
        read_process: ReadProcess = read_here,
    ) -> None:
        """Make an agent of `command --config FILE`, and write the file."""
        config_file = log_dir / f"{name}.json"
        write_text(config_file, json.dumps(config, indent=2))
        self.name = name
        self.restarts = 0
        self._command = [*command, "--config", str(config_file)]
        self._launch, self._read_process = launch, read_process
        self._restarts_after_death = restarts_after_death
        self._liveness = liveness or Liveness()
        self._is_watched = False
        self._is_ready = False
        self._log_file = log_dir / f"{name}.log"
        self._agent_process: _AgentProcess

    async def start(self) -> Agent:
        """Start the process, without waiting until the agent is ready, and return the agent."""
        self._is_ready = False
        self._agent_process = _AgentProcess(await self._launch(self._command, self._log_file))
        self._liveness.processes.register(self.name, self.activity)
        return self

    @property
    def pid(self) -> int:
        return self._agent_process.process.pid

    @property
    def alive(self) -> bool:
        return self._agent_process.process.returncode is None

    async def activity(self) -> Activity:
        """Return what the process does, on whichever machine it is."""
        return await self._read_process(self.pid) if self.alive else ENDED

    async def ready(self, timeout_s: float = _READY_TIMEOUT_S) -> None:
        """Wait until the agent is ready; `timeout_s` (s) counts only the time for which it does nothing."""
        first_answer = self._agent_process.first_answer
        limit = ProcessLimit(timeout_s, f"start of {self.name}", self._read_own_activity)
        if not await wait_within(limit, first_answer):
            raise AgentFailed(f"{self.name} was not ready {limit.describe()}")
        self._check_answer(first_answer.result())
        self._is_ready = True

    async def call(
        self, command: Message, timeout_s: float = _CALL_TIMEOUT_S, on_progress: OnProgress | None = None
    ) -> Message:
        """Send a command, again after a restart; return the answer.

        `timeout_s` (s) counts only time for which all processes of the run are up, and none of them works.
        """
        while True:
            process = self._agent_process
            answer = process.expect_answer(
                lambda steps: on_progress(self.name, steps) if on_progress else None
            )
            process.write(command)
            limit = self._limit(timeout_s, f"answer to '{command['cmd']}'")
            if not await wait_within(limit, answer):
                raise AgentFailed(f"{self.name} did not answer '{command['cmd']}' {limit.describe()}")
            result = answer.result()
            if result is not None or not await self._has_successor(process):
                return self._check_answer(result)

    async def send(self, command: Message) -> None:
        self._agent_process.write(command)

    async def settle(self) -> None:
        for answer in self._agent_process.pending_answers:
            limit = self._limit(_SETTLE_TIMEOUT_S, "answers")
            if not await wait_within(limit, answer):
                raise AgentFailed(f"{self.name} did not answer all commands {limit.describe()}")
            self._check_answer(answer.result())

    async def wait_until_failed(self) -> None:
        self._is_watched = True
        try:
            while True:
                await self._agent_process.end_event.wait()
                if not self._restarts_after_death:
                    raise self._death_error()
                await self._restart()
        finally:
            self._is_watched = False
            self._agent_process.resolve_successor(has_successor=False)

    async def quit(self) -> None:
        """End the process by closing its input, or else by SIGKILL; a process that is not ready is killed."""
        process = self._agent_process.process
        assert process.stdin is not None
        process.stdin.close()
        if not self._is_ready:
            self._kill()
        end = asyncio.ensure_future(self._agent_process.end_event.wait())
        limit = ProcessLimit(
            _QUIT_TIMEOUT_S, f"end of {self.name}", self._read_ending_activity, counts_work=True
        )
        try:
            if not await wait_within(limit, end):
                log.warning("%s did not quit %s, and is killed", self.name, limit.describe())
                self._kill()
                await end
        finally:
            end.cancel()
        if self._agent_process.error is not None:
            log.warning("%s: %s", self.name, self._agent_process.error)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):  # it has ended
            self._agent_process.process.kill()

    async def _restart(self) -> None:
        self._liveness.mark_down(self.name)
        while True:
            log.warning("%s; it is started again", self._death_error())
            self.restarts += 1
            ended_process = self._agent_process
            await self.start()
            ended_process.resolve_successor(has_successor=True)
            try:
                await self.ready()
            except AgentFailed:
                if self._agent_process.process.returncode != -signal.SIGKILL:
                    raise
            else:
                self._liveness.mark_up(self.name)
                return

    def _limit(self, timeout_s: float, what: str) -> ProcessLimit:
        """Begin a wait for what may depend on other processes of the run, too."""
        return self._liveness.processes.limit(
            timeout_s, f"{what} of {self.name}", lambda: not self._liveness.all_up
        )

    async def _read_own_activity(self) -> dict[str, Activity]:
        return {self.name: await self.activity()}

    async def _read_ending_activity(self) -> dict[str, Activity]:
        # A stopped process, which cannot end, counts as one that sleeps.
        activity = await self.activity()
        is_stopped = activity.state is ProcessState.IS_STOPPED
        return {self.name: activity._replace(state=ProcessState.SLEEPS) if is_stopped else activity}

    async def _has_successor(self, process: _AgentProcess) -> bool:
        return self._restarts_after_death and self._is_watched and await asyncio.shield(process.has_successor)

    def _check_answer(self, answer: Message | None) -> Message:
        if answer is None:
            raise self._death_error()
        if "error" in answer:
            raise AgentFailed(f"{self.name}: {answer['error']}")
        return answer

    def _death_error(self) -> AgentFailed:
        line = self._agent_process.error or last_line(self._log_file)
        reason = f": {line}" if line else ""
        return AgentFailed(f"{self.name} ended with code {self._agent_process.process.returncode}{reason}")


def namespace_command(pid: int, module: str) -> list[str]:
    return ["mnexec", "-a", str(pid), sys.executable, "-m", module]


async def call_all(
    agents: Iterable[CommandTarget],
    command: Message,
    timeout_s: float = _CALL_TIMEOUT_S,
    on_progress: OnProgress | None = None,
) -> list[Message]:
    return await gather_or_cancel(agent.call(command, timeout_s, on_progress) for agent in agents)


async def supervise(work: Coroutine[object, None, T], deaths: Iterable[Coroutine[object, None, None]]) -> T:
    task = asyncio.ensure_future(work)
    watches = [asyncio.ensure_future(death) for death in deaths]
    try:
        await asyncio.wait([task, *watches], return_when=asyncio.FIRST_COMPLETED)
        # A death explains the failure of the work, but may be noticed a little later.
        if task.done() and task.exception() is not None:
            await asyncio.wait(watches, timeout=_GRACE_S, return_when=asyncio.FIRST_COMPLETED)
        for watch in watches:
            if watch.done():
                await watch  # raises the error of the death
        return await task
    finally:
        for each_task in (task, *watches):
            each_task.cancel()
        await asyncio.gather(task, *watches, return_exceptions=True)
