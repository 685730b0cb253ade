"""The simulator's costs of hosts are those that fit the bench's published numbers."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest

from foundation.protocol.header import LANES
from hotline_agents.udp import BURST
from hotline_simulator import measured_costs
from hotline_simulator.costs import HostCosts
from switch_harness.wording import mentions
from tools import host_costs
from tools.evidence.result import (
    Cell,
    EvidenceError,
    Result,
    Table,
    make_table,
    published_table,
    read_result,
    result_path,
)
from tools.host_costs import MeasuredCosts, as_module, fit

HANDLE = "parameter server (PS), RPC function alone: 32-lane {}, 900,000 dense keys, µs"
RATE = "PS over veth: 32-lane {}, RPCs/s"
PACK = "worker: hash, pack and encode a {} of 3,000 keys, µs"
WORKER = "worker over veth, 3,000 keys a step: CPU time an RPC, µs"


def bench(changes: Mapping[str, Cell] | None = None) -> Table:
    """Return a table of the bench in which pulls and pushes differ."""
    numbers: dict[str, Cell] = {
        HANDLE.format("pull"): 0.25, HANDLE.format("push"): 0.35, RATE.format("pull"): 400_000.0,
        RATE.format("push"): 250_000.0, PACK.format("pull"): 20.0, PACK.format("push"): 40.0, WORKER: 5.0,
    }  # fmt: skip
    cells = {**numbers, **(changes or {})}
    rows: dict[tuple[str, ...], list[Cell]] = {(name,): [cell] for name, cell in cells.items()}
    return make_table("speed", "median", ("what",), {"sockets, or agent": "{:.2f}"}, rows)


def test_the_committed_costs_are_fitted_to_the_published_bench() -> None:
    """`make costs` renews them; the constants, their date and their machine are those of the result."""
    result = read_result(result_path("performance"))
    assert host_costs.FILE.read_text() == as_module(fit(result.table, HostCosts()), result)
    hosts = HostCosts()
    for name in MeasuredCosts._fields:
        assert getattr(hosts, name) == getattr(measured_costs, name.upper())
    assert str(result.origin.date) in (measured_costs.__doc__ or "")


def test_costs_add_up_to_the_published_measurements() -> None:
    table = published_table("performance")
    numbers = {row.name: row.cells[0] for row in table.rows}
    hosts = HostCosts()
    burst_ns = hosts.take_ns / BURST
    server_ns = hosts.serve_ns + LANES * hosts.lane_ns + hosts.send_ns + burst_ns
    rates = [numbers[RATE.format(op)] for op in ("pull", "push")]
    assert all(isinstance(rate, float) and server_ns == pytest.approx(1e9 / rate, rel=0.01) for rate in rates)
    rpcs = 3_000 / LANES
    worker_ns = hosts.begin_ns / rpcs + hosts.encode_ns + hosts.send_ns + hosts.receive_ns + burst_ns
    assert worker_ns == pytest.approx(1e3 * float(str(numbers[WORKER])), rel=0.01)


def test_each_cost_is_the_rest_of_a_measured_number() -> None:
    assumed = HostCosts(take_ns=6_400, lane_ns=5, receive_ns=700)
    # A server takes 2,500 ns of a pull and 4,000 of a push: 300 for the function, 100 for a part of a burst.
    costs = fit(bench(), assumed)
    assert (costs.send_ns, costs.serve_ns, costs.begin_ns) == (2_850, 140, 30_000)
    # A worker takes 5,000 ns, 320 of them for packing.
    assert costs.encode_ns == 5_000 - 320 - 2_850 - 700 - 100


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({WORKER: None}, (WORKER, "None")),
        ({WORKER: 0.0}, (WORKER, "0.0")),
        ({WORKER: 3.0}, ("encode_ns",)),
        ({HANDLE.format("push"): 9.0}, ("send_ns",)),
    ],
)
def test_a_bench_that_no_costs_fit_is_refused(changes: Mapping[str, Cell], words: tuple[str, ...]) -> None:
    with pytest.raises(EvidenceError, match=mentions(*words)):
        fit(bench(changes), HostCosts())


def test_a_missing_row_of_the_bench_is_named() -> None:
    without = make_table("speed", "median", ("what",), {"sockets, or agent": "{:.2f}"}, {("x",): [1.0]})
    with pytest.raises(EvidenceError, match=mentions("RPC function alone")):
        fit(without, HostCosts())


def test_the_module_has_the_costs_and_their_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = read_result(result_path("performance"))
    origin = published.origin.model_copy(update={"date": date(2031, 2, 3), "commit": "abcdef12"})
    result = Result(stage="bench", table=bench(), origin=origin)
    monkeypatch.setattr(host_costs, "FILE", tmp_path / "costs.py")
    host_costs.renew(result)
    module = runpy.run_path(str(tmp_path / "costs.py"))
    expected = fit(bench(), HostCosts())
    assert {name: module[name.upper()] for name in MeasuredCosts._fields} == expected._asdict()
    for word in ("2031-02-03", "abcdef12", origin.machine.cpu, origin.machine.kernel):
        assert word in module["__doc__"]
