"""Control worker and PS processes inside the hosts: JSON lines on pipes, and detection of their exit."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from experiment.errors import AgentFailed
from experiment.liveness import Liveness
from experiment.processes import ProcessLimit, read_here
from experiment.session import OnProgress
from foundation.concurrency import gather_or_cancel
from foundation.limits import wait_within
from foundation.logs.parts import write_text
from softswitch.progress import ENDED, Activity, ProcessState, last_line
from topologies.agent_process import AgentProcess, Launch, Message, ReadProcess, launch_here

log = logging.getLogger(__name__)

T = TypeVar("T")

_READY_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 30.0
_QUIT_TIMEOUT_S = 10.0
_SETTLE_TIMEOUT_S = 30.0
_GRACE_S = 0.5  # time to wait, after work has failed, for notice of the death that caused it


class CommandTarget(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def alive(self) -> bool: ...

    async def call(
        self, command: Message, timeout_s: float = CALL_TIMEOUT_S, on_progress: OnProgress | None = None
    ) -> Message:
        """Send a command and return its answer; raise AgentFailed for an error or a missing answer."""
        ...

    async def send(self, command: Message) -> None: ...

    async def settle(self) -> None:
        """Wait until no command is under way."""
        ...

    async def wait_until_failed(self) -> None: ...


class Succession(Protocol):
    """The rules for an agent whose process is killed; `wait_until_failed` follows them."""

    @property
    def is_immediate(self) -> bool:
        """Whether another process is started at once; otherwise `Agent.join` has to ask for it."""

    def note_death(self, agent: Agent) -> None:
        """Note that the process was killed; raise `AgentFailed` if no worker is left."""

    def next_settings(self, agent: Agent) -> Message:
        """Return the settings of the process that comes next."""
        ...

    async def admit(self, agent: Agent) -> None:
        """Have a process that is ready take part, by `Agent.ask`."""


class Agent:
    """An agent's process, which executes one command at a time; `wait_until_failed` may restart it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        config: Message,
        log_dir: Path,
        restarts_after_death: bool = False,
        succession: Succession | None = None,
        liveness: Liveness | None = None,
        launch: Launch = launch_here,
        read_process: ReadProcess = read_here,
        interface: str | None = None,
    ) -> None:
        """Make an agent of `command --config FILE`, and write the file.

        `interface` is the switch's for the agent's host; None if they are on another machine.
        """
        self._config_file = log_dir / f"{name}.json"
        self._write_settings(config)
        self.name = name
        self.restarts = 0
        self._command = [*command, "--config", str(self._config_file)]
        self._launch, self._read_process, self._interface = launch, read_process, interface
        self._restarts_after_death, self._succession = restarts_after_death, succession
        self._takes_part, self._join_request = asyncio.Event(), asyncio.Event()
        self._takes_part.set()
        self._liveness = liveness or Liveness()
        self._is_watched = False
        self._is_ready = False
        self._log_file = log_dir / f"{name}.log"
        self._agent_process: AgentProcess

    async def start(self) -> Agent:
        """Start the process, without waiting until the agent is ready, and return the agent."""
        self._is_ready = False
        self._agent_process = AgentProcess(await self._launch(self._command, self._log_file))
        self._liveness.processes.register(self.name, self.activity)
        self._liveness.members.add(self.name, self.pid, self._interface)
        return self

    @property
    def pid(self) -> int:
        return self._agent_process.process.pid

    @property
    def alive(self) -> bool:
        return self._agent_process.process.returncode is None

    @property
    def takes_part(self) -> bool:
        """Whether the process is alive, and has been admitted if it is a successor."""
        return self.alive and self._takes_part.is_set()

    @property
    def is_expected(self) -> bool:
        """Whether work includes the agent: not after a death that no process is expected to follow."""
        return self.takes_part or self._succession is None or self._succession.is_immediate

    @property
    def was_killed(self) -> bool:
        """Whether a signal has ended the process."""
        return self._agent_process.was_killed

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
        self, command: Message, timeout_s: float = CALL_TIMEOUT_S, on_progress: OnProgress | None = None
    ) -> Message:
        """Send a command, again after a restart; return the answer.

        `timeout_s` (s) counts only time for which all processes of the run are up, and none of them works.
        """
        while True:
            await self.wait_for_successor()
            process = self._agent_process
            result = await self._exchange(process, command, timeout_s, on_progress)
            if result is not None or not await self._has_successor(process):
                return self._check_answer(result)

    async def ask(self, command: Message, timeout_s: float = CALL_TIMEOUT_S) -> Message:
        """Send a command to the process, also before it takes part; return the answer."""
        return self._check_answer(await self._exchange(self._agent_process, command, timeout_s))

    async def _exchange(
        self,
        process: AgentProcess,
        command: Message,
        timeout_s: float,
        on_progress: OnProgress | None = None,
    ) -> Message | None:
        answer = process.expect_answer(lambda steps: on_progress(self.name, steps) if on_progress else None)
        process.write(command)
        limit = self._limit(timeout_s, f"answer to '{command['cmd']}'")
        if not await wait_within(limit, answer):
            raise AgentFailed(f"{self.name} did not answer '{command['cmd']}' {limit.describe()}")
        return answer.result()

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
                if self._succession is not None and self.was_killed:
                    await self._be_succeeded(self._succession)
                elif not self._restarts_after_death:
                    raise self._death_error()
                else:
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
            self.kill()
        end = asyncio.ensure_future(self._agent_process.end_event.wait())
        limit = ProcessLimit(
            _QUIT_TIMEOUT_S, f"end of {self.name}", self._read_ending_activity, counts_work=True
        )
        try:
            if not await wait_within(limit, end):
                log.warning("%s did not quit %s, and is killed", self.name, limit.describe())
                self.kill()
                await end
        finally:
            end.cancel()
        if self._agent_process.error is not None:
            log.warning("%s: %s", self.name, self._agent_process.error)

    async def wait_for_successor(self) -> None:
        """Wait until the process takes part, if another one is started at once after a death."""
        if self._succession is not None and self._succession.is_immediate:
            await self._takes_part.wait()

    async def join(self) -> None:
        """Start another process after a death, and wait until it takes part; `wait_until_failed` must run."""
        self._join_request.set()
        await self._takes_part.wait()

    def kill(self) -> None:
        with suppress(ProcessLookupError):  # it has ended
            self._agent_process.process.kill()

    async def _be_succeeded(self, succession: Succession) -> None:
        ended_process = self._agent_process
        self._takes_part.clear()
        if not succession.is_immediate:
            # Calls fail instead of waiting for a successor.
            ended_process.resolve_successor(has_successor=False)
        while True:
            code = self._agent_process.process.returncode or 0
            log.warning("%s was killed by signal %d", self.name, -code)
            succession.note_death(self)
            if not succession.is_immediate:
                await self._join_request.wait()
                self._join_request.clear()
            self._write_settings(succession.next_settings(self))
            self.restarts += 1
            await self.start()
            try:
                await self.ready()
                await succession.admit(self)
            except AgentFailed:
                if not self.was_killed:
                    raise
            else:
                break
        self._takes_part.set()
        ended_process.resolve_successor(has_successor=True)

    def _write_settings(self, settings: Message) -> None:
        write_text(self._config_file, json.dumps(settings, indent=2))

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

    async def _has_successor(self, process: AgentProcess) -> bool:
        has_next = self._restarts_after_death or (self._succession is not None and process.was_killed)
        return has_next and self._is_watched and await asyncio.shield(process.has_successor)

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
    timeout_s: float = CALL_TIMEOUT_S,
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
