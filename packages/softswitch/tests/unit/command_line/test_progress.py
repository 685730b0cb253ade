"""Limits count only time for which a process could work and does not: real processes, and a fake /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch import progress
from softswitch.progress import ENDED, Activity, IdleLimit, ProcessState, describe_activity, read_activity
from switch_harness.waiting import wait_for
from switch_harness.wording import says

LIMIT_S = 10.0
LOOK_S = LIMIT_S / 20
SPIN = "while True: pass"
SLEEP = "import sys; sys.stdin.read()"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN!r}])"


@contextmanager
def process(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run Python code in a process group of its own, which is killed at the end."""
    started = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield started
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()


def in_state(pid: int, state: ProcessState) -> bool:
    return read_activity(pid).state is state


# -- what /proc says of real processes


def test_a_process_that_computes_runs_and_uses_cpu_time() -> None:
    with process(SPIN) as spinning:
        wait_for(lambda: in_state(spinning.pid, ProcessState.RUNS))
        before = read_activity(spinning.pid)
        wait_for(lambda: read_activity(spinning.pid).cpu_s > before.cpu_s)


def test_a_process_that_waits_for_input_sleeps() -> None:
    with process(SLEEP) as sleeping:
        wait_for(lambda: in_state(sleeping.pid, ProcessState.SLEEPS))


def test_a_stopped_process_is_neither_asleep_nor_ended() -> None:
    with process(SPIN) as stopped:
        os.kill(stopped.pid, signal.SIGSTOP)
        wait_for(lambda: in_state(stopped.pid, ProcessState.IS_STOPPED))
        assert says(describe_activity(read_activity(stopped.pid)), "lives", "stopped")


def test_a_process_works_while_its_child_does() -> None:
    """The parent sleeps in waitpid(2)."""
    with process(PARENT) as parent:
        wait_for(lambda: in_state(parent.pid, ProcessState.RUNS) and read_activity(parent.pid).cpu_s > 0.2)


def test_the_cpu_time_of_a_child_remains_after_its_end() -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(3 * 10**7))']); {SLEEP}"
    with process(code) as parent:
        wait_for(lambda: in_state(parent.pid, ProcessState.SLEEPS) and read_activity(parent.pid).cpu_s > 0.1)


def test_a_process_that_has_ended_is_known_as_a_zombie_and_later() -> None:
    ended = subprocess.Popen(["true"])
    wait_for(lambda: in_state(ended.pid, ProcessState.ENDED))
    ended.wait()
    assert read_activity(ended.pid) == ENDED
    assert describe_activity(ENDED) == "has ended"


# -- what a fake /proc says


def write_process(
    proc: Path, pid: int, states: str, ticks: int = 0, wait_ns: int = 0, child: str = ""
) -> None:
    """Write a process with a thread for each letter of `states`; its name looks like the end of a name."""
    fields = ["0"] * 10 + [str(ticks), "0", "0", "0"] + ["0"] * 30
    for number, state in enumerate(states):
        thread = proc / str(pid) / "task" / str(pid + number)
        thread.mkdir(parents=True, exist_ok=True)
        stat = " ".join([str(pid), "(a) Z (b c)", state, *fields])
        for folder in (thread, proc / str(pid)):
            (folder / "stat").write_text(stat)
        (thread / "schedstat").write_text(f"1 {wait_ns} 3\n")
        (thread / "children").write_text(child)


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ("S", ProcessState.SLEEPS),
        ("SI", ProcessState.SLEEPS),
        ("SD", ProcessState.WAITS_FOR_DISK),
        ("DSR", ProcessState.RUNS),
        ("ST", ProcessState.IS_STOPPED),
        ("t", ProcessState.IS_STOPPED),
        ("Z", ProcessState.ENDED),
        ("ZS", ProcessState.SLEEPS),
        ("X", ProcessState.ENDED),
    ],
)
def test_the_busiest_thread_is_the_state(tmp_path: Path, states: str, state: ProcessState) -> None:
    write_process(tmp_path, 7, states)
    assert read_activity(7, tmp_path).state is state


def test_times_are_sums_over_all_threads_and_descendants(tmp_path: Path) -> None:
    hertz = os.sysconf("SC_CLK_TCK")
    write_process(tmp_path, 7, "SS", ticks=2 * hertz, wait_ns=3 * 10**9, child="70 71")
    write_process(tmp_path, 70, "S", ticks=4 * hertz, child="7")  # a circle, by a reused id
    write_process(tmp_path, 71, "D", wait_ns=10**9)
    for number in (70, 71):  # as when it ends during the look, or in a kernel without it
        (tmp_path / str(number) / "task" / str(number) / ("schedstat", "children")[number - 70]).unlink()
    activity = read_activity(7, tmp_path)
    assert (activity.cpu_s, activity.wait_s) == (6.0, 7.0)
    assert activity.state is ProcessState.WAITS_FOR_DISK


# -- limits


class Watched:
    """A process and a clock that a test moves."""

    def __init__(self, counts_work: bool = False) -> None:
        self.now_s = 100.0
        self.activity = Activity(ProcessState.SLEEPS, cpu_s=0.0, wait_s=0.0)
        self.limit = IdleLimit(LIMIT_S, counts_work, clock=lambda: self.now_s)

    def pass_time(
        self,
        seconds: float,
        state: ProcessState = ProcessState.SLEEPS,
        cpu: float = 0.0,
        wait: float = 0.0,
        is_paused: bool = False,
    ) -> None:
        """Let the process spend shares of its time on a CPU, or waiting for one, and look at it."""
        for _ in range(round(seconds / LOOK_S)):
            self.now_s += LOOK_S
            self.activity = Activity(
                state, self.activity.cpu_s + cpu * LOOK_S, self.activity.wait_s + wait * LOOK_S
            )
            assert self.limit.look_s == 0
            self.limit.look([self.activity], is_paused)


def test_a_process_that_does_nothing_is_given_up_after_the_limit() -> None:
    watched = Watched()
    watched.pass_time(LIMIT_S)
    assert not watched.limit.is_exceeded
    watched.pass_time(2 * LOOK_S)
    assert watched.limit.is_exceeded


@pytest.mark.parametrize(
    ("state", "cpu", "wait"),
    [
        (ProcessState.RUNS, 1.0, 0.0),
        (ProcessState.RUNS, 0.0, 0.0),  # it waits for a CPU, which the kernel adds up later
        (ProcessState.SLEEPS, 0.02, 0.98),
        (ProcessState.WAITS_FOR_DISK, 0.0, 0.0),
        (ProcessState.IS_STOPPED, 0.0, 0.0),
    ],
    ids=["computes", "starved", "starved, but asleep at the looks", "waits for the disk", "stopped"],
)
def test_a_process_that_is_slow_is_waited_for(state: ProcessState, cpu: float, wait: float) -> None:
    watched = Watched()
    watched.pass_time(1_000 * LIMIT_S, state, cpu, wait)
    assert not watched.limit.is_exceeded
    watched.pass_time(LIMIT_S + 2 * LOOK_S)
    assert watched.limit.is_exceeded


def test_a_process_that_is_slowed_fiftyfold_is_waited_for() -> None:
    """SIGSTOP and SIGCONT in turn: it runs at each fiftieth look."""
    watched = Watched()
    for _ in range(20):
        watched.pass_time(49 * LOOK_S, ProcessState.IS_STOPPED)
        watched.pass_time(LOOK_S, ProcessState.SLEEPS, cpu=0.5)
    assert not watched.limit.is_exceeded


def test_a_process_that_only_polls_is_given_up() -> None:
    """A client that retransmits uses a little CPU time for ever."""
    watched = Watched()
    watched.pass_time(1.1 * LIMIT_S, cpu=0.01)
    assert watched.limit.is_exceeded


def test_a_process_that_writes_into_its_log_is_waited_for() -> None:
    """As one that waits while another process compiles."""
    watched = Watched()
    for lines in range(100):
        watched.now_s += LOOK_S
        watched.limit.look([watched.activity._replace(log="s1.log", log_bytes=30 * lines)])
    assert not watched.limit.is_exceeded
    watched.pass_time(1.2 * LIMIT_S)
    assert watched.limit.is_exceeded


def test_time_in_which_a_wait_is_paused_does_not_count() -> None:
    watched = Watched()
    watched.pass_time(10 * LIMIT_S, is_paused=True)
    assert not watched.limit.is_exceeded


def test_time_for_which_the_waiting_process_was_stopped_does_not_count() -> None:
    """Both may have been stopped, as by Ctrl-Z, or a laptop's lid."""
    watched = Watched()
    watched.pass_time(LOOK_S)
    watched.now_s += 1_000 * LIMIT_S
    watched.pass_time(LOOK_S)
    assert not watched.limit.is_exceeded


def test_one_working_process_of_several_extends_the_wait() -> None:
    watched = Watched()
    busy = Activity(ProcessState.RUNS, 1.0, 0.0)
    for others in ([busy], [ENDED, busy]):
        for _ in range(100):
            watched.now_s += LOOK_S
            watched.limit.look([watched.activity, *others])
        assert not watched.limit.is_exceeded


def test_a_process_that_is_to_end_has_a_limited_time_of_work() -> None:
    watched = Watched(counts_work=True)
    watched.pass_time(100 * LIMIT_S, ProcessState.RUNS, wait=1.0)
    assert not watched.limit.is_exceeded
    watched.pass_time(1.1 * LIMIT_S, ProcessState.RUNS, cpu=1.0)
    assert watched.limit.is_exceeded


@given(
    st.lists(
        st.tuples(
            st.sampled_from(ProcessState), st.floats(0, 2), st.floats(0, 2), st.floats(0, 3), st.booleans()
        ),
        max_size=30,
    ),
    st.booleans(),
)
def test_never_more_time_counts_than_has_passed(
    looks: list[tuple[ProcessState, float, float, float, bool]], counts_work: bool
) -> None:
    """Times of one thread: they grow by what has passed at most, but are less when a child ends."""
    watched = Watched(counts_work=counts_work)
    for state, cpu, wait, elapsed_s, ends in looks:
        watched.now_s += elapsed_s
        share = max(cpu + wait, 1.0)
        work = Activity(
            state,
            0.0 if ends else watched.activity.cpu_s + cpu / share * elapsed_s,
            watched.activity.wait_s + wait / share * elapsed_s,
        )
        before_s = watched.limit.counted_s
        watched.limit.look([work])
        watched.activity = work
        assert 0 <= watched.limit.counted_s - before_s <= elapsed_s + 1e-9


def test_notes_on_a_long_wait_come_each_half_minute_after_the_limit() -> None:
    watched, notes = Watched(), []
    for _ in range(round((LIMIT_S + 3 * progress.NOTE_S) / LOOK_S)):
        watched.pass_time(LOOK_S, ProcessState.RUNS, cpu=1.0)
        if (waited_s := watched.limit.take_overdue_s()) is not None:
            notes.append(waited_s)
    assert notes == pytest.approx([LIMIT_S + each * progress.NOTE_S for each in range(4)])


@pytest.mark.parametrize(("limit_s", "look_s"), [(0.01, 0.005), (10.0, 0.5), (1_000.0, 5.0)])
def test_looks_are_seldom_enough_to_cost_nothing_and_often_enough_for_the_limit(
    limit_s: float, look_s: float
) -> None:
    assert IdleLimit(limit_s, clock=lambda: 3.0).look_s == pytest.approx(look_s)


# -- descriptions


def test_the_last_line_that_a_process_wrote_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "s1.log"
    text = "x" * 100_000 + "\ncompiling once\n\n"
    code = f"import sys; print({text!r}, file=sys.stderr, flush=True); {SLEEP}"
    with log.open("wb") as errors:
        started = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=errors)
    try:
        wait_for(lambda: read_activity(started.pid).log_bytes > 100_000)
        activity = read_activity(started.pid)
        assert activity.log == str(log)
        assert says(describe_activity(activity), "lives", "compiling once", log)
    finally:
        started.kill()
        started.communicate()
    assert progress.last_line(tmp_path / "none") == ""
    assert says(progress.describe_load(), "load", "CPUs")
