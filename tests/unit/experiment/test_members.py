"""Workers and servers of a run, found in its file and read from the kernel."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiment.members import (
    Member,
    MemberLog,
    MemberState,
    look_at,
    rates,
    read_members,
    read_switch_name,
)
from experiment.run_config import Config
from softswitch.progress import Activity, ProcessState, start_ticks
from switch_harness.waiting import wait_for
from tests.harness.children import child

SWITCH = "127.0.0.1:9559"
SLEEPS = ProcessState.SLEEPS


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[str]]:
    with child([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


@pytest.fixture
def log(tmp_path: Path) -> tuple[MemberLog, Path]:
    file = tmp_path / "members.jsonl"
    log = MemberLog(file)
    log.begin({SWITCH: ""})
    return log, file


def state_of(name: str, frames: int | None = 100, state: ProcessState = SLEEPS) -> MemberState:
    return MemberState(name, Activity(state, cpu_s=0.0, wait_s=0.0), frames)


def slow(*looks: MemberState) -> dict[str, str]:
    return {each.name: each.slowness for each in rates(looks) if each.slowness is not None}


def test_the_newest_process_of_a_name_is_a_member(log: tuple[MemberLog, Path]) -> None:
    members, file = log
    for name, pid in (("worker-1", 1), ("ps-0", os.getpid()), ("worker-1", os.getpid())):
        members.add(name, pid, "lo")
    own = start_ticks(os.getpid())
    assert read_members(file) == [Member(name, os.getpid(), own, "lo") for name in ("worker-1", "ps-0")]


def test_processes_on_other_machines_are_no_members(log: tuple[MemberLog, Path]) -> None:
    log[0].add("worker-1", 1, None)
    assert read_members(log[1]) == []


def test_members_of_another_switch_or_of_an_earlier_session_are_not_read(log: tuple[MemberLog, Path]) -> None:
    log[0].add("worker-1", 1, "lo")
    assert read_members(log[1], "127.0.0.1:9560") == [] and len(read_members(log[1], SWITCH)) == 1
    log[0].begin({SWITCH: ""})
    assert read_members(log[1], SWITCH) == []


def test_each_switch_of_a_network_has_a_name_and_the_members_of_all(tmp_path: Path) -> None:
    config = Config(topology="leaf-spine", leaves=2)
    addresses = [config.p4runtime_address(switch) for switch in range(3)]
    file = tmp_path / "members.jsonl"
    log = MemberLog(file)
    log.begin(config.switch_names)
    log.add("worker-1", 1, "lo")
    assert [read_switch_name(file, each) for each in addresses] == ["spine", "leaf 1", "leaf 2"]
    assert [len(read_members(file, each)) for each in addresses] == [1, 1, 1]
    other = "127.0.0.1:1"
    assert (read_switch_name(file, other), read_members(file, other)) == ("", [])
    assert read_switch_name(tmp_path / "none.jsonl", addresses[0]) == ""
    assert Config().switch_names == {}


def test_an_incomplete_last_line_of_the_file_is_ignored(log: tuple[MemberLog, Path]) -> None:
    log[0].add("worker-1", 1, "lo")
    with log[1].open("a") as file:
        file.write('{"name": "worker-')
    assert [each.name for each in read_members(log[1])] == ["worker-1"]


def test_a_run_without_a_readable_file_has_no_members(tmp_path: Path) -> None:
    assert read_members(tmp_path / "members.jsonl") == [] == read_members(tmp_path)


def test_a_stopped_and_an_ended_process_are_slow(
    log: tuple[MemberLog, Path], sleeper: subprocess.Popen[str]
) -> None:
    log[0].add("ps-0", sleeper.pid, "lo")
    members = read_members(log[1])
    assert slow(*look_at(members)) == {}
    sleeper.send_signal(signal.SIGSTOP)
    wait_for(lambda: slow(*look_at(members)) == {"ps-0": "is stopped (SIGSTOP)"})
    sleeper.kill()
    wait_for(lambda: slow(*look_at(members)) == {"ps-0": "has ended"})


def test_a_later_process_with_the_same_id_is_not_the_member() -> None:
    own = Member("ps-0", os.getpid(), start_ticks(os.getpid()), "lo")
    later = Member("ps-0", os.getpid(), own.start + 1, "lo")
    assert [each.activity.state for each in look_at([own, later])].count(ProcessState.ENDED) == 1
    assert look_at([later])[0].activity.state is ProcessState.ENDED


def test_frames_are_counted_at_the_interface() -> None:
    member = Member("worker-1", os.getpid(), 0, "lo")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        before = look_at([member])[0].frames
        sock.sendto(b"x", ("127.0.0.1", 9))
        after = look_at([member])[0].frames
    assert before is not None and after is not None and after > before
    assert look_at([Member("worker-1", os.getpid(), 0, "no-such-interface")])[0].frames is None


def test_rates_are_by_the_time_between_two_looks() -> None:
    before = MemberState("worker-1", Activity(SLEEPS, cpu_s=1.0, wait_s=0.5), 100)
    now = MemberState("worker-1", Activity(SLEEPS, cpu_s=2.0, wait_s=0.9), 500)
    [found] = rates([now], [before], interval_s=4.0)
    assert (found.frames, found.frames_per_s, found.cpu_share) == (400, 100.0, 0.25)
    assert found.wait_share == pytest.approx(0.1)
    [first] = rates([now])
    assert (first.frames, first.frames_per_s, first.cpu_share, first.wait_share) == (500, None, None, None)


def test_a_new_network_and_a_new_process_count_from_zero() -> None:
    before = MemberState("worker-1", Activity(SLEEPS, cpu_s=9.0, wait_s=9.0), 100)
    now = MemberState("worker-1", Activity(SLEEPS, cpu_s=1.0, wait_s=1.0), 50)
    [found] = rates([now], [before], interval_s=1.0)
    assert (found.frames, found.cpu_share, found.wait_share) == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ((100, 100, 49), {"worker-3"}),
        ((100, 100, 50), set()),
        ((19, 19, 0), set()),  # too few frames to compare
        ((100, 100, None), set()),  # no such interface
        ((5, 100, 100), {"worker-1"}),
    ],
)
def test_a_worker_with_less_than_half_of_the_medians_frames_is_slow(
    frames: tuple[int | None, ...], expected: set[str]
) -> None:
    workers = [state_of(f"worker-{number}", sent) for number, sent in enumerate(frames, start=1)]
    assert set(slow(*workers)) == expected


@pytest.mark.parametrize("state", [SLEEPS, ProcessState.RUNS, ProcessState.WAITS_FOR_DISK])
def test_a_server_that_works_or_waits_for_its_disk_is_not_slow(state: ProcessState) -> None:
    assert slow(state_of("ps-0", state=state)) == {}


def test_a_server_is_not_slow_by_its_frames() -> None:
    assert slow(*(state_of(f"worker-{number}") for number in (1, 2)), state_of("ps-0", 1)) == {}
