"""A run over cables between the machines, without tunnels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from packages.machines.tests.namespaced import PLAINTEXT, Cable, cluster
from switch_harness.waiting import wait_for

pytestmark = [pytest.mark.netns, pytest.mark.soak]

CABLES = [Cable("beta", "eth1", "alpha", "eth1"), Cable("gamma", "eth1", "alpha", "eth2")]
TABLES = f"""{PLAINTEXT}
underlay = "direct"
pins = {{ w1 = "beta", p1 = "gamma" }}
cables = {{ w1 = ["eth1", "eth1"], p1 = ["eth1", "eth2"] }}"""


def test_a_run_over_cables_loses_nothing_and_leaves_the_cables_as_before(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    resources = {"alpha": "switch=1", "beta": "host=1", "gamma": "host=1"}
    with cluster(tmp_path, resources, [tmp_path / "runs"], cables=CABLES) as machines:
        before = {name: machine.interfaces() for name, machine in machines.machines.items()}
        with machines.run(tables=TABLES) as run:
            assert run.wait() == 0, run.output
        accounting = json.loads((run.folder / "run.json").read_text())["accounting"]
        assert accounting["sent"] == accounting["applied"] > 10_000
        assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
        wait_for(
            lambda: before == {name: machine.interfaces() for name, machine in machines.machines.items()}
        )
        wait_for(lambda: not any(machine.namespaces() for machine in machines.machines.values()))

        wrong = TABLES.replace('w1 = ["eth1", "eth1"]', 'w1 = ["eth7", "eth1"]')
        with machines.run(tables=wrong) as run:
            assert run.wait() == 1
        assert "beta: wiring.cables: expected one of the interfaces eth0, eth1, lo, got eth7" in run.output
        wait_for(lambda: not any(machine.namespaces() for machine in machines.machines.values()))
