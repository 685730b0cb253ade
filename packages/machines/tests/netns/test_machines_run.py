"""A run on two machines, whose kernel alone is one, and what it refuses before it begins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiment.run_config import load_config
from foundation.errors import HotlineError
from foundation.logs.check import check
from foundation.logs.columns import LOGS
from hotline_machines.survey import software_versions
from hotline_machines.testbed import MachinesTestbed
from packages.machines.tests.namespaced import (
    PLAINTEXT,
    ROOT,
    NamespacedCluster,
    cluster,
    make_certificates,
)
from switch_harness.waiting import wait_for
from tests.mininet.test_script import SMALL as SMALL_SCRIPT
from tests.mininet.test_script import script

pytestmark = pytest.mark.netns

SECONDS = 1_000_000_000


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamespacedCluster]:
    """Yield two machines that do not see the runs' folder, with TLS between all of dask's processes."""
    import dask.config  # takes 0.2 s, in each process that collects tests

    folder = tmp_path_factory.mktemp("machines")
    (folder / "runs").mkdir()
    resources, certificates = {"alpha": "switch=1 host=1", "beta": "host=1"}, make_certificates(folder)
    with (
        cluster(folder, resources, [folder / "runs"], tls=certificates) as found,
        dask.config.set(certificates),
    ):
        yield found


REFUSALS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no scheduler": (
        {"machines": "tcp://127.0.0.1:9"},
        PLAINTEXT,
        "MACHINES=tcp://127.0.0.1:9: expected a dask scheduler, none answers",
    ),
    "no TLS": ({"machines": "tcp://192.0.2.254:1"}, "", "expected tls://HOST:PORT beyond this machine"),
    "too little room": (
        {"workers": 4},
        "",
        "resource host: expected room for 5 agents (4 workers and 1 server), got 2 (alpha 1, beta 1)",
    ),
    "an unknown machine": (
        {},
        '[wiring]\npins = { w1 = "gamma" }',
        "wiring.pins: w1: expected one of the machines alpha, beta, got gamma",
    ),
    "a machine without the switch's resource": (
        {},
        '[wiring]\npins = { switch = "beta" }',
        "wiring.pins: switch: expected a machine with the resource switch (alpha), got beta",
    ),
    "two hosts where one has room": (
        {},
        '[wiring]\npins = { w1 = "beta", p1 = "beta" }',
        "wiring.pins: expected at most 1 hosts on beta, its resource host, got 2",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_an_impossible_run_is_refused_before_anything_begins(
    machines: NamespacedCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hotline_machines.cluster._CONNECT_TIMEOUT_S", 0.5)
    settings, tables, message = REFUSALS[name]
    config = load_config([f"CONFIG={machines.config(tables=tables, **settings)}"])
    with pytest.raises(HotlineError) as refused:
        MachinesTestbed().check(config)
    assert message in str(refused.value) and "\n" not in str(refused.value)
    assert machines.remains() == {}


def test_a_machine_with_other_sources_is_named(machines: NamespacedCluster, tmp_path: Path) -> None:
    changed, source = tmp_path / "changed.py", ROOT / "src" / "foundation" / "errors.py"
    changed.write_text(f"{source.read_text()}# changed\n")
    beta = machines.machines["beta"]
    beta.run("mount", "--bind", str(changed), str(source))
    config = load_config([f"CONFIG={machines.config(tables='')}"])
    try:
        with pytest.raises(HotlineError) as refused:
            MachinesTestbed().check(config)
    finally:
        beta.run("umount", str(source))
    own = re.escape(software_versions()["hotline"])
    assert re.fullmatch(
        rf"hotline: expected {own} on all machines, as on this machine, found \S+ \([0-9a-f]{{12}}\) on beta",
        str(refused.value),
    )


def test_a_run_on_two_machines_loses_nothing_and_leaves_nothing(machines: NamespacedCluster) -> None:
    assert machines.scheduler.startswith("tls://")
    with machines.run(tables="") as run:
        assert run.wait() == 0, run.output
    record = json.loads((run.folder / "run.json").read_text())
    accounting = record["accounting"]
    assert accounting["sent"] == accounting["applied"] > 10_000
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert set(check(run.folder)) == {f"{log}.parquet" for log in LOGS}
    found = record["machines"]
    assert {name: (each["switch"], each["hosts"]) for name, each in found.items()} == {
        "alpha": (True, ["p1"]), "beta": (False, ["w1"]),
    }  # fmt: skip
    # The machines' clocks are 1,000 s and 2,000 s ahead.
    for number, name in enumerate(("alpha", "beta"), start=1):
        ahead_ns = 1e3 * found[name]["clock_ahead_us"]
        assert abs(ahead_ns - 1_000 * number * SECONDS) <= 1e3 * found[name]["clock_error_us"]
    assert all(block["max_lateness_ns"] < SECONDS for block in record["blocks"])
    assert set(record["links"]) == {"beta"} and record["links"]["beta"]["bandwidth_mbit_s"] > 10
    assert all(set(block["machines"]) == {"alpha", "beta"} for block in record["blocks"])
    assert record["switch"]["ports"]["1"]["rx"] > 1_000
    wait_for(lambda: machines.remains() == {})


SCRIPTED: dict[str, object] = {**SMALL_SCRIPT, "workers": 1, "loads": None, "empty_rpcs": None}


def test_a_script_trains_on_its_machine(machines: NamespacedCluster, tmp_path: Path) -> None:
    with machines.warm_run(tables="", script=script(tmp_path), **SCRIPTED) as run:
        assert run.wait() == 0, run.output
    record = json.loads((run.folder / "run.json").read_text())
    accounting = record["accounting"]
    assert accounting["sent"] == accounting["applied"] > 10_000
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert record["machines"]["beta"]["hosts"] == ["w1"]
    assert set(check(run.folder)) == {f"{log}.parquet" for log in LOGS}
    # Blocks begin at one time of the run, by a clock that is 2,000 s ahead.
    assert all(block["steps"] for block in record["blocks"])
    reports = [json.loads(line) for line in (run.folder / "reports.jsonl").read_text().splitlines()]
    assert {report["arm"] for report in reports} >= {"baseline", "offload"}
    wait_for(lambda: machines.remains() == {})


FILES = {"train.py": "import helper\nfrom parts import one", "helper.py": "x = 1", "parts/one.py": "y = 1"}
DIFFERENCES: dict[str, tuple[str, str, str]] = {
    # What is mounted over what on beta, and the message after the script's name.
    "another script": ("other.py", "train.py", "expected file train.py as on this machine ("),
    "another module": ("other.py", "helper.py", "expected file helper.py as on this machine ("),
    "another module of a package": ("other.py", "parts/one.py", "expected file parts/one.py as on this"),
    "no script": ("empty", ".", "expected file train.py as on this machine ("),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_machine_with_another_script_is_named(
    machines: NamespacedCluster, name: str, tmp_path: Path
) -> None:
    for file, text in {**{f"scripts/{each}": text for each, text in FILES.items()}, "other.py": "z"}.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    (tmp_path / "empty").mkdir()
    train = tmp_path / "scripts" / "train.py"
    config = load_config([f"CONFIG={machines.config(tables='', script=str(train), **SCRIPTED)}"])
    MachinesTestbed().check(config)
    source, target, message = DIFFERENCES[name]
    beta = machines.machines["beta"]
    beta.run("mount", "--bind", str(tmp_path / source), str(train.parent / target))
    try:
        with pytest.raises(HotlineError) as refused:
            MachinesTestbed().check(config)
    finally:
        beta.run("umount", str(train.parent / target))
    assert str(refused.value).startswith(f"beta: SCRIPT={train}: {message}")
    assert "\n" not in str(refused.value)
