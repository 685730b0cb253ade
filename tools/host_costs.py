"""`make costs`: fit the simulator's costs of hosts to what the bench has measured.

A server answers and a worker issues full RPCs of 3,000 keys a step as fast as they can, in bursts of up to
64, so that bursts and sleeps hardly count. What the bench does not see stays as in
`hotline_simulator.costs`.
"""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

from foundation.checkout import ROOT
from foundation.logs.parts import write_text
from foundation.protocol.header import LANES
from hotline_agents.udp import BURST
from hotline_simulator.costs import HostCosts
from tools.evidence.result import EvidenceError, Result, Table, read_result, result_path

RESULT = "performance"
FILE = ROOT / "packages" / "simulator" / "src" / "hotline_simulator" / "measured_costs.py"
_AGENT = "sockets, or agent"
"""Column of the bench's table."""
_KEYS = 3_000
"""Keys of an operation of the bench's worker."""
_OPS = ("pull", "push")


class MeasuredCosts(NamedTuple):
    """Fields of `hotline_simulator.costs.HostCosts` that the bench determines, ns."""

    encode_ns: int
    send_ns: int
    begin_ns: int
    serve_ns: int


def fit(table: Table, assumed: HostCosts) -> MeasuredCosts:
    """Return the costs with which an RPC takes as long as measured; `assumed` has those of other fields."""
    handle_ns, server_ns = (
        fmean(map(ns, _OPS))
        for ns in (
            lambda op: 1e3 * _number(
                table, f"parameter server (PS), RPC function alone: {LANES}-lane {op}, 900,000 dense keys, µs"
            ),
            lambda op: 1e9 / _number(table, f"PS over veth: {LANES}-lane {op}, RPCs/s"),
        )
    )  # fmt: skip
    begin_ns = fmean(
        1e3 * _number(table, f"worker: hash, pack and encode a {op} of 3,000 keys, µs") for op in _OPS
    )
    worker_ns = 1e3 * _number(table, "worker over veth, 3,000 keys a step: CPU time an RPC, µs")
    send_ns = server_ns - handle_ns - assumed.take_ns / BURST
    packing_ns = begin_ns / (_KEYS / LANES)
    encode_ns = worker_ns - packing_ns - send_ns - assumed.receive_ns - assumed.take_ns / BURST
    costs = MeasuredCosts(
        encode_ns=round(encode_ns),
        send_ns=round(send_ns),
        begin_ns=round(begin_ns),
        serve_ns=round(handle_ns - LANES * assumed.lane_ns),
    )
    for name, ns in costs._asdict().items():
        if ns < 0:
            raise EvidenceError(f"{result_path(RESULT)}: expected a {name} of 0 ns or more, got {ns}")
    return costs


def _number(table: Table, row: str) -> float:
    cell = table.cell(row, _AGENT)
    if not isinstance(cell, float) or cell <= 0:
        raise EvidenceError(f"{result_path(RESULT)}: {row}: expected a number above 0, got {cell}")
    return cell


def as_module(costs: MeasuredCosts, result: Result) -> str:
    """Return the module with the costs, and with date, commit and machine of the bench."""
    origin, machine = result.origin, result.origin.machine
    lines = [
        '"""Costs of hosts that `make costs` has fitted to the bench, in ns (`costs.HostCosts`).',
        "",
        f"Measured on {origin.date} at commit {origin.commit}, on {machine.cores} cores of {machine.cpu},",
        f"Linux {machine.kernel}.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        *(f"{name.upper()} = {ns:_}" for name, ns in costs._asdict().items()),
    ]
    return "\n".join(lines) + "\n"


def renew(result: Result) -> None:
    """Write the module of the costs that fit a result of the bench."""
    write_text(FILE, as_module(fit(result.table, HostCosts()), result))


def main() -> None:
    result = read_result(result_path(RESULT))
    renew(result)
    costs = fit(result.table, HostCosts())
    print(f"{FILE.relative_to(ROOT)}: {', '.join(f'{name} {ns:,}' for name, ns in costs._asdict().items())}")


if __name__ == "__main__":
    try:
        main()
    except EvidenceError as error:
        raise SystemExit(str(error)) from None
