"""`hotline up` on machines: scripts on each join and train, and `hotline down MACHINES=` ends all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from packages.machines.tests.namespaced import PLAINTEXT, NamespacedCluster, cluster
from switch_harness.waiting import wait_for

pytestmark = [pytest.mark.netns, pytest.mark.soak]

PATIENCE_S = 120.0
ROWS, DIM, STEPS = 400, 4, 60
TABLES = f'{PLAINTEXT}\npins = {{ w1 = "beta", w2 = "gamma", w3 = "beta", p1 = "gamma" }}'
SETTINGS: dict[str, object] = {"workers": 3, "servers": 1}
SCRIPT = f"""
import os
import signal
import sys
import numpy as np
import hotline

rank = None if len(sys.argv) < 3 else int(sys.argv[2])
with hotline.Worker({{"rows": ({ROWS}, {DIM})}}, scale=1.0, rank=rank) as kv:
    random = np.random.default_rng(kv.rank)
    sums = np.zeros(({ROWS}, {DIM}))
    out = np.zeros((50, {DIM}), np.float32)
    kv.init(np.full(({ROWS}, {DIM}), 5, np.float32))
    if kv.life == 0:
        kv.barrier()
    print("trains", flush=True)
    for _ in range({STEPS}):
        keys = random.choice({ROWS}, 50, replace=False)
        values = random.integers(-9, 10, (50, {DIM})).astype(np.float32)
        sums[keys] += values
        kv.wait(kv.push_pull(keys, values, out))
    if len(sys.argv) > 3:
        print("has trained", flush=True)
        if sys.stdin.read() == "die":
            os.kill(os.getpid(), signal.SIGKILL)
    kv.barrier()
    np.savez(f"{{sys.argv[1]}}/{{kv.rank}}.npz", sums=sums, found=kv.read())
    kv.barrier()
"""


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[NamespacedCluster]:
    (tmp_path / "runs").mkdir()
    resources = {"alpha": "switch=1", "beta": "host=2", "gamma": "host=2"}
    with cluster(tmp_path, resources, [tmp_path / "runs"]) as found:
        yield found


def hotline(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hotline.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def bring_up(machines: NamespacedCluster, **settings: object) -> dict[str, Any]:
    done = hotline("up", str(machines.config(tables=TABLES, **SETTINGS, **settings)), "--json")
    assert done.returncode == 0, done.stderr
    up: dict[str, Any] = json.loads(done.stdout)
    assert up["machines"] == {"beta": [0, 2], "gamma": [1]} and up["scheduler"] == machines.scheduler
    return up


def start(machines: NamespacedCluster, name: str, *arguments: str) -> subprocess.Popen[str]:
    """Start the script on a machine, as its user would."""
    script = machines.folder / "train.py"
    script.write_text(SCRIPT)
    command = machines.machines[name].command(sys.executable, str(script), str(machines.folder), *arguments)
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def output_of(scripts: Sequence[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    outputs = [each.communicate(timeout=PATIENCE_S) for each in scripts]
    return [(each.returncode, errors) for each, (_, errors) in zip(scripts, outputs, strict=True)]


def nothing_remains(machines: NamespacedCluster) -> bool:
    alive = [machine for machine in machines.machines.values() if machine.init.poll() is None]
    return machines.remains() == {} and not any("9590:" in machine.run("ip", "rule") for machine in alive)


def test_scripts_of_all_machines_train_one_model_until_down(
    machines: NamespacedCluster, tmp_path: Path
) -> None:
    up = bring_up(machines)
    folder = Path(up["folder"])
    for runs in ("runs", "other"):  # the files, and then the machines, are in use
        second = hotline("up", str(machines.config(tables=TABLES, **SETTINGS, runs=str(tmp_path / runs))))
        assert second.returncode == 1
        assert f"`./hotline down MACHINES={machines.scheduler}` ends it" in second.stderr
    for session in (1, 2):
        done = output_of([start(machines, name) for name in ("beta", "gamma", "beta")])
        assert done == [(0, "")] * 3, (folder / "up.log").read_text()
        found = [np.load(machines.folder / f"{rank}.npz") for rank in range(3)]
        for each in found:
            assert (each["found"] == 5 + sum(other["sums"] for other in found)).all()
        log = folder / ("updates.parquet" if session == 1 else "updates-1.parquet")
        wait_for(log.exists)
    # Each session has the updates of its own; an `init` is an update, too.
    sums = [pl.read_parquet(file)["updates"].sum() for file in folder.glob("updates*.parquet")]
    assert sums == [3 * 50 * STEPS + ROWS] * 2
    [(code, errors)] = output_of([start(machines, "gamma", "0")])
    assert code == 1 and "rank = 0: expected one of those of this machine, 1" in errors
    refused = subprocess.run(
        machines.machines["beta"].command(sys.executable, "-m", "hotline.cli", "down"),
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 1 and "run `./hotline down MACHINES=ADDRESS`" in refused.stderr
    down = hotline("down", f"CONFIG={machines.config(tables=TABLES, **SETTINGS)}")
    assert (down.returncode, down.stdout) == (0, "removed what `hotline up` had made\n"), down.stderr
    assert "shutting down" in (folder / "up.log").read_text()
    assert nothing_remains(machines)


def test_a_successor_joins_on_the_machine_of_a_killed_worker(machines: NamespacedCluster) -> None:
    up = bring_up(machines, after_death="wait")
    scripts = [
        start(machines, name, str(rank), "waits") for rank, name in enumerate(("beta", "gamma", "beta"))
    ]
    for script in scripts:
        assert script.stdout is not None
        assert [script.stdout.readline() for _ in range(2)] == ["trains\n", "has trained\n"]
    scripts[1].communicate("die")
    wait_for(lambda: "others wait for a worker with rank=1" in (Path(up["folder"]) / "up.log").read_text())
    scripts[1] = start(machines, "gamma", "1", "waits")
    for script in scripts:
        assert script.stdin is not None
        script.stdin.close()
        script.stdin = None  # which `communicate` would flush
    assert [code for code, _ in output_of(scripts)] == [0] * 3
    found = [np.load(machines.folder / f"{rank}.npz") for rank in range(3)]
    # The killed worker had pushed what its successor pushes.
    expected = 5 + sum(times * each["sums"] for times, each in zip((1, 2, 1), found, strict=True))
    for each in found:
        assert (each["found"] == expected).all()
    assert hotline("down", f"CONFIG={machines.config(tables=TABLES, **SETTINGS)}").returncode == 0
    assert nothing_remains(machines)


@pytest.mark.parametrize("what", ["the runner", "a machine with workers", "the switch's machine"])
def test_scripts_end_when_a_machine_or_the_runner_dies_and_nothing_is_left(
    machines: NamespacedCluster, what: str
) -> None:
    up = bring_up(machines)
    script = start(machines, "beta", "0", "waits")
    others = [start(machines, "gamma", "1", "waits"), start(machines, "beta", "2", "waits")]
    assert script.stdout is not None and script.stdout.readline() == "trains\n"
    log = Path(up["folder"]) / "up.log"
    if what == "the runner":
        os.kill(pid_of_up(), signal.SIGKILL)
    else:
        machines.machines["gamma" if what == "a machine with workers" else "alpha"].kill()
    done = output_of([script, *others])
    assert done[0][0] != 0 and done[2][0] != 0
    assert "hotline_scripts.kv.connection.ClusterLost" in done[0][1]
    if what != "the runner":
        wait_for(lambda: "shutting down" in log.read_text())
    wait_for(lambda: nothing_remains(machines))


def pid_of_up() -> int:
    found = subprocess.run(["pgrep", "-f", "hotline_scripts.up"], capture_output=True, text=True)
    return int(found.stdout.split()[0])
