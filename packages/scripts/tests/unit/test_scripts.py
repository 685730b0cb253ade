"""Processes of a script, and what a run makes of their workers, without a network."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from experiment import processes as process_module
from experiment.errors import AgentFailed, RunFailed
from experiment.processes import RunProcesses
from experiment.run_config import Config
from experiment.session import START_AHEAD_NS, PlannedBlock
from foundation.designs.arms import arms_of
from foundation.limits import WallClockLimit
from hotline_scripts.embedding_tables import make_tables
from hotline_scripts.joined_worker import JoinedWorker
from hotline_scripts.run import arm as arm_module
from hotline_scripts.run import group
from hotline_scripts.run import session as session_module
from hotline_scripts.run.arm import ScriptArm
from hotline_scripts.run.process import Script, first_failure
from hotline_scripts.run.session import MAX_PROFILED_STEPS, ScriptSession
from hotline_scripts.run.worker import ScriptWorker, command_workers
from softswitch.progress import Activity, ProcessState
from switch_harness.waiting import wait_for
from switch_harness.wording import mentions
from tests.harness.sessions import FakeNetwork, real_session
from topologies.lock_record import is_alive
from topologies.script_command import ScriptCommand, start_script_here

OFFLOAD = next(arm for arm in arms_of("hotset") if arm.name == "offload")
CONFIG = Config(script="train.py", workers=2)


class Line:
    """The connection of a worker that has joined; it records what it was sent."""

    def __init__(self, answer: Callable[[dict[str, Any]], None]) -> None:
        self.sent: list[dict[str, Any]] = []
        self._answer = answer

    def is_closing(self) -> bool:
        return False

    def write(self, line: bytes) -> None:
        self.sent.append(json.loads(line))
        asyncio.get_running_loop().call_soon(self._answer, self.sent[-1])


class Played:
    """An arm whose joined workers are controlled by the test."""

    def __init__(self, tmp_path: Path, each_tells: Sequence[int] = (), leaves: Sequence[int] = ()) -> None:
        self._tells, self._leaves = each_tells, leaves
        self.arm = ScriptArm(OFFLOAD, CONFIG, tmp_path, AsyncMock(), AsyncMock(), lambda report: None)
        self.lines = [Line(partial(self._answer, rank)) for rank in range(2)]
        for rank, line in enumerate(self.lines):
            writer: Any = line
            self.arm._join(JoinedWorker(rank, writer))

    def _answer(self, rank: int, order: dict[str, Any]) -> None:
        joined = self.arm.joined_workers[rank]
        if order["command"] == "end_block":
            ran = dict(steps=joined.steps, max_lateness_ns=0, cpu_s=0.5, loss=None, updates_sent=40)
            joined.complete_command(order["number"], ran)
            return
        joined.complete_command(order["number"], {})
        if order["command"] == "begin_block":
            for steps in self._tells[rank : rank + 1]:
                joined.report_steps(steps)
            if rank in self._leaves:
                last_block = {"steps": 1, "max_lateness_ns": 0, "cpu_s": 0.1, "loss": None}
                joined.final_report = {"last_block": last_block}
                joined.mark_left()


class NetworkOfMachines(FakeNetwork):
    """A network whose workers are on machines with clocks of their own."""

    clocks_ns = (5_000_000_000, -7_000_000_000)

    async def worker_clocks_ns(self) -> Sequence[int]:
        return self.clocks_ns


def session_of(played: Played, tmp_path: Path) -> ScriptSession:
    of = real_session()
    return ScriptSession(
        config=CONFIG, run=tmp_path, record=of.record, reporter=of.reporter, network=NetworkOfMachines(),
        workers=[], servers=[], arms=[played.arm],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"arms": ["offload", "baseline"]}, ["profile", "baseline", "offload"]),
        ({}, ["profile", "baseline", "repeat", "proxy", "offload", "offload-proxy"]),
        ({"design": "none", "arms": ["none"]}, ["none"]),
    ],
)
def test_only_arms_that_take_steps_have_scripts(settings: dict[str, Any], names: list[str]) -> None:
    assert [arm.name for arm in group.arms_of_scripts(Config(script="train.py", **settings))] == names


async def test_a_block_ends_when_all_workers_together_have_done_its_steps(tmp_path: Path) -> None:
    """The second has done more than its part, as the first waits for it."""
    played, reported = Played(tmp_path, each_tells=(2, 8)), []
    session, begun_ns = session_of(played, tmp_path), time.monotonic_ns()
    ran = await session.run_steps(
        PlannedBlock(OFFLOAD, 0, 5, round=2, load=0.0, max_discarded_steps=3),
        lambda name, steps: reported.append((name, steps)),
    )
    assert [each.steps for each in ran] == [2, 8] and ran[0].updates_sent == 40
    assert reported[-1] == ("offload", 10)
    opening = played.lines[0].sent[0]
    assert opening["round"] == 2 and opening["discard_ns"] == CONFIG.discard_ms * 1_000_000
    assert opening["discard_steps"] == 3
    # A block begins at one time, which each worker has by the clock of its machine.
    starts_ns = [line.sent[0]["start_ns"] for line in played.lines]
    begins_ns = {start - clock for start, clock in zip(starts_ns, NetworkOfMachines.clocks_ns, strict=True)}
    assert len(begins_ns) == 1 and 0 <= begins_ns.pop() - begun_ns - START_AHEAD_NS < 5_000_000_000
    again = await session.run_steps(PlannedBlock(OFFLOAD, 0, 1))
    assert [each.steps for each in again] == [2, 8]  # counted anew


async def test_a_block_whose_workers_leave_ends_with_their_completed_steps(tmp_path: Path) -> None:
    session = session_of(Played(tmp_path, each_tells=(1, 1), leaves=(0, 1)), tmp_path)
    assert not session.has_ended(OFFLOAD)
    ran = await session.run_steps(PlannedBlock(OFFLOAD, 0, 1_000))
    assert [each.steps for each in ran] == [1, 1]
    assert session.has_ended(OFFLOAD)
    assert await session.run_steps(PlannedBlock(OFFLOAD, 0, 1_000)) == []


async def test_a_block_without_progress_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "_EXTRA_TIMEOUT_S", -4.9)
    session = session_of(Played(tmp_path, each_tells=(3, 0)), tmp_path)
    with pytest.raises(AgentFailed, match=mentions("offload", 3, 10)):
        await session.run_steps(PlannedBlock(OFFLOAD, 0, 5))


async def test_a_block_goes_on_while_a_process_of_the_run_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step may take long: scripts compile, and compute."""
    monkeypatch.setattr(session_module, "_EXTRA_TIMEOUT_S", -4.9)
    monkeypatch.setattr(process_module, "_MAX_AGE_S", 0.0)
    session, looks = session_of(Played(tmp_path, each_tells=(3, 0)), tmp_path), 0

    async def work_for_a_while() -> Activity:
        nonlocal looks
        looks += 1
        return Activity(ProcessState.RUNS if looks < 60 else ProcessState.SLEEPS, 1.0, 0.0)

    session.liveness.processes.register("worker-1", work_for_a_while)
    with pytest.raises(AgentFailed, match=mentions("offload", 3, 10, "worker-1 lives", "sleeps")):
        await session.run_steps(PlannedBlock(OFFLOAD, 0, 5))
    assert looks > 60


async def test_a_worker_that_ended_by_an_error_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm_module, "_END_TIMEOUT_S", 0.0)
    played = Played(tmp_path, each_tells=(3, 9_000))
    session = session_of(played, tmp_path)
    played.arm.joined_workers[0].mark_left(is_in_order=False)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "script-offload-1.log").write_text("key 7 is there twice\n")
    with pytest.raises(AgentFailed, match=mentions(1, 7)):
        await session.run_steps(PlannedBlock(OFFLOAD, 0, 5))


async def test_the_size_of_a_step_is_observed_from_a_few_steps(tmp_path: Path) -> None:
    session = session_of(Played(tmp_path, each_tells=(4, 4)), tmp_path)
    workload = await session.observe(OFFLOAD, 4)
    # 80 lanes in 8 steps are 20 lanes in a step of both workers. A profile has a million lanes, or the steps
    # that a script takes at most.
    assert (session.config.lanes_to_profile, workload.profile_steps) == (1_000_000, MAX_PROFILED_STEPS)
    few = session.config.model_copy(update={"profile_lanes": 1_000})
    session = replace(session, config=few)
    assert (await session.observe(OFFLOAD, 4)).profile_steps == 1_020 // 20 + 1


async def test_scripts_that_end_without_a_push_get_an_error_that_defines_a_step(tmp_path: Path) -> None:
    session = session_of(Played(tmp_path, leaves=(0, 1)), tmp_path)
    with pytest.raises(RunFailed, match=mentions("offload", "step")):
        await session.observe(OFFLOAD, 4)


async def test_an_arm_begins_its_model_only_once(tmp_path: Path) -> None:
    played = Played(tmp_path)
    tables = make_tables({"table": (30, 1)})
    terms = await played.arm.begin(tables)
    assert (terms.job, terms.arm, terms.seed) == (OFFLOAD.job, "offload", 1)
    assert terms.parts == str(tmp_path / "parts")
    assert len(terms.workers) == 2
    with pytest.raises(RunFailed, match=mentions("offload", "workers")):
        await played.arm.begin(tables)


async def test_orders_that_fail_or_are_not_answered_name_the_worker(tmp_path: Path) -> None:
    silent: Any = Line(lambda order: None)
    joined = JoinedWorker(4, silent)
    with pytest.raises(AgentFailed, match=mentions("worker 5", "hint", "0.01 s")):
        await command_workers([joined], "hint", WallClockLimit(0.01))
    failing: Any = Line(lambda order: joined.complete_command(order["number"], {"error": "no such file"}))
    joined = JoinedWorker(4, failing)
    with pytest.raises(AgentFailed, match="no such file"):
        await command_workers([joined], "hint", WallClockLimit(1))
    worker = ScriptWorker(1, [Played(tmp_path).arm], RunProcesses())
    assert await worker.call({"cmd": "hint", "job": OFFLOAD.job, "file": None}) == {}
    assert await worker.call({"cmd": "flush"}) == {"dropped_rows": 0}
    await worker.settle()


class HereHost:
    """A host without namespaces."""

    async def start_script(self, command: ScriptCommand, log: Path) -> Any:
        return await start_script_here(command, [], log)


async def started(script: Script, code: str) -> Script:
    host: Any = HereHost()
    await script.start(host, ScriptCommand(("-c", code), Path("none"), rank=0, cpu=None))
    return script


async def test_a_script_that_fails_is_reported_with_its_status_arm_and_last_lines(tmp_path: Path) -> None:
    code = "print('first'); [print(n) for n in range(20)]; raise SystemExit('no such column: price')"
    script = await started(Script(3, "offload", tmp_path / "log"), code)
    await script.wait_until_failed()
    reported = str(first_failure([Script(1, "offload", tmp_path / "other"), script]))
    parts = ("worker 3 (rank 2) in arm offload", "status 1", str(tmp_path / "log"))
    assert all(part in reported for part in parts)
    assert reported.endswith("\n  no such column: price") and "\n  19" in reported and "first" not in reported


async def test_a_script_without_a_worker_has_failed_and_a_script_whose_worker_has_left_has_not(
    tmp_path: Path,
) -> None:
    script = await started(Script(1, "offload", tmp_path / "log"), "pass")
    await script.wait_until_failed()
    assert script.has_failed and "hotline.Worker" in str(script.failure())
    silent: Any = Line(lambda order: None)
    well = Script(2, "offload", tmp_path / "log")
    well.joined_worker = JoinedWorker(0, silent)
    await started(well, "pass")
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(well.wait_until_failed(), 2)
    assert not well.has_failed


async def test_a_vanished_worker_is_not_reported_as_a_missing_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process has ended with status 0."""
    monkeypatch.setattr(arm_module, "_END_TIMEOUT_S", 0.0)
    (tmp_path / "logs").mkdir()
    played = Played(tmp_path, each_tells=(3, 9_000))
    script = await started(played.arm.scripts[0], "print('done')")
    assert script._exit_task is not None
    await script._exit_task
    played.arm.joined_workers[0].mark_left(is_in_order=False)
    with pytest.raises(AgentFailed, match=mentions(1, "os._exit")):
        await session_of(played, tmp_path).run_steps(PlannedBlock(OFFLOAD, 0, 5))


async def test_the_first_of_several_failures_is_reported(tmp_path: Path) -> None:
    scripts = [
        await started(Script(number, "offload", tmp_path / f"{number}"), f"raise SystemExit({number})")
        for number in (1, 2)
    ]
    scripts[1].record_end()
    await asyncio.gather(*(script.wait_until_failed() for script in scripts))
    assert "worker 2" in str(first_failure(scripts))


async def test_ending_a_script_ends_all_its_child_processes(tmp_path: Path) -> None:
    """It ignores SIGTERM, and so does its child."""
    code = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    log = tmp_path / "log"
    script = await started(Script(1, "offload", log), code)
    while not log.read_text().strip():
        await asyncio.sleep(0.01)
    begun = time.monotonic()
    await script.end()
    assert script.has_failed and time.monotonic() - begun < 30
    await Script(2, "offload", log).end()  # it was never started
    child = int(log.read_text())
    wait_for(lambda: not is_alive(child))


def test_a_script_runs_as_the_user_of_sudo_with_its_folder_and_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SUDO_UID", "SUDO_GID", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    enter = ["mnexec", "-a", "7"]
    command = ScriptCommand(("a.py", "-x"), Path("/run/x.sock"), rank=2, cpu=None)
    assert command.arguments(enter) == [*enter, sys.executable, "a.py", "-x"]
    found = command.environment()
    assert (found["HOTLINE_CONNECT"], found["HOTLINE_RANK"]) == ("/run/x.sock", "2")
    assert found["OMP_NUM_THREADS"] == "1"
    for name, value in (("SUDO_UID", "0"), ("SUDO_GID", "5"), ("OMP_NUM_THREADS", "4")):
        monkeypatch.setenv(name, value)
    # What the kernel undoes at a change of the user comes after it.
    assert command._replace(cpu=1).arguments(enter, ["last"]) == [
        *enter, "taskset", "--cpu-list", "1", "setpriv", "--reuid=0", "--regid=5", "--init-groups", "last",
        sys.executable, "a.py", "-x",
    ]  # fmt: skip
    found = command.environment()
    assert (found["USER"], found["OMP_NUM_THREADS"]) == ("root", "4")


async def test_a_wait_for_scripts_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(group, "_REMINDER_DELAY_S", 0.0)
    caplog.set_level("INFO")
    arms = [
        Played(tmp_path).arm,
        ScriptArm(OFFLOAD, CONFIG, tmp_path, AsyncMock(), AsyncMock(), print),
    ]
    await group._log_missing_scripts(arms, tmp_path)
    assert "2 of 4 scripts" in caplog.text and str(tmp_path / "script-*.log") in caplog.text


async def test_a_killed_script_is_reported_by_its_signal(tmp_path: Path) -> None:
    script = await started(Script(1, "offload", tmp_path / "log"), "import time; time.sleep(600)")
    os.kill(script.pid, signal.SIGKILL)
    await script.wait_until_failed()
    assert "status -9" in str(script.failure())
