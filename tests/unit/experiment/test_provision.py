"""The rows that a run gives the switch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.sizes import CALLERS
from controller.tables import JobRow, ServerRow, WorkerRow
from experiment.design_parts import initial_rows
from experiment.run_config import MAX_SERVERS, MAX_WORKERS, Config
from foundation.protocol import addressing
from tests.harness.arms import JOBS


@given(st.integers(1, MAX_WORKERS), st.integers(1, MAX_SERVERS))
def test_every_caller_has_its_own_cells(workers: int, servers: int) -> None:
    callers = [
        row for row in initial_rows(Config(workers=workers, servers=servers)) if isinstance(row, WorkerRow)
    ]
    assert len(callers) == len(JOBS) * (workers + servers)
    assert len({caller.caller for caller in callers}) == len(callers)
    # One number is left for the controller's own calls.
    assert max(caller.caller for caller in callers) < CALLERS - 1
    assert len({caller.identity for caller in callers}) == len(callers)


def test_arms_differ_in_offload_and_proxy_only() -> None:
    jobs = {row.job: (row.offload, row.proxy) for row in initial_rows(Config()) if isinstance(row, JobRow)}
    assert {arm: jobs[job] for arm, job in JOBS.items()} == {
        "profile": (True, False),
        "baseline": (False, False),
        "repeat": (False, False),
        "proxy": (False, True),
        "offload": (True, False),
        "offload-proxy": (True, True),
    }


def test_only_servers_are_privileged() -> None:
    callers = [
        row
        for row in initial_rows(Config(workers=2, servers=1))
        if isinstance(row, WorkerRow) and row.job == 1
    ]
    assert [(row.worker, row.addr, row.port, row.kind) for row in callers] == [
        (1, "10.0.1.1", 1, 0),
        (2, "10.0.1.2", 2, 0),
        (0x8000, "10.0.2.1", 3, 1),
    ]


def test_servers_are_reached_at_the_ports_behind_the_workers() -> None:
    servers = [
        row
        for row in initial_rows(Config(workers=3, servers=2))
        if isinstance(row, ServerRow) and row.job == 2
    ]
    assert [(row.ps, row.addr, row.port, row.service_addr) for row in servers] == [
        (0, "10.0.2.1", 4, "10.0.3.1"),
        (1, "10.0.2.2", 5, "10.0.3.2"),
    ]
    assert addressing.switch_interfaces(3, 2) == [f"s1-eth{port}" for port in range(1, 6)]
