"""All workers are ended when one has died, and all are started again, as torchrun's agent does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from experiment.worker_plan import AfterDeath
from switch_harness.waiting import wait_for
from tests.harness.children import child
from tests.harness.extras import needs_torch
from tests.harness.loopback import RunningRendezvous, running_rendezvous
from tests.harness.warm_python import ForkedProgram, WarmPython, warm_python

EXAMPLE = Path(__file__).parents[5] / "examples/elastic.py"
SIZE = 2
ROWS, STEPS, LAST_STEP = 3_000, 30, 12
"""Rows that each step adds 1 to, steps of each worker, and the step in which the first workers end."""
SCRIPT = f"""
import os, sys
import numpy as np
import hotline
rank, start = int(os.environ["RANK"]), int(os.environ["START"])
rows, one = np.ones({ROWS}, np.float32), np.ones(1, np.float32)
with hotline.Worker({{"rows": ({ROWS}, 1), "steps": ({SIZE}, 1)}}, scale=1.0, rank=rank) as kv:
    kv.init(np.zeros({ROWS}, np.float32), "rows")
    kv.init(np.zeros({SIZE}, np.float32), "steps")
    done = np.empty(1, np.float32)
    kv.wait(kv.pull([rank], done, "steps"))
    print(int(done[0]), flush=True)
    for step in range(int(done[0]), {STEPS}):
        ts = kv.push(np.arange({ROWS}), rows, "rows")
        if (start, step) == (0, {LAST_STEP}):
            kv.wait(ts - 1)
            print("pushing", flush=True)
            sys.stdin.readline()
        kv.push([rank], one, "steps")
    kv.barrier()
"""


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[WarmPython]]:
    """Yield one for each worker, because each has one program at a time."""
    with ExitStack() as stack:
        place = stack.enter_context(running_rendezvous(tmp_path_factory.mktemp("warm"), size=SIZE)).place
        pythons = [stack.enter_context(warm_python(place)) for _ in range(SIZE)]
        for python in pythons:
            with python.started("", {}) as program:  # until its worker has freed its address
                program.communicate()
        yield pythons


def start_all(
    stack: ExitStack, pythons: Sequence[WarmPython], running: RunningRendezvous, start: int
) -> list[ForkedProgram]:
    variables = {"HOTLINE_CONNECT": str(running.place), "START": str(start)}
    return [
        stack.enter_context(python.started(SCRIPT, {**variables, "RANK": str(rank)}))
        for rank, python in enumerate(pythons)
    ]


def end_all(programs: Sequence[ForkedProgram]) -> list[int | None]:
    """Wait until programs end, and return their statuses."""
    for program in programs:
        program.communicate()
    return [program.returncode for program in programs]


def steps_at_start(programs: Sequence[ForkedProgram]) -> list[int]:
    return [int(program.read_line()) for program in programs]


@pytest.mark.parametrize(
    ("after_death", "has_checkpoint", "sessions"),
    [("wait", False, 1), ("end", True, 2), ("continue", True, 2)],
)
def test_a_restarted_group_repeats_only_the_step_under_way(
    tmp_path: Path,
    pythons: Sequence[WarmPython],
    after_death: AfterDeath,
    has_checkpoint: bool,
    sessions: int,
) -> None:
    with running_rendezvous(tmp_path, SIZE) as running, ExitStack() as stack:
        running.cluster.after_death = after_death
        running.cluster.checkpoint = tmp_path / "model.npz" if has_checkpoint else None
        terminated, killed = programs = start_all(stack, pythons, running, start=0)
        assert steps_at_start(programs) == [0, 0]
        assert [program.read_line() for program in programs] == ["pushing\n"] * SIZE
        killed.send_signal(signal.SIGKILL)
        assert end_all([killed]) == [-signal.SIGKILL]
        terminated.send_signal(signal.SIGTERM)
        assert end_all([terminated]) == [128 + signal.SIGTERM]

        programs = start_all(stack, pythons, running, start=1)
        assert steps_at_start(programs) == [LAST_STEP] * SIZE
        assert end_all(programs) == [0, 0]
        wait_for(lambda: running.is_idle)
        values = running.cluster.values()
        assert running.cluster.sessions == sessions
    assert values[ROWS:].tolist() == [STEPS] * SIZE
    sums = {SIZE * STEPS + 1, SIZE * STEPS + 2}
    assert set(values[:ROWS].tolist()) <= sums, (
        "the push of the terminated worker twice, and perhaps the other"
    )


class Line(NamedTuple):
    start: int
    rank: int
    process: int
    step: int
    loss: float


LINE = re.compile(r"start (\d+), worker (\d+) \(process (\d+)\), step (\d+): loss ([\d.]+)")


def lines_of(agent: subprocess.Popen[str]) -> Iterator[Line]:
    assert agent.stdout is not None
    for text in agent.stdout:
        for found in LINE.finditer(text):  # two, if processes have written at once
            start, rank, process, step, loss = found.groups()
            yield Line(int(start), int(rank), int(process), int(step), float(loss))


@needs_torch
@pytest.mark.soak
def test_the_elastic_example_goes_on_after_a_kill_of_one_worker(tmp_path: Path) -> None:
    """It goes on from the loss that it had, and not from ln 2, with which weights of 0 begin."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    command = [sys.executable, *launcher, str(EXAMPLE), "--steps", "300"]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with running_rendezvous(tmp_path, SIZE) as running:
        running.cluster.after_death = "wait"
        environment = {**os.environ, "HOTLINE_CONNECT": str(running.place)}
        with child(command, env=environment, **options) as agent:
            before: list[Line] = []
            last_lines: dict[int, Line] = {}
            for line in lines_of(agent):
                before.append(line)
                last_lines[line.rank] = line
                if len(last_lines) == SIZE and last_lines[1].step >= 100:
                    os.kill(last_lines[1].process, signal.SIGKILL)
                    break
            after = [line for line in lines_of(agent) if line.start == 1]
            assert agent.wait() == 0
        assert running.cluster.sessions == 1
        assert [joined.life for joined in running.joined_workers] == [0, 0, 1, 1]
    for rank, last_line in last_lines.items():
        steps = [line.step for line in after if line.rank == rank]
        assert steps[0] >= last_line.step and steps[-1] == 300
    assert before[0].loss == 0.693 and before[-1].loss < 0.65
    assert all(line.loss < (before[0].loss + before[-1].loss) / 2 for line in after)
