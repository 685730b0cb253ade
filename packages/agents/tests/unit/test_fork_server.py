"""The fork server of agents: what a forked process has of its own, its end, and the server's."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from experiment.errors import AgentFailed
from foundation.designs.registry import DEFAULT
from hosts.start_request import StartRequest
from hotline_agents.fork_server import ForkServer
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says
from tests.harness.stopped import outlast_a_stop
from topologies import agent_launcher as agent_launcher_module
from topologies.agent_launcher import (
    _PADDING,
    _WITHOUT_THREADS,
    AgentLauncher,
    ForkedProcess,
    agent_launcher,
)
from topologies.lock_record import is_alive

# A module that the server has not imported; it says what it is, and does what lines tell it.
MODULE = """
import json, os, signal, sys, time
def pipes_of_others():
    fds = [int(fd) for fd in os.listdir("/proc/self/fd")]
    return [fd for fd in fds if fd > 2 and os.path.exists(f"/proc/self/fd/{fd}")
            and os.readlink(f"/proc/self/fd/{fd}").split(":")[0] in ("pipe", "socket", "anon_inode")]
print("to the log", file=sys.stderr, flush=True)
print(json.dumps({
    "argv": sys.argv, "name": __name__, "pid": os.getpid(), "parent": os.getppid(),
    "session": os.getsid(0), "cpu_s": time.process_time(),
    "run_queue": open("/proc/self/schedstat").read(), "threads": len(os.listdir("/proc/self/task")),
    "has_agents": "hotline_agents.ps.__main__" in sys.modules, "inherited": pipes_of_others(),
    "command": open("/proc/self/cmdline").read().rstrip("\\0").split("\\0")[1:],
    "int": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
}), flush=True)
for line in sys.stdin:
    if line == "raise\\n":
        raise ValueError("no such thing")
    sys.exit(int(line))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "forked_agent.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "forked_agent"


FORK_SERVER = "hotline_agents.fork_server"


@asynccontextmanager
async def launcher_in(folder: Path) -> AsyncIterator[AgentLauncher]:
    async with agent_launcher(FORK_SERVER, DEFAULT, folder / "agents.log") as launcher:
        yield launcher


async def start(launcher: AgentLauncher, module: str, *arguments: str) -> tuple[ForkedProcess, Any]:
    process = await launcher.launch(module, arguments)
    return process, json.loads(await process.stdout.readline())


def has_ended(pid: int) -> bool:
    return not is_alive(pid)


async def test_agents_are_separate_processes_and_die_with_the_fork_server(
    tmp_path: Path, module: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with launcher_in(tmp_path) as launcher:
        agents = [await start(launcher, module, "--config", str(number)) for number in range(3)]
        for number, (process, found) in enumerate(agents):
            assert found["argv"][1:] == ["--config", str(number)] and found["name"] == "__main__"
            assert found["pid"] == found["session"] == process.pid != found["parent"]
            # Imports and compilation are the server's; the accounting of an agent begins with its fork.
            assert found["has_agents"] and found["cpu_s"] < 0.5 and found["threads"] == 1
            assert found["inherited"] == [] and found["int"]
            assert int(found["run_queue"].split()[0]) < 500_000_000
            assert found["command"] == ["-m", module, "--config", str(number)]
            shown = Path(f"/proc/{found['parent']}/cmdline").read_text().rstrip("\0").split("\0")
            assert shown[1:3] == ["-m", "hotline_agents.fork_server"] and shown[4:] == [DEFAULT]
        codes = {0: "0\n", 7: "7\n", 1: "raise\n"}
        for code, (process, _) in zip(codes, agents, strict=True):
            process.stdin.write(codes[code].encode())
            assert await process.wait() == code == process.returncode
        assert process.stderr is not None
        errors = (await process.stderr.read()).decode().splitlines()
        assert errors[0] == "to the log" and errors[-1] == "ValueError: no such thing"
        # An agent ends with its input, or is killed.
        (ended, _), (killed, _), (stopped, found) = [await start(launcher, module) for _ in range(3)]
        ended.stdin.close()
        await ended.stdin.wait_closed()
        assert await ended.wait() == 0
        ended.kill()  # it has ended, which is no error
        killed.kill()
        assert await killed.wait() == -signal.SIGKILL
        os.kill(found["pid"], signal.SIGTERM)
        assert await stopped.wait() == -signal.SIGTERM
        with pytest.raises(OSError, match="No such file"):
            await launcher.launch(module, [], tmp_path / "none")
        # The answer to a request that was given up is no other request's, and its agent ends by itself.
        given_up = asyncio.ensure_future(launcher.launch(module, ["given up"]))
        await asyncio.sleep(0)  # it has been sent
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        process, found = await start(launcher, module, "next")
        assert found["argv"][1:] == ["next"] and found["pid"] == process.pid
        others = Path(f"/proc/{found['parent']}/task/{found['parent']}/children")
        wait_for(lambda: others.read_text().split() == [str(process.pid)])
        process.kill()
        await process.wait()
        monkeypatch.setattr(agent_launcher_module, "_START_TIMEOUT_S", 0.1)
        late = await outlast_a_stop(found["parent"], start(launcher, module), caplog)
        late[0].kill()
        await late[0].wait()
        await check_death(launcher, module)


async def check_death(launcher: AgentLauncher, module: str) -> None:
    """Check that agents die with the server, and that this is reported."""
    started = [await start(launcher, module) for _ in range(2)]
    os.kill(started[0][1]["parent"], signal.SIGKILL)
    for process, found in started:
        assert await process.wait() == -signal.SIGKILL
        wait_for(partial(has_ended, found["pid"]))
    with pytest.raises(AgentFailed, match="the fork server of agents has ended"):
        await launcher.launch(module, [])


ORPHANS = """
import asyncio, os, sys
from pathlib import Path
from topologies.agent_launcher import agent_launcher

async def main():
    async with agent_launcher("hotline_agents.fork_server", "hotset", Path(sys.argv[1])) as launcher:
        for _ in range(2):
            await launcher.launch("forked_agent", [])
        print("started", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_agents_and_fork_server_end_with_the_runner(tmp_path: Path, module: str) -> None:
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ORPHANS, str(tmp_path / "log"), stdout=asyncio.subprocess.PIPE
    )
    assert runner.stdout is not None and await runner.stdout.readline() == b"started\n"
    server = int(Path(f"/proc/{runner.pid}/task/{runner.pid}/children").read_text())
    agents = list(map(int, Path(f"/proc/{server}/task/{server}/children").read_text().split()))
    assert len(agents) == 2
    runner.kill()
    await runner.wait()
    for pid in (*agents, server):
        wait_for(partial(has_ended, pid))


async def test_a_server_that_cannot_start_gives_the_reason(tmp_path: Path) -> None:
    async with agent_launcher(FORK_SERVER, "no-such-design", tmp_path / "agents.log") as launcher:
        with pytest.raises(AgentFailed, match=r"has ended: .*no-such-design.* \(.*agents.log\)$"):
            await launcher.launch("hotline_agents.ps", [])


def test_a_server_with_threads_does_not_fork() -> None:
    connection, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with connection, server_end:
        message = json.dumps(StartRequest(7, "hotline_agents.ps", [])._asdict()).encode()
        assert ForkServer(server_end, threads_of_imports=0)._execute(message, []) is None
        names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
        assert says(json.loads(connection.recv(1_000))["error"], 0, len(names), *names)


COMPILING = """
import os, sys
import hotline_agents.warm

def compile_all(design):
    import scipy.linalg

hotline_agents.warm.warm = compile_all
from tests.harness import warm_processes
warm_processes._serve(int(sys.argv[1]))
"""


def test_imports_of_a_compilation_start_no_threads(module: str) -> None:
    """The fork server of tests compiles when the sources of agents have changed since the last one."""
    connection, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(PATIENCE_S)
    python_path = os.pathsep.join([*sys.path, os.environ["PYTHONPATH"]])
    with server_end:
        server = subprocess.Popen(
            [sys.executable, "-c", COMPILING, str(server_end.fileno()), _PADDING],
            env={**os.environ, **_WITHOUT_THREADS, "PYTHONPATH": python_path},
            pass_fds=[server_end.fileno()],
        )
    with server, connection:
        output, agent_end = os.pipe()
        with open(os.devnull) as nothing:
            fds = [nothing.fileno(), agent_end, agent_end]
            request = StartRequest(7, module, [])
            socket.send_fds(connection, [json.dumps(request._asdict()).encode()], fds)
        os.close(agent_end)
        answer = json.loads(connection.recv(1_000))
        assert "pid" in answer, answer
        with open(output) as lines:
            found = json.loads(lines.read().splitlines()[-1])
        assert answer == {"number": 7, "pid": found["pid"]} and found["threads"] == 1
