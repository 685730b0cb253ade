"""CPU of the switch: with one assigned, the program in the kernel and the sockets' process run there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from foundation.protocol.addressing import server_port, worker_port
from switch_harness.wording import says
from tests.mininet.run_topo import record_of, run_topo

pytestmark = pytest.mark.mininet
CPUS = sorted(os.sched_getaffinity(0))[:2]


@pytest.fixture(autouse=True)
def two_cpus_and_a_program_in_the_kernel(kernel_datapath: None) -> None:
    if len(CPUS) < 2:
        pytest.skip("on one CPU there is no other place")


@pytest.mark.soak
@pytest.mark.parametrize("datapath", ["kernel", "sockets"])
def test_the_switch_of_a_run_computes_on_its_assigned_cpu(tmp_path: Path, datapath: str) -> None:
    """Switch on one CPU, both kinds of agents on the other."""
    switch, agents = CPUS
    placement = f"[placement]\nswitch = {switch}\nworkers = {agents}\nservers = {agents}"
    with run_topo(
        tmp_path, tables=placement, datapath=datapath, servers=1, rounds=1, arms=["baseline", "offload"],
        simulate_dedicated_switch=False,
    ) as run:  # fmt: skip
        run.wait_for_parts("operations-worker-*")
        (process,) = run.agents("softswitch")
        threads = [int(task.name) for task in Path(f"/proc/{process}/task").iterdir()]
        assert [os.sched_getaffinity(thread) for thread in threads] == [{switch}] * len(threads)
        assert run.wait() == 0, run.errors
    record = record_of(run.folder)
    assert record["datapath"] == datapath
    assert record["placement"]["switch"] == switch
    ports = {number: record["switch"]["ports"][str(number)] for number in (1, 2, 3)}
    assert [worker_port(1), worker_port(2), server_port(2, 1)] == list(ports)
    uses = [block["program_s"] for block in record["blocks"]]
    if datapath == "sockets":
        assert uses == [None] * len(uses)
        return
    for port in ports.values():
        other_options = [frames for cpu, frames in enumerate(port["program_runs"]) if cpu != switch]
        assert not any(other_options) and port["program_runs"][switch] > 100
    for use in uses:
        assert use["apart"] > 0
        assert [use[name] for name in use if name != "apart"] == [0, 0, 0, 0]
    assert says(" ".join(run.output.split()), "agent", "core")
