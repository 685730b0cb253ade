"""A process of this machine that is stopped, or works, for longer than a limit is waited for."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller import client
from controller.controller import Controller
from experiment.design_parts import initial_rows
from experiment.errors import AgentFailed, SwitchFailed
from experiment.liveness import Liveness
from experiment.processes import RunProcesses, read_here
from experiment.run_config import Config
from foundation.errors import HotlineError
from foundation.limits import WallClockLimit
from hotline_scripts import up
from hotline_scripts.embedding_tables import EmbeddingTables
from hotline_scripts.joined_worker import JoinedWorker
from hotline_scripts.kv import launch
from hotline_scripts.rendezvous import Rendezvous
from hotline_scripts.run.worker import command_workers
from hotline_scripts.script_session import Terms, WorkersSession
from hotline_scripts.up import UpBackend
from softswitch import processes
from softswitch.progress import Activity, ProcessState, read_activity
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import mentions, says
from tests.harness.children import child
from tests.harness.sessions import FakeNetwork
from tests.harness.stopped import outlast_a_stop, until_a_stop_is_noted
from topologies import agents, switches
from topologies.agents import Agent
from topologies.cpu_placement import place
from topologies.fleet import own_controller
from topologies.switches import SoftSwitch

LIMIT_S = 0.1
WORK_S = 5 * LIMIT_S
AGENT = """
import json, sys, time
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    command = json.loads(line)["cmd"]
    end = time.process_time() + %s
    while command == "work" and time.process_time() < end:
        pass
    if command != "ignored":
        print(json.dumps({"cmd": command}), flush=True)
while "works" in sys.argv:
    pass
"""


@asynccontextmanager
async def agent(
    folder: Path, name: str = "ps-0", argument: str = "", liveness: Liveness | None = None
) -> AsyncIterator[Agent]:
    command = [sys.executable, "-c", AGENT % WORK_S, argument]
    started = await Agent(name, command, {}, folder, liveness=liveness).start()
    try:
        yield started
    finally:
        await started.quit()


# -- agents


async def test_an_agent_that_is_stopped_during_its_start_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with agent(tmp_path) as started:
        await outlast_a_stop(started.pid, started.ready(LIMIT_S), caplog)


async def test_an_agent_that_is_stopped_before_its_answer_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "_SETTLE_TIMEOUT_S", LIMIT_S)
    async with agent(tmp_path) as started:
        await started.ready()
        answer = await outlast_a_stop(started.pid, started.call({"cmd": "stats"}, LIMIT_S), caplog)
        assert answer == {"cmd": "stats"}
        os.kill(started.pid, signal.SIGSTOP)
        wait_for(lambda: read_activity(started.pid).state is ProcessState.IS_STOPPED)
        call = asyncio.ensure_future(started.call({"cmd": "stats"}))
        await asyncio.sleep(0)  # it has been sent
        call.cancel()
        await outlast_a_stop(started.pid, started.settle(), caplog)


async def test_an_agent_that_works_for_longer_than_the_limit_is_waited_for(tmp_path: Path) -> None:
    async with agent(tmp_path) as started:
        await started.ready()
        assert await started.call({"cmd": "work"}, LIMIT_S) == {"cmd": "work"}


async def test_an_agent_that_waits_for_a_stopped_agent_is_given_up_only_after_the_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker sleeps while its server is stopped; when both could go on, it is given up."""
    liveness = Liveness()
    async with (
        agent(tmp_path, "worker-1", liveness=liveness) as worker,
        agent(tmp_path, "ps-0", liveness=liveness) as server,
    ):
        await worker.ready()
        await server.ready()
        with pytest.raises(AgentFailed, match=mentions("worker-1", "ignored", "ps-0", "load")):
            await outlast_a_stop(server.pid, worker.call({"cmd": "ignored"}, LIMIT_S), caplog)


async def test_an_agent_that_is_stopped_at_its_end_is_killed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "_QUIT_TIMEOUT_S", LIMIT_S)
    async with agent(tmp_path) as started:
        await started.ready()
        os.kill(started.pid, signal.SIGSTOP)
    assert says(caplog.text, "ps-0", "quit", "killed")
    async with agent(tmp_path, argument="works") as started:
        await started.ready()
    assert caplog.text.count("killed") == 2


# -- scripts


async def test_a_script_that_is_stopped_before_its_answer_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line: Any = Writer()
    async with agent(tmp_path, "worker-1 of offload") as script:
        await script.ready()
        run = RunProcesses()
        run.register(script.name, script.activity)
        joined = JoinedWorker(0, line)

        async def answer() -> None:
            await script.call({"cmd": "stats"})
            joined.complete_command(1, {"done": True})

        answering = asyncio.ensure_future(answer())
        limit = run.limit(LIMIT_S, "the script")
        answers = await outlast_a_stop(script.pid, command_workers([joined], "hint", limit), caplog)
        await answering
    assert answers == [{"done": True}]


class Writer:
    """The connection of a worker that has joined; it records the lines that it was sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def is_closing(self) -> bool:
        return False

    def write(self, line: bytes) -> None:
        self.sent.append(json.loads(line))


# -- the switch, and its controllers

# It waits by sigwait: a handler does not run if the signal comes between Python's check and a blocking call.
LISTENER = """
import signal, socket, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
host, _, port = sys.argv[1].rpartition(":")
listening = socket.create_server((host, int(port)))
signal.sigwait({signal.SIGTERM})
"""


class Listener(SoftSwitch):
    """A process that does nothing but listen, where the port is free."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", LISTENER, self.address]


def listener(folder: Path, port: int) -> Listener:
    return Listener(port=port, log_dir=folder, cpu=None, impairment=None, datapath="sockets")


async def test_a_switch_that_is_stopped_during_its_start_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switches, "_START_TIMEOUT_S", LIMIT_S)
    with processes.reserved_port() as port:
        switch = listener(tmp_path, port)
    for wait in (switch.wait_until_listening, lambda: asyncio.to_thread(waits_for(switch))):
        await switch.restart()
        assert switch.pid is not None
        await outlast_a_stop(switch.pid, wait(), caplog)
        switch.stop()


def waits_for(switch: SoftSwitch) -> Any:
    assert switch.switch_process is not None
    return lambda: switch.switch_process.wait_until_it_listens(LIMIT_S)


async def test_a_switch_that_never_listens_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switches, "_START_TIMEOUT_S", LIMIT_S)
    monkeypatch.setattr(sys.modules[__name__], "LISTENER", "import time; time.sleep(99)")
    with processes.reserved_port() as port:
        switch = listener(tmp_path, port)
        await switch.restart()
        try:
            with pytest.raises(SwitchFailed, match=mentions("s1", "lives", "CPU time", "load")):
                await switch.wait_until_listening()
        finally:
            switch.stop()


async def test_a_switch_that_is_stopped_is_ended_in_order(tmp_path: Path) -> None:
    with processes.reserved_port() as port:
        switch = listener(tmp_path, port)
    await switch.restart()
    await switch.wait_until_listening()
    started = switch.switch_process
    assert started is not None
    os.kill(started.process.pid, signal.SIGSTOP)
    await switch.end()
    switch.stop()
    assert started.process.returncode == 0  # it got SIGTERM and went on, so that no SIGKILL was needed


async def test_each_call_of_a_controller_outlasts_a_stop_of_its_switch(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_SWITCH_START_TIMEOUT_S", "_CALL_TIMEOUT_S"):
        monkeypatch.setattr(client, name, 3 * LIMIT_S)
    run = RunProcesses()
    with processes.softswitch() as switch:
        pid = switch.process.pid
        run.register("s1", lambda: read_here(pid))
        controller = Controller(switch.address, exclusive=True, design="none", limits=run.limit)
        await outlast_a_stop(pid, controller.__aenter__(), caplog)
        try:
            assert await outlast_a_stop(pid, controller.commit_pipeline(), caplog)
            rows = initial_rows(Config(design="none"))
            await outlast_a_stop(pid, controller.install(*rows), caplog)
            await outlast_a_stop(pid, controller.remove(*rows), caplog)
        finally:
            await controller.__aexit__(None, None, None)


def test_the_controller_of_a_run_knows_its_processes() -> None:
    run = RunProcesses()
    controller = own_controller("127.0.0.1:9559", Config(), run)
    assert controller._limits == controller._switch._limits == run.limit


# -- servers of `hotline up`


class FakeSwitch:
    name = "s1"

    async def activity(self) -> Activity:
        return Activity(ProcessState.SLEEPS, 1.0, 0.0)


async def test_a_server_of_up_that_is_stopped_ends_no_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker gets a note. When the server could answer and does not, the session ends."""
    monkeypatch.setattr(up, "_SILENCE_S", LIMIT_S)
    config = Config(runs=tmp_path)
    network: Any = FakeNetwork(FakeSwitch())
    backend = UpBackend(config, place(config.placement, config.servers, config.workers), network)
    rendezvous = backend.rendezvous = Rendezvous(backend)
    writer: Any = Writer()
    worker = JoinedWorker(0, writer)
    terms = Terms(1, 1, "none", 32, [], [], "none", 1)
    session = rendezvous._session = WorkersSession(EmbeddingTables(), terms, 1, "end", {0: worker})
    async with agent(tmp_path, "ps-0") as server:
        await server.ready()
        backend._servers = [server]

        os.kill(server.pid, signal.SIGSTOP)
        waiting = asyncio.ensure_future(rendezvous.wait_for_servers(worker, [0]))
        await until_a_stop_is_noted(caplog, waiting)
        os.kill(server.pid, signal.SIGCONT)
        await rendezvous.wait_for_servers(worker, [])  # one has answered
        await waiting
        assert session.failure is None
        assert [says(line["note"], "server 0", "ps-0", "stopped", "s1") for line in writer.sent] == [True]
        await rendezvous.wait_for_servers(worker, [0])
    assert session.failure is not None and says(session.failure, "server 0", "worker 0", "lives")
    assert says(writer.sent[-1]["gone"], "server 0")


def test_down_waits_for_an_end_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Activity] = []

    def read(pid: int) -> Activity:
        looks.append(read_activity(pid))
        return looks[-1]

    monkeypatch.setattr(launch, "_DOWN_TIMEOUT_S", LIMIT_S)
    monkeypatch.setattr(launch, "_POLL_S", 0.001)
    monkeypatch.setattr(launch, "read_activity", read)
    with child([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with pytest.raises(HotlineError, match=mentions(f"process {process.pid}", "lives", "kill -9")):
            launch._wait_for_end(process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        looks.clear()
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(launch._wait_for_end, process.pid)
            wait_for(lambda: waiting.done() or len(looks) > 60)  # three times as many as a limit has
            assert not waiting.done()
            process.kill()
            process.wait()
            waiting.result(PATIENCE_S)


async def test_a_wall_clock_limit_is_exceeded_after_its_time() -> None:
    limit = WallClockLimit(0.01)
    assert not await limit.is_exceeded()
    assert says(limit.describe(), "0.01 s")
    await asyncio.sleep(limit.look_s)
    assert await limit.is_exceeded()
