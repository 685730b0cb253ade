"""Sequences of real kills, also while what was killed before comes back: a run goes on, and nothing is lost.

`hotline_simulator.faults` plays the same sequences in virtual time. In the slow tier several share a run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from experiment.faults import SERVER_KILLED, SWITCH_KILLED, WORKER_KILLED
from foundation.protocol.addressing import SWITCH_NAME
from hotline_simulator.faults.draw import Kill, draw_kills
from tests.harness.cli import invoke
from tests.harness.warm_processes import warm_process
from tests.mininet.run_topo import FEWER_KEYS, Run, check_staleness, command_line, record_of, run_topo
from topologies.lock_record import is_alive

pytestmark = pytest.mark.mininet
RECOVERY = '[recovery]\njournal_sync = "checkpoint"\nreplay_log = true\n'
WORKERS, SERVERS = int(str(FEWER_KEYS["workers"])), 2
PARAMETER_SERVERS = [
    f"{SERVER_KILLED.process}{number}"
    for number in range(SERVER_KILLED.first_number, SERVER_KILLED.first_number + SERVERS)
]
RESTORED_S = 3.0
"""Time within which a switch is restored here."""
IN_ROUNDS, WHILE_LOADING = "parts/operations-worker-1-12.parquet", "hotset.parquet"
"""Files that exist once a run is in its first rounds, and once it has chosen its hot set."""
ROUNDS_A_KILL = 4
"""Rounds per kill, so that a run continues after its last kill."""
S1, PS_0, PS_1 = Kill(SWITCH_KILLED, 0, 0.5), Kill(SERVER_KILLED, 0, 0.5), Kill(SERVER_KILLED, 1, 0.5)
WORKER_1 = Kill(WORKER_KILLED, 0, 0.0)
REGRESSIONS = (
    (PS_0, S1, PS_1),
    (PS_0, S1, PS_0),
    (PS_0, S1, PS_0, S1),
    (S1, PS_0, S1),
    (PS_0, S1, PS_1, WORKER_1),
)
"""Sequences that ended runs, or lost a worker's file, in earlier versions. Each process is killed while the
previous one restarts."""


def process_of(run: Run, name: str) -> int | None:
    if name == SWITCH_NAME:
        return next(iter(run.agents("softswitch")), None)
    agents = run.agents("hotline_agents.worker" if name.startswith("worker") else "hotline_agents.ps")
    return next((pid for pid in agents if command_line(pid).endswith(f"/{name}.json\0")), None)


def kill(run: Run, name: str) -> None:
    """Kill a process as soon as it exists, and wait for its end, so that no later kill meets it again."""
    run.wait_for(lambda: process_of(run, name) is not None)
    if (pid := process_of(run, name)) is not None:
        os.kill(pid, signal.SIGKILL)
        run.wait_for(lambda: not is_alive(pid))


def blocks_done(run: Run) -> int:
    return len(list(run.runs.glob(f"*/parts/operations-worker-{WORKERS}-*.parquet")))


def play(run: Run, kills: Sequence[Kill]) -> None:
    due = time.monotonic()
    for each in kills:
        run.wait_for(partial(has_come, due))
        kill(run, each.process)
        due = time.monotonic() + each.gap * RESTORED_S


def has_come(due: float) -> bool:
    return time.monotonic() >= due


def wait_until_all_serve(run: Run) -> None:
    """Wait for later blocks than those that the kill may have ended."""
    run.wait_for(lambda: all(process_of(run, name) is not None for name in (SWITCH_NAME, *PARAMETER_SERVERS)))
    wanted = blocks_done(run) + 3
    run.wait_for(lambda: blocks_done(run) >= wanted)


def check_sums_after(
    folder: Path,
    *sequences: Sequence[Kill],
    from_file: str = IN_ROUNDS,
    arms: Sequence[str] = ("baseline", "offload-proxy"),
    variables: Sequence[str] = (),
) -> dict[str, Any]:
    """Play sequences of kills in one run, each when what was killed before is back; check the sums.

    If updates were left for `hotline recover`, it has added them then. Returns the run's record.
    """
    number = sum(map(len, sequences))
    with run_topo(
        folder, f"ROUNDS={ROUNDS_A_KILL * number}", *variables, tables=RECOVERY, arms=list(arms),
        small=FEWER_KEYS, simulate_dedicated_switch=False,
    ) as run:  # fmt: skip
        run.wait_for(lambda: any(run.runs.glob(f"*/{from_file}")))
        for earlier, kills in enumerate(sequences):
            if earlier:
                wait_until_all_serve(run)
            play(run, kills)
        code = run.wait()
    record = record_of(run.folder)
    accounting = record["accounting"]
    last = sequences[-1][-1]
    ends = last.kind is WORKER_KILLED
    assert (code, accounting is not None) == (int(ends), True), run.errors
    assert (accounting["lost"], accounting["mismatched_keys"]) == (0, 0), (accounting, run.errors)
    assert sum(accounting["restarts"].values()) >= number - ends
    assert accounting["sent"] > 50_000 and (ends or accounting["unknown"] == 0)
    assert not accounting["unreplayed"] or set(accounting["unreplayed"]) == {last.process}
    if accounting["unreplayed"]:
        ran = invoke("recover", run.folder, "--apply", "--json")
        assert ran.exit_code == 0, ran.output
        assert json.loads(ran.stdout)["keys_that_differ"] == 0
    return record


def shared_runs(seeds: Iterable[int], maximum: int) -> list[list[int]]:
    """Group sequences into runs; the death of a worker ends one."""
    runs: list[list[int]] = [[]]
    for seed in seeds:
        runs[-1].append(seed)
        if len(runs[-1]) == maximum or draw(seed)[-1].kind is WORKER_KILLED:
            runs.append([])
    return [run for run in runs if run]


def draw(seed: int) -> tuple[Kill, ...]:
    return draw_kills(seed, WORKERS, SERVERS)


def test_kills_that_overlap_end_nothing(tmp_path: Path) -> None:
    check_sums_after(tmp_path, REGRESSIONS[0])


def test_servers_that_collect_lose_nothing_before_and_by_an_offline_recovery(tmp_path: Path) -> None:
    """At last a switch and a worker die together, so nothing of the switch is applied before `recover`."""
    together, arms = (Kill(SWITCH_KILLED, 0, 0.0), WORKER_1), ["collect-baseline", "collect"]
    record = check_sums_after(tmp_path, (PS_0, S1), together, arms=arms, variables=["OPTIMISER=adagrad"])
    assert list(record["accounting"]["unreplayed"]) == [WORKER_1.process]
    check_staleness(record["staleness"]["collect"])


@pytest.mark.parametrize("ended_by", ["cleanup", pytest.param("Ctrl-C", marks=pytest.mark.soak)])
def test_a_runner_that_ends_early_leaves_the_files_for_an_offline_recovery(
    tmp_path: Path, ended_by: str
) -> None:
    """Its servers' files have what they had acknowledged, and workers' files what the switch had."""
    arms = ["baseline", "offload", "offload-proxy"]
    with run_topo(tmp_path, f"ROUNDS={ROUNDS_A_KILL}", tables=RECOVERY, arms=arms, small=FEWER_KEYS) as run:
        run.wait_for(lambda: any(run.runs.glob(f"*/{IN_ROUNDS}")))
        if ended_by == "cleanup":
            os.kill(run.process.pid, signal.SIGKILL)
            run.wait()
            cleanup = warm_process("topologies.cleanup", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            _, told = cleanup.communicate()
            assert cleanup.returncode == 0, told
        else:
            os.killpg(run.process.pid, signal.SIGINT)
            assert run.wait() == 130
            told = run.errors
    assert f"`./hotline recover {run.folder} --apply`" in told
    rows = json.loads(invoke("recover", run.folder, "--json").stdout)["unreplayed"]
    assert sum(row["keys"] for row in rows) > 1_000
    ran = invoke("recover", run.folder, "--apply", "--json")
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["keys_that_differ"] == 0
    assert json.loads(invoke("recover", run.folder, "--json").stdout) == {"unreplayed": []}


@pytest.mark.soak
def test_regressions_end_no_run(tmp_path: Path) -> None:
    check_sums_after(tmp_path, *REGRESSIONS)


@pytest.mark.soak
def test_a_switch_may_die_while_the_hot_set_is_loaded(tmp_path: Path) -> None:
    """Kill it during the profile's load, the arms' loads and the load of a restore."""
    check_sums_after(tmp_path, (S1, S1, S1), from_file=WHILE_LOADING)


@pytest.mark.soak
@pytest.mark.parametrize(
    "seeds", shared_runs(range(200), maximum=6), ids=lambda seeds: " ".join(map(str, seeds))
)
def test_random_sequences_of_kills_lose_no_update(tmp_path: Path, seeds: list[int]) -> None:
    check_sums_after(tmp_path, *map(draw, seeds))
