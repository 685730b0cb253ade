"""The supervisor's process: what ends it, and what does not interrupt it."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import PIPE

import pytest

from experiment.run_config import Config
from hotline_machines.supervisor.server import SupervisorSpec
from tests.harness.warm_processes import warm_process

pytestmark = pytest.mark.netns


@pytest.mark.parametrize("ended_by", [None, "./hotline down MACHINES=tcp://127.0.0.1:1"])
def test_a_terminated_supervisor_removes_all_interfaces_before_and_after_serving(
    ended_by: str | None, tmp_path: Path
) -> None:
    spec = SupervisorSpec(
        config=Config(workers=1, servers=1), scheduler="tcp://127.0.0.1:1", run=tmp_path, generation=0,
        token="t", host="127.0.0.1", ended_by=ended_by,
    )  # fmt: skip
    process = warm_process(
        "packages.machines.tests.terminated_supervisor", stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{spec.model_dump_json()}\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["port"] > 0
    output, errors = process.communicate()  # its input ends, as with dask's worker
    interfaces = ["s1-eth1", "s1-eth2", *([] if ended_by is None else ["w1-eth0"])]
    assert (process.returncode, output) == (0, f"removed {' '.join(interfaces)}\n"), errors
