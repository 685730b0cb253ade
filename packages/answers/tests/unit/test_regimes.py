"""The published map of regimes, and the device of softswitch in it."""

from __future__ import annotations

import pytest

from hotline_answers.regimes import COLLECTIONS, COMPUTE_MS, Regime, change_in, regimes
from hotline_simulator.devices import SOFTSWITCH_FRAME_US, SOFTSWITCH_MPPS
from tools.evidence.result import published_table


def test_softswitch_has_the_published_rate_and_time_of_the_bench() -> None:
    table = published_table("performance")
    rate = table.cell("Hotline, 32 lanes hit: packets/s", "sockets, or agent")
    time_us = table.cell("Hotline, 32 lanes hit: p50, µs", "sockets, or agent")
    assert isinstance(rate, float | int) and isinstance(time_us, float | int)
    assert (round(rate / 1e6, 3), round(time_us, 1)) == (SOFTSWITCH_MPPS, SOFTSWITCH_FRAME_US)


@pytest.mark.parametrize(
    ("regime", "column"),
    [
        (Regime("ideal", 1, 50.0, 15.0), "15 ms"),
        (Regime("tofino", 1, 0.0, 5.0), "5 ms"),
        (Regime("ideal", 1, 10.0, 1.0, COLLECTIONS[0]), "1 ms"),
    ],
)
def test_the_published_map_equals_the_simulated_changes(regime: Regime, column: str) -> None:
    row = f"{regime.name}, {regime.dim}, {regime.serve_us:g} µs"
    change = change_in(regime)
    assert published_table("regimes").cell(row, column) == pytest.approx(change.gain, rel=0.005)
    assert published_table("regimes-cpu").cell(row, column) == pytest.approx(100 * change.servers_cpu, abs=1)
    busy = 100 * change.servers_busy
    assert published_table("regimes-busy").cell(row, column) == pytest.approx(busy, abs=1)


def test_the_map_has_a_cell_for_each_regime() -> None:
    wanted = list(regimes())
    for name in ("regimes", "regimes-busy", "regimes-cpu"):
        table = published_table(name)
        assert len(table.rows) * len(COMPUTE_MS) == len(wanted)
        for each in wanted:
            row = f"{each.name}, {each.dim}, {each.serve_us:g} µs"
            assert table.cell(row, f"{each.compute_ms:g} ms") is not None
