"""Scripts that end without closing their worker: what they pushed is delivered, or they say what was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

import hotline
from hosts import ledger
from hotline_scripts.kv import launch
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says
from tests.harness.loopback import JOB, RunningRendezvous, running_rendezvous
from tests.harness.warm_python import ForkedProgram, WarmPython, warm_python

ROWS, PUSHES = 4_000, 20
"""What takes servers longer than a script takes to end."""
BEGIN = f"""
import multiprocessing, os, signal, sys
import numpy as np
import hotline
from hotline_scripts.kv import worker
worker.EXIT_TIMEOUT_S = {PATIENCE_S / 2}  # longer than the default, for busy machines
def join():
    global kv
    kv = hotline.Worker({{"rows": ({ROWS}, 1)}}, scale=1.0, rank=0)
    return kv
keys, values = np.arange({ROWS}), np.ones({ROWS}, np.float32)
def push():
    for _ in range({PUSHES}):
        kv.push(keys, values)
def terminated():
    os.kill(os.getpid(), signal.SIGTERM)
def forked(act):
    if (pid := os.fork()) == 0:
        act()
        os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


DELIVERING = {
    "join(); push()": 0,
    "join(); push(); sys.exit(3)": 3,
    "join(); push(); raise LookupError('mine')": 1,
    "with join(): push(); sys.exit(0)": 0,
    "with join(): push(); raise LookupError('mine')": 1,
    "join(); push(); terminated()": 128 + signal.SIGTERM,
    "with join(): push(); terminated()": 128 + signal.SIGTERM,
    "join(); push(); assert forked(sys.exit) == 0": 0,
    "join(); assert forked(terminated) == -signal.SIGTERM; push()": 0,
    "train = multiprocessing.get_context('fork').Process(target=lambda: (join(), push()))\n"
    "train.start(); train.join(); sys.exit(train.exitcode)": 0,
}
"""Scripts that end somehow -> status."""
Start = Callable[[str], AbstractContextManager[ForkedProgram]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmPython]:
    with (
        running_rendezvous(tmp_path_factory.mktemp("warm"), size=1) as running,
        warm_python(running.place) as python,
    ):
        yield python


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningRendezvous]:
    with running_rendezvous(tmp_path) as made:
        yield made


@pytest.fixture
def started(running: RunningRendezvous, python: WarmPython) -> Start:
    """Return a function that starts a script of rank 0."""
    return lambda code: python.started(BEGIN + code, {"HOTLINE_CONNECT": str(running.place)})


def ended(script: ForkedProgram) -> tuple[int | None, str]:
    _, errors = script.communicate()
    return script.returncode, errors


def other(running: RunningRendezvous) -> hotline.Worker:
    """Return a worker that keeps the session alive, and can see what arrived."""
    return hotline.Worker({"rows": (ROWS, 1)}, scale=1.0, connect=running.place, rank=1)


@pytest.mark.parametrize(("code", "status"), DELIVERING.items())
def test_pushes_are_delivered_after_every_kind_of_exit_of_a_script(
    running: RunningRendezvous, started: Start, code: str, status: int
) -> None:
    with other(running) as kv, started(code) as script:
        check_delivered(running, kv, code, ended(script), status)


@pytest.mark.parametrize("code", ["join(); push()", "join(); push(); terminated()"])
def test_a_script_in_a_new_process_delivers_its_pushes(running: RunningRendezvous, code: str) -> None:
    environment = {**os.environ, "HOTLINE_CONNECT": str(running.place)}
    with other(running) as kv:
        command = [sys.executable, "-c", BEGIN + code]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S)
        check_delivered(running, kv, code, (done.returncode, done.stderr), DELIVERING[code])


def check_delivered(
    running: RunningRendezvous, kv: hotline.Worker, code: str, ending: tuple[int | None, str], status: int
) -> None:
    returned, errors = ending
    assert returned == status and "not delivered" not in errors
    assert ("mine" in errors) == ("mine" in code)
    assert (kv.read() == PUSHES).all()
    [first] = [joined for joined in running.joined_workers if joined.rank == 0]
    wait_for(first.has_left.is_set)
    assert first.is_lost == ("mine" in code)


@pytest.mark.parametrize(
    "code",
    ["join(); push(); terminated()", "join()\ntry: push(); terminated()\nfinally: kv.close()"],
    ids=["open", "closed in the end"],
)
def test_the_rank_of_a_terminated_script_is_for_a_successor(
    running: RunningRendezvous, started: Start, code: str
) -> None:
    """Its pushes are delivered, so the rendezvous does not count it among the vanished."""
    running.cluster.after_death = "wait"
    with other(running) as kv, started(code) as script:
        check_delivered(running, kv, code, ended(script), 128 + signal.SIGTERM)
        with hotline.Worker({"rows": (ROWS, 1)}, scale=1.0, connect=running.place) as successor:
            assert (successor.rank, successor.life) == (0, 1)
            assert running.rendezvous.vanished_workers == 0


def test_a_session_waits_after_all_its_scripts_were_terminated(
    running: RunningRendezvous, started: Start
) -> None:
    running.cluster.after_death = "wait"
    for life in range(2):
        with started(f"assert join().life == {life}; push(); terminated()") as script:
            assert ended(script)[0] == 128 + signal.SIGTERM
    with hotline.Worker({"rows": (ROWS, 1)}, scale=1.0, connect=running.place, rank=0) as kv:
        assert (kv.read() == 2 * PUSHES).all() and running.cluster.sessions == 1


def test_a_script_of_a_run_delivers_and_writes_its_logs_when_its_block_comes(
    running: RunningRendezvous, started: Start, tmp_path: Path
) -> None:
    running.cluster.parts = str(tmp_path)
    with started("join(); push(); print('pushed', flush=True)") as script:
        wait_for(lambda: running.joined_workers != [])
        [joined] = running.joined_workers
        block = {"start_ns": 0, "round": 1, "load": 0.0, "discard_ns": 0, "discard_steps": 0}
        assert running.send_command(joined, "begin_block", **block) == {}
        assert ended(script) == (0, "")
    assert joined.final_report["last_block"]["steps"] == PUSHES and not joined.is_lost
    sums = ledger.read(tmp_path / f"ledger-worker-1-job-{JOB}-epoch-1.bin")
    assert (sums.sent == PUSHES).all() and not sums.unknown.any()


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("push()", 1, "no server answered for 0.1 s"),
        ("with kv: push(); sys.exit(0)", 1, "no server answered for 0.1 s"),
        ("push(); os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, "the script was interrupted"),
    ],
)
def test_a_script_that_cannot_deliver_says_how_much_and_fails(
    running: RunningRendezvous, started: Start, code: str, status: int, reason: str
) -> None:
    begin = (
        "from hotline_scripts.kv import worker\nworker.EXIT_TIMEOUT_S = 0.1\n"
        "join(); print('joined', flush=True); input()\n"
    )
    with started(begin + code) as script:
        assert script.read_line() == "joined\n"
        for server in running.cluster.servers:
            server.mute = True
        _, errors = script.communicate("\n")
        assert script.returncode == status
        assert says(errors, "worker 0", "delivered", f"{ROWS * PUSHES:,}", reason)
        assert ("call kv.close()" in errors) == (status == 1)
        [first] = running.joined_workers
        wait_for(first.has_left.is_set)
        assert first.is_lost


@pytest.mark.parametrize("code", ["import polars; join()", "join(); import polars"])
def test_ctrl_c_ends_a_wait_of_the_main_thread(running: RunningRendezvous, started: Start, code: str) -> None:
    """It waits in a barrier, in a system call that Polars's signal handler would let the kernel restart."""
    with started(f"{code}; kv.barrier()") as script:
        wait_for(lambda: running.rendezvous.workers == 1)
        wait_for(lambda: running.waiting_ranks == [0] and is_in_futex(script.pid))
        script.send_signal(signal.SIGINT)
        status, errors = ended(script)
        assert status == -signal.SIGINT and "KeyboardInterrupt" in errors


def is_in_futex(pid: int) -> bool:
    """Whether the main thread of a process waits for a lock."""
    return Path(f"/proc/{pid}/wchan").read_text().startswith("futex")


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_vanished_process_is_noticed(
    running: RunningRendezvous,
    started: Start,
    end: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with other(running), started(f"join(); push(); {end}") as script:
        ended(script)
        wait_for(lambda: running.rendezvous.vanished_workers == 1)
    assert says(caplog.text, "worker 0", "leaving")
    monkeypatch.setenv("HOTLINE_CONNECT", str(running.place))
    monkeypatch.setattr(launch, "is_alive", lambda pid: False)
    assert "1 worker ended without leaving, so its last pushes may be lost" in launch.down()


@pytest.fixture
def restored_sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("restored_sigterm")
def test_a_signal_handler_of_the_script_stays_installed(running: RunningRendezvous) -> None:
    seen: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    with other(running):
        os.kill(os.getpid(), signal.SIGTERM)
    assert seen == [signal.SIGTERM]


@pytest.mark.usefixtures("restored_sigterm")
def test_the_default_action_of_sigterm_returns_with_the_last_worker(running: RunningRendezvous) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with other(running), pytest.raises(SystemExit) as ended_by:
        os.kill(os.getpid(), signal.SIGTERM)
    assert ended_by.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_forked_process_cannot_use_its_parents_worker(running: RunningRendezvous) -> None:
    with other(running) as kv:
        reading, writing = os.pipe()
        if (pid := os.fork()) == 0:
            try:
                kv.push([1], np.ones(1, np.float32))
            except hotline.HotlineError as error:
                os.write(writing, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        os.close(writing)
        with os.fdopen(reading) as reported:
            assert f"process {os.getpid()}" in reported.read()
        kv.wait(kv.push([1], np.ones(1, np.float32)))
