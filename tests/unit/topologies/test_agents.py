"""The runner's end of the agents' pipes, against small scripts that play an agent."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from experiment.errors import AgentFailed
from experiment.liveness import Liveness
from switch_harness.wording import mentions
from topologies.agents import Agent, call_all, supervise

SCRIPT = """
import json, sys, os, signal
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    command = json.loads(line)
    if command["cmd"] == "run":
        print(json.dumps({"progress": 3}), flush=True)
        print(json.dumps({"ok": True, "steps": command["steps"]}), flush=True)
    elif command["cmd"] == "bad":
        print(json.dumps({"error": "no such job"}), flush=True)
    elif command["cmd"] == "fail":
        break
    elif command["cmd"] == "die":
        print("Segmentation of the soul", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
if "fails" in sys.argv:
    print(json.dumps({"error": "parts: cannot be written: the disk is full"}), flush=True)
    sys.exit(1)
"""


@asynccontextmanager
async def agents(
    folder: Path, *names: str, script: str = SCRIPT, argument: str = "", watched: bool = False, **options: Any
) -> AsyncIterator[list[Agent]]:
    """Start agents; those with the argument "fails" write an error at their end, without a command."""
    command = [sys.executable, "-c", script, argument]
    started = [await Agent(name, command, {}, folder, **options).start() for name in names]
    watches = [asyncio.ensure_future(agent.wait_until_failed()) for agent in started if watched]
    try:
        for agent in started:
            await agent.ready()
        yield started
    finally:
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
        for agent in started:
            await agent.quit()
    assert all(not Path(f"/proc/{agent.pid}").exists() for agent in started)


def coming_back(folder: Path, watched: bool = True) -> AbstractAsyncContextManager[list[Agent]]:
    """Start a server that is started again after its death."""
    return agents(folder, "ps-0", watched=watched, restarts_after_death=True)


def deaths_of(started: list[Agent]) -> list[Coroutine[Any, Any, None]]:
    return [agent.wait_until_failed() for agent in started]


async def test_progress_lines_come_before_the_answer(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    async with agents(tmp_path, "worker-1", "worker-2") as started:
        command = {"cmd": "run", "steps": 5}
        answers = await call_all(started, command, on_progress=lambda agent, n: seen.append((agent, n)))
        assert answers == [{"ok": True, "steps": 5}] * 2
    assert sorted(seen) == [("worker-1", 3), ("worker-2", 3)]


async def test_an_error_answer_names_the_agent(tmp_path: Path) -> None:
    async with agents(tmp_path, "worker-1") as [agent]:
        with pytest.raises(AgentFailed, match=mentions("worker-1")):
            await agent.call({"cmd": "bad"})
        assert (await agent.call({"cmd": "run", "steps": 1}))["ok"]


async def test_an_agent_that_fails_at_its_end_is_not_waited_for_and_gives_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with agents(tmp_path, "worker-1", argument="fails"):
        pass
    async with agents(tmp_path, "worker-1", argument="fails") as [agent]:
        await agent.send({"cmd": "fail"})
        with pytest.raises(AgentFailed, match=mentions(1, "ended")):
            await agent.wait_until_failed()
    assert caplog.messages == ["worker-1: parts: cannot be written: the disk is full"] * 2


@pytest.mark.parametrize(
    ("command", "timeout_s", "message"),
    [
        ("ignored", 0.01, r"worker-1 did not answer 'ignored' within 0.01 s .*worker-1 lives .*load"),
        ("die", 60.0, r"^worker-1 ended with code -9: Segmentation of the soul$"),
    ],
    ids=["silent", "dies"],
)
async def test_an_agent_without_an_answer_is_named(
    tmp_path: Path, command: str, timeout_s: float, message: str
) -> None:
    async with agents(tmp_path, "worker-1") as [agent]:
        with pytest.raises(AgentFailed, match=message):
            await agent.call({"cmd": command}, timeout_s=timeout_s)


async def test_the_death_of_an_idle_agent_stops_the_work_of_the_remaining_agents(tmp_path: Path) -> None:
    async with agents(tmp_path, "worker-1", "worker-2") as started:
        stopped = asyncio.Event()

        async def work() -> None:
            os.kill(started[1].pid, signal.SIGKILL)
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        with pytest.raises(AgentFailed, match=mentions("worker-2", "-9")):
            await supervise(work(), deaths_of(started))
        assert stopped.is_set()


async def test_a_death_that_is_seen_later_explains_the_failure_of_the_work() -> None:
    async def die_later() -> None:
        await asyncio.sleep(0.01)
        raise AgentFailed("the switch ended")

    with pytest.raises(AgentFailed, match=r"^the switch ended$"):
        await supervise(AsyncMock(side_effect=ConnectionError)(), [die_later()])


async def test_a_cancelled_call_can_be_settled(tmp_path: Path) -> None:
    async with agents(tmp_path, "worker-1") as [agent]:
        call = asyncio.ensure_future(agent.call({"cmd": "run", "steps": 1}))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await agent.settle()
        assert await agent.call({"cmd": "run", "steps": 2}) == {"ok": True, "steps": 2}


async def test_supervised_work_returns_its_result_and_raises_its_own_error(tmp_path: Path) -> None:
    async with agents(tmp_path, "worker-1") as started:
        assert await supervise(AsyncMock(return_value=42)(), deaths_of(started)) == 42
        with pytest.raises(ZeroDivisionError):
            await supervise(AsyncMock(side_effect=ZeroDivisionError)(), deaths_of(started))


async def test_an_agent_that_comes_back_is_asked_again(tmp_path: Path) -> None:
    """What was asked when it died, and what is asked while it is dead."""
    async with coming_back(tmp_path) as [agent]:
        for restarts in (1, 2):
            first = agent.pid
            os.kill(first, signal.SIGKILL)
            answers = [await agent.call({"cmd": "run", "steps": steps}) for steps in (5, 6)]
            assert [answer["steps"] for answer in answers] == [5, 6]
            assert agent.restarts == restarts and agent.pid != first and agent.alive


async def test_concurrent_calls_of_an_agent_that_keeps_dying_are_all_answered(tmp_path: Path) -> None:
    """While it comes back, no call reads the answer of another one, and all are answered."""
    async with coming_back(tmp_path) as [agent]:
        seen: list[int] = []

        async def ask(number: int) -> None:
            for steps in range(number, number + 20):
                command = {"cmd": "run", "steps": steps}
                answer = await agent.call(command, on_progress=lambda _, n: seen.append(n))
                assert answer["steps"] == steps

        asking = asyncio.gather(*(ask(100 * number) for number in range(3)))
        killed: set[int] = set()
        while not asking.done() and len(killed) < 4:
            if agent.pid not in killed:
                killed.add(agent.pid)
                os.kill(agent.pid, signal.SIGKILL)
            await asyncio.sleep(0)
        await asking
        assert agent.restarts >= 4 and len(seen) >= 60


async def test_an_agent_that_exits_before_its_ready_message_is_an_error(tmp_path: Path) -> None:
    """It would do so again and again."""
    flag = tmp_path / "was here"
    script = f"""
import pathlib, sys
flag = pathlib.Path({str(flag)!r})
if flag.exists():
    sys.exit("the disk is gone")
flag.touch()
{SCRIPT}"""
    async with agents(tmp_path, "ps-0", script=script, restarts_after_death=True) as [agent]:
        watch = asyncio.ensure_future(agent.wait_until_failed())
        os.kill(agent.pid, signal.SIGKILL)
        with pytest.raises(AgentFailed, match=mentions("ps-0", 1)):
            await asyncio.wait_for(watch, 30)
        with pytest.raises(AgentFailed, match=mentions("ps-0", 1)):
            await asyncio.wait_for(agent.call({"cmd": "run", "steps": 1}), 30)


async def test_the_timeout_lasts_while_a_process_is_down(tmp_path: Path) -> None:
    liveness = Liveness()
    async with agents(tmp_path, "worker-1", liveness=liveness) as [agent]:
        liveness.mark_down("s1")
        call = asyncio.ensure_future(agent.call({"cmd": "ignored"}, timeout_s=0.01))
        for _ in range(100):
            await asyncio.sleep(0.001)
        assert not call.done()
        liveness.mark_up("s1")
        with pytest.raises(AgentFailed, match=mentions("ignored", "answer")):
            await call


@pytest.mark.parametrize(
    ("watched", "command", "message"),
    [
        # At the end of a run deaths are no longer watched for.
        (False, "die", "ps-0 ended with code -9: Segmentation of the soul"),
        (True, "bad", "no such job"),
    ],
    ids=["unwatched death", "error"],
)
async def test_a_death_that_is_not_watched_and_an_error_answer_are_errors(
    tmp_path: Path, watched: bool, command: str, message: str
) -> None:
    async with coming_back(tmp_path, watched) as [agent]:
        with pytest.raises(AgentFailed, match=message):
            await asyncio.wait_for(agent.call({"cmd": command}), 30)
        assert agent.restarts == 0


class Ranks:
    """A `Succession` that notes what it is asked for."""

    def __init__(self, is_immediate: bool) -> None:
        self.is_immediate = is_immediate
        self.notes: list[str] = []
        self.may_admit = asyncio.Event()

    def note_death(self, agent: Agent) -> None:
        self.notes.append(f"{agent.name} died")

    def next_settings(self, agent: Agent) -> dict[str, Any]:
        return {"life": agent.restarts + 1}

    async def admit(self, agent: Agent) -> None:
        await self.may_admit.wait()
        self.notes.append(f"{agent.name} has run {(await agent.ask({'cmd': 'run', 'steps': 1}))['steps']}")


async def test_a_call_is_executed_by_the_successor_once_the_successor_takes_part(tmp_path: Path) -> None:
    ranks = Ranks(is_immediate=True)
    async with agents(tmp_path, "worker-1", watched=True, succession=ranks) as [agent]:
        first = agent.pid
        waiting = asyncio.ensure_future(agent.call({"cmd": "die"}))
        while agent.pid == first:
            await asyncio.sleep(0)
        assert (agent.takes_part, agent.is_expected, waiting.done()) == (False, True, False)
        assert '"life": 1' in (tmp_path / "worker-1.json").read_text()
        waiting.cancel()
        later = asyncio.ensure_future(agent.call({"cmd": "run", "steps": 5}))
        ranks.may_admit.set()
        assert (await asyncio.wait_for(later, 30))["steps"] == 5
        assert ranks.notes == ["worker-1 died", "worker-1 has run 1"] and agent.takes_part


async def test_a_call_of_a_dead_worker_that_nobody_waits_for_fails_until_another_worker_joins(
    tmp_path: Path,
) -> None:
    ranks = Ranks(is_immediate=False)
    ranks.may_admit.set()
    async with agents(tmp_path, "worker-1", watched=True, succession=ranks) as [agent]:
        with pytest.raises(AgentFailed, match="worker-1 ended with code -9"):
            await asyncio.wait_for(agent.call({"cmd": "die"}), 30)
        with pytest.raises(AgentFailed, match="worker-1 ended with code -9"):
            await asyncio.wait_for(agent.call({"cmd": "run", "steps": 5}), 30)
        assert not agent.is_expected and ranks.notes == ["worker-1 died"]
        await asyncio.wait_for(agent.join(), 30)
        assert (await agent.call({"cmd": "run", "steps": 5}))["steps"] == 5
        assert agent.is_expected and agent.restarts == 1


@pytest.mark.parametrize("is_immediate", [True, False])
async def test_a_worker_that_ends_with_an_error_has_no_successor(tmp_path: Path, is_immediate: bool) -> None:
    ranks = Ranks(is_immediate)
    async with agents(tmp_path, "worker-1", argument="fails", succession=ranks) as [agent]:
        await agent.send({"cmd": "fail"})
        with pytest.raises(AgentFailed, match=mentions(1, "ended")):
            await asyncio.wait_for(agent.wait_until_failed(), 30)
        assert ranks.notes == []
