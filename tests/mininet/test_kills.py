"""Sequences of real kills, also while what was killed before comes back: a run goes on, and nothing is lost.

`simulator.faults` plays the same sequences in virtual time.
"""

from __future__ import annotations

import json
import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from experiment.faults import SERVER_KILLED, SWITCH_KILLED, WORKER_KILLED
from foundation.protocol.addressing import SWITCH_NAME
from hotline.cli.commands import hotline
from simulator.faults.kills import Kill, draw_kills
from tests.mininet.run_topo import SMALL, Run, command_line, run_topo

pytestmark = pytest.mark.mininet
RECOVERY = '[recovery]\ndurable = "checkpoint"\nreplay_log = true\n'
WORKERS, SERVERS = int(str(SMALL["workers"])), 2
RESTORED_S = 3.0
"""In which a switch is restored here."""
IN_ROUNDS, WHILE_LOADING = "parts/operations-worker-1-12.parquet", "hotset.parquet"
"""Files by which a run has come to its first rounds, and to its hot set."""
ROUNDS_A_KILL = 8
"""So that a run goes on behind its last kill."""
S1, PS_0, PS_1 = Kill(SWITCH_KILLED, 0, 0.5), Kill(SERVER_KILLED, 0, 0.5), Kill(SERVER_KILLED, 1, 0.5)
WORKER_1 = Kill(WORKER_KILLED, 0, 0.0)
ONCE_FATAL = (
    (PS_0, S1, PS_1),
    (PS_0, S1, PS_0),
    (PS_0, S1, PS_0, S1),
    (S1, PS_0, S1),
    (PS_0, S1, PS_1, WORKER_1),
)
"""That once ended runs, or lost what a worker's file had; each killed while the one before comes back."""


def process_of(run: Run, who: str) -> int | None:
    """Its process id, where there is one."""
    if who == SWITCH_NAME:
        return next(iter(run.agents("softswitch")), None)
    agents = run.agents("hosts.worker" if who.startswith("worker") else "hosts.ps")
    return next((pid for pid in agents if command_line(pid).endswith(f"/{who}.json\0")), None)


def kill(run: Run, who: str) -> None:
    """Kill it as soon as it has a process."""
    run.wait_for(lambda: process_of(run, who) is not None)
    if (pid := process_of(run, who)) is not None:
        os.kill(pid, signal.SIGKILL)


def kill_in_order(run: Run, kills: tuple[Kill, ...], from_file: str) -> None:
    """Kill them from when there is a file of the run's on, with the gaps between them."""
    run.wait_for(lambda: any(run.runs.glob(f"*/{from_file}")))
    due = time.monotonic()
    for each in kills:
        run.wait_for(partial(has_come, due))
        kill(run, each.process)
        due = time.monotonic() + each.gap * RESTORED_S


def has_come(due: float) -> bool:
    return time.monotonic() >= due


def all_is_there(folder: Path, kills: tuple[Kill, ...], from_file: str = IN_ROUNDS) -> None:
    with run_topo(
        folder, f"ROUNDS={ROUNDS_A_KILL * len(kills)}", tables=RECOVERY, arms=["neither", "both"],
        virtual_time=False,
    ) as run:  # fmt: skip
        kill_in_order(run, kills, from_file)
        code = run.wait()
    record = json.loads((run.folder / "run.json").read_text())
    accounting = record["accounting"]
    ends = kills[-1].kind is WORKER_KILLED
    assert (code, accounting is not None) == (int(ends), True), run.errors
    assert (accounting["lost"], accounting["mismatched_keys"]) == (0, 0), (accounting, run.errors)
    assert sum(accounting["restarts"].values()) >= len(kills) - ends
    assert accounting["sent"] > 50_000 and (ends or accounting["unknown"] == 0)
    assert not accounting["owed"] or set(accounting["owed"]) == {kills[-1].process}
    if accounting["owed"]:
        ran = CliRunner().invoke(hotline, ["owed", str(run.folder), "--bring-home", "--json"])
        assert ran.exit_code == 0, ran.output
        assert json.loads(ran.stdout)["keys_that_differ"] == 0


@pytest.mark.parametrize("kills", ONCE_FATAL, ids=lambda kills: " ".join(kill.process for kill in kills))
def test_kills_that_overlap_end_nothing(tmp_path: Path, kills: tuple[Kill, ...]) -> None:
    all_is_there(tmp_path, kills)


def test_a_switch_may_die_while_the_hot_set_is_loaded(tmp_path: Path) -> None:
    """Again and again: the profile's, the arms', and what a restore loads."""
    all_is_there(tmp_path, (S1, S1, S1), WHILE_LOADING)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200))
def test_any_sequence_of_kills(tmp_path: Path, seed: int) -> None:
    all_is_there(tmp_path, draw_kills(seed, WORKERS, SERVERS))
