"""What dies in the middle of a run on three machines: the run ends in order, and nothing is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hotline_machines.channel import SILENCE_S
from packages.machines.tests.namespaced import PLAINTEXT, MachinesRun, NamespacedCluster, cluster
from switch_harness.waiting import wait_for

pytestmark = [pytest.mark.netns, pytest.mark.soak]

PINNED = f'{PLAINTEXT}\npins = {{ w1 = "beta", w2 = "gamma", p1 = "beta", p2 = "gamma" }}'
CUT_OFF_S = 10.0


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[NamespacedCluster]:
    """Yield a machine with the switch and two with hosts, none of which sees the runs' folder."""
    (tmp_path / "runs").mkdir()
    resources = {"alpha": "switch=1", "beta": "host=2", "gamma": "host=2"}
    with cluster(tmp_path, resources, [tmp_path / "runs"]) as found:
        yield found


def kill_machine(machines: NamespacedCluster, run: MachinesRun) -> None:
    machines.machines["beta"].kill()


def kill_machine_of_switch(machines: NamespacedCluster, run: MachinesRun) -> None:
    machines.machines["alpha"].kill()


def cut_machine_off(machines: NamespacedCluster, run: MachinesRun) -> None:
    machines.machines["beta"].cut_off()


def kill_scheduler(machines: NamespacedCluster, run: MachinesRun) -> None:
    machines.scheduler_process.kill()


def kill_supervisor(machines: NamespacedCluster, run: MachinesRun) -> None:
    machines.machines["beta"].run("pkill", "-KILL", "-f", "hotline_machines.supervisor")


def kill_worker_of_dask(machines: NamespacedCluster, run: MachinesRun) -> None:
    machines.machines["beta"].run("pkill", "-KILL", "-f", "multiprocessing.spawn")


def interrupt(machines: NamespacedCluster, run: MachinesRun) -> None:
    run.process.send_signal(signal.SIGINT)


def kill_runner(machines: NamespacedCluster, run: MachinesRun) -> None:
    run.process.kill()


Fault = Callable[[NamespacedCluster, MachinesRun], None]
DEATHS: dict[str, tuple[Fault, int, float, str]] = {
    # What is done, the exit code, the time until then in s, and what is said.
    "a machine with agents": (kill_machine, 1, SILENCE_S + 15, "machine beta is lost"),
    "the switch's machine": (kill_machine_of_switch, 1, SILENCE_S + 15, "machine alpha is lost"),
    "a machine that is cut off": (cut_machine_off, 1, SILENCE_S + 15, "machine beta is lost"),
    "the scheduler": (kill_scheduler, 1, 20.0, "the scheduler at tcp://"),
    "a supervisor": (kill_supervisor, 1, 20.0, "machine beta is lost"),
    "dask's worker": (kill_worker_of_dask, 1, 20.0, "machine beta is lost"),
    "Ctrl-C": (interrupt, 130, 3.0, "interrupted"),
    "the runner": (kill_runner, -signal.SIGKILL, 1.0, ""),
}


@pytest.mark.parametrize("name", DEATHS)
def test_the_run_ends_in_order_and_nothing_is_left(machines: NamespacedCluster, name: str) -> None:
    fault, code, within_s, message = DEATHS[name]
    with machines.run(workers=2, servers=2, rounds=1_000, budget_s=600, tables=PINNED) as run:
        run.wait_for_phase("calibrate")
        fault(machines, run)
        begin_s = time.monotonic()
        assert run.wait() == code, run.output
        elapsed_s = time.monotonic() - begin_s
    print(name, f"{elapsed_s:.1f} s", run.output[-1500:])
    assert message in run.output and "Traceback" not in run.output
    assert elapsed_s < within_s
    if code == 1:
        assert json.loads((run.folder / "run.json").read_text())["error"]
    if name == "a machine that is cut off":
        # Its agents have ended by themselves, before it is back.
        beta = machines.machines["beta"]
        wait_for(lambda: not any(each.startswith("h") for each in beta.processes()))
        beta.connect()
    if name != "a supervisor":  # whose interfaces the next run removes
        wait_for(lambda: machines.remains() == {})
    else:
        wait_for(lambda: not any(each.startswith("h") for each in machines.machines["beta"].processes()))
        assert machines.remains() == {"beta": {"hotline-p1", "hotline-w1"}}
        with machines.run(workers=2, servers=2, tables=PINNED) as run:
            assert run.wait() == 0, run.output
        wait_for(lambda: machines.remains() == {})


def test_a_durable_server_goes_on_on_another_machine_that_sees_its_files(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    resources = {"alpha": "switch=1", "beta": "host=1", "gamma": "host=2"}
    tables = f'{PLAINTEXT}\npins = {{ p1 = "beta", w1 = "gamma" }}\n[recovery]\njournal_sync = "never"'
    with cluster(tmp_path, resources) as machines:
        with machines.run(rounds=30, budget_s=600, tables=tables) as run:
            run.wait_for_phase("calibrate")
            kill_machine(machines, run)
            assert run.wait() == 0, run.output
        record = json.loads((run.folder / "run.json").read_text())
        accounting = record["accounting"]
        assert (accounting["lost"], accounting["mismatched_keys"]) == (0, 0)
        assert accounting["restarts"] == {"ps-0": 1}
        assert record["machines"]["gamma"]["hosts"] == ["p1", "w1"]
        assert record["machines"]["beta"]["hosts"] == [] and record["machines"]["beta"]["lost"]
        wait_for(lambda: machines.remains() == {})


def test_without_shared_files_a_durable_server_ends_with_its_machine(machines: NamespacedCluster) -> None:
    tables = f'{PLAINTEXT}\npins = {{ p1 = "beta", w1 = "gamma" }}\n[recovery]\njournal_sync = "never"'
    with machines.run(rounds=1_000, budget_s=600, tables=tables) as run:
        run.wait_for_phase("calibrate")
        kill_machine(machines, run)
        assert run.wait() == 1
    assert "with the files of p1: on another machine it could go on if the run's folder" in run.output
    wait_for(lambda: machines.remains() == {})


def test_down_removes_the_namespaces_that_a_killed_supervisor_has_left(machines: NamespacedCluster) -> None:
    with machines.run(rounds=1_000, budget_s=600, workers=2, servers=2, tables=PINNED) as run:
        run.wait_for_phase("calibrate")
        kill_supervisor(machines, run)
        assert run.wait() == 1
    config = machines.config(workers=2, servers=2, tables=PINNED)
    done = subprocess.run(
        [sys.executable, "-m", "hotline.cli", "down", f"CONFIG={config}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "hotline-p1 on beta, hotline-w1 on beta" in done.stdout
    assert machines.remains() == {}
