"""The run lock: one run at a time, and cleanup after a killed one."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import Mock

import pytest

from experiment.errors import PreflightError
from experiment.folder import create_run_folder
from foundation.errors import DiskFullError
from switch_harness.waiting import wait_for
from switch_harness.wording import says
from tests.harness.children import child
from topologies import run_lock
from topologies.lock_record import LockRecord, find_holder, find_running_folder, is_alive
from topologies.run_lock import find_marked_processes, hold_run_lock

SLEEP = [sys.executable, "-c", "input()"]


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture(autouse=True)
def own_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mark the processes of these tests, so that only they are ended beside other runs."""
    monkeypatch.setattr(run_lock, "MARK", f"HOTLINE_TEST_{os.getpid()}")
    monkeypatch.setattr(run_lock, "restore_affinities", lambda: None)


def test_a_second_run_is_refused_with_the_name_of_the_first(lock: Path, tmp_path: Path) -> None:
    assert find_holder(lock) is None
    with hold_run_lock([], lock, ended_by="this command") as locked:
        holder = find_holder(lock)
        assert holder is not None and (holder.pid, holder.ended_by) == (os.getpid(), "this command")
    assert find_holder(lock) is None
    with hold_run_lock([], lock) as locked:
        locked.set_folder(tmp_path / "first")
        reported = rf"a run is going on \(process {os.getpid()} in {tmp_path}/first, for 0 min \d+ s\)"
        with pytest.raises(PreflightError, match=reported), hold_run_lock([], lock):
            pass
    with hold_run_lock([], lock):
        pass


def test_the_folder_of_a_run_is_found_for_as_long_as_its_process_lives(lock: Path, tmp_path: Path) -> None:
    assert find_running_folder(lock) is None
    with hold_run_lock([], lock) as locked:
        assert find_running_folder(lock) is None
        locked.set_folder(tmp_path)
        assert find_running_folder(lock) == tmp_path
    assert find_running_folder(lock) is None
    with child(SLEEP, stdin=subprocess.PIPE) as process:
        lock.write_text(json.dumps({"run": str(tmp_path), "pid": process.pid}))
        assert find_running_folder(lock) == tmp_path
    assert find_running_folder(lock) is None  # a killed run leaves its record


def test_processes_started_in_a_run_are_marked(lock: Path) -> None:
    with hold_run_lock([], lock), child(SLEEP, stdin=subprocess.PIPE) as process:
        # Its environment is set after it has started.
        wait_for(lambda: process.pid in find_marked_processes())
    assert run_lock.MARK not in os.environ


@pytest.mark.mininet
def test_a_containers_processes_are_not_a_runs_leftovers(lock: Path) -> None:
    """A run in a container continues while another runs on the host."""
    command = ["unshare", "--pid", "--fork", "--kill-child", *SLEEP]
    with hold_run_lock([], lock), child(command, stdin=subprocess.PIPE) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_for(lambda: children.read_text() != "")
        # `unshare` itself stays in this PID namespace.
        assert find_marked_processes() == [process.pid]


def test_the_next_run_ends_only_marked_processes(lock: Path) -> None:
    with ExitStack() as stack:
        with hold_run_lock([], lock):
            marked = stack.enter_context(child(SLEEP, stdin=subprocess.PIPE))
        unmarked = stack.enter_context(child(SLEEP, stdin=subprocess.PIPE))
        with hold_run_lock([], lock) as locked:
            assert locked.removed_run.processes == 1
        assert marked.wait() == -signal.SIGKILL
        assert unmarked.poll() is None


def test_a_process_is_alive_until_its_last_thread_ends(lock: Path) -> None:
    """A zombie's other threads may still hold the switch's port."""
    program = f"""
import ctypes, platform, socket, threading
sock = socket.create_server(("127.0.0.1", 0))
print(sock.getsockname()[1], flush=True)
threading.Thread(target=threading.Event().wait).start()
ctypes.CDLL(None).syscall({93 if platform.machine() == "aarch64" else 60}, 0)
"""
    with hold_run_lock([], lock):
        switch = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert switch.stdout is not None
    port = int(switch.stdout.readline())
    wait_for(lambda: "State:\tZ" in Path(f"/proc/{switch.pid}/status").read_text())
    assert is_alive(switch.pid)
    switch.kill()
    wait_for(lambda: not is_alive(switch.pid))
    socket.create_server(("127.0.0.1", port)).close()
    switch.communicate()


def test_only_interfaces_that_the_killed_run_named_are_removed(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lock, "interface_exists", lambda name: name in ("s1-eth1", "s1-eth9"))
    deleted: list[str] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: deleted.append(command[-1]))
    lock.write_text('{"interfaces": ["s1-eth1", "s1-eth2"]}')
    with hold_run_lock([], lock) as locked:
        assert locked.removed_run.interfaces == ("s1-eth1",)
    assert deleted == ["s1-eth1"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"of": "another version"}'])
def test_an_invalid_lock_file_is_ignored(lock: Path, text: str) -> None:
    lock.write_text(text)
    with hold_run_lock([], lock) as locked:
        assert not locked.removed_run


def test_a_lock_of_a_dead_process_is_free_and_names_its_folder(lock: Path, tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from unittest.mock import Mock
from topologies import run_lock
from topologies.run_lock import hold_run_lock
run_lock.MARK = {run_lock.MARK!r}  # or it would end other runs on this machine
run_lock.restore_affinities = lambda: None
with hold_run_lock(["hotline-none"], Path({str(lock)!r})) as locked:  # names no interface of other runs
    locked.set_folder(Path({str(tmp_path)!r}))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    with hold_run_lock([], lock) as locked:
        assert locked.removed_run.run == tmp_path
    assert lock.read_text() == ""


def test_a_killed_run_is_named_until_its_folder_is_tidied(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run_folder(tmp_path, "softswitch")
    with pytest.raises(RuntimeError), hold_run_lock([], lock) as locked:
        locked.set_folder(run)
        raise RuntimeError
    with monkeypatch.context() as patched:
        patched.setattr(run_lock, "finish_run_folder", Mock(side_effect=DiskFullError("no room")))
        for _ in range(2):
            with pytest.raises(DiskFullError), hold_run_lock([], lock):
                pass
    with hold_run_lock([], lock) as locked:
        assert (locked.removed_run.run, locked.removed_run.is_tidied) == (run, True)
        assert not (run / "parts").exists()
    with hold_run_lock([], lock) as locked:
        assert locked.removed_run.run is None


def test_the_folder_of_a_killed_hotline_up_is_left_to_the_next(lock: Path, tmp_path: Path) -> None:
    run = create_run_folder(tmp_path, "softswitch")
    with lock.open("w+b") as file:
        LockRecord(run=str(run), ended_by="./hotline down").write(file)
    with hold_run_lock([], lock) as locked:
        assert not locked.removed_run.is_tidied and (run / "parts").exists()
    assert lock.read_text() == ""


def test_cleaning_up_restores_the_affinities_of_kernel_threads(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    monkeypatch.setattr(run_lock, "restore_affinities", lambda: called.append("restored"))
    with hold_run_lock([], lock):
        assert called == ["restored"]


def test_a_run_during_hotline_up_is_refused_with_the_command_that_ends_the_session(lock: Path) -> None:
    with (
        hold_run_lock([], lock, ended_by="sudo ./hotline down"),
        pytest.raises(PreflightError) as refused,
        hold_run_lock([], lock),
    ):
        pass
    assert str(refused.value).startswith(f"`hotline up` is running (process {os.getpid()}")
    assert says(str(refused.value), "/hotline", "sudo")
