"""The comparison with published parameters, and with equal bytes in flight; large packets of SwitchML."""

from __future__ import annotations

import pytest

from hotline_allreduce.simulation.measure import measure
from hotline_allreduce.simulation.player import AllReduceVerdict
from hotline_allreduce.study.fair import EQUAL_BYTES, FairRow, fair_tables
from hotline_allreduce.study.plan import FULL, GBITS, fair_points
from hotline_allreduce.switchml.model.subject import LARGE_PACKETS, LARGE_PACKETS_CHECKED, PUBLISHED
from hotline_simulator.costs import Network
from packages.allreduce.tests.harness.verdicts import check_verdicts
from switch_harness.wording import mentions
from tools.evidence.result import published_table

RESULTS = {
    "published parameters": "allreduce-published",
    "16,384 bytes in flight": "allreduce-fair-16k",
    "65,536 bytes in flight": "allreduce-fair-64k",
}


def published_rate(table: str, row: FairRow, gbit: float) -> str:
    """Return the goodput in million values/s, as it is published."""
    name = row.scheme.name.partition(",")[0]
    size = row.scheme.subject.chunk_size
    return published_table(RESULTS[table]).text_of(f"`{name}`, {size}, {row.window}", f"{gbit:g} Gbit/s")


def test_each_table_has_rows_of_the_stated_windows_or_bytes_in_flight() -> None:
    tables = {
        title: [(row.scheme.name, row.scheme.subject.chunk_size, row.window) for row in rows]
        for title, rows in fair_tables().items()
    }
    assert tables == {
        "published parameters": [
            ("switchml, 256 values", 256, 256), ("switchml", 64, 256), ("atp", 62, 64), ("exact", 32, 256),
            ("psdense", 256, 64), ("ring", 256, 64),
        ],
        "16,384 bytes in flight": [
            ("switchml, 256 values", 256, 16), ("atp", 62, 64), ("exact", 32, 64), ("psdense", 256, 16),
            ("ring", 256, 16),
        ],
        "65,536 bytes in flight": [
            ("switchml, 256 values", 256, 64), ("exact", 32, 256), ("psdense", 256, 64), ("ring", 256, 64),
        ],
    }  # fmt: skip
    for size in EQUAL_BYTES:
        for row in fair_tables()[f"{size:,} bytes in flight"]:
            assert 0.96 * size <= row.bytes_in_flight <= size


def test_the_published_tables_have_a_row_for_each_scheme() -> None:
    assert set(RESULTS) == set(fair_tables())
    for title, rows in fair_tables().items():
        assert len(published_table(RESULTS[title]).rows) == len(rows)


def test_switchml_with_equal_packets_is_as_fast_as_servers_within_the_readmes_2_percent() -> None:
    """SwitchML is at least as fast as servers, but for 2 % at 10 Gbit/s with 65,536 bytes in flight."""
    ratios = {}
    for size in EQUAL_BYTES:
        title = f"{size:,} bytes in flight"
        by_name = {row.scheme.name: row for row in fair_tables()[title]}
        for gbit in GBITS:
            switchml, servers = (
                float(published_rate(title, by_name[name], gbit).replace(",", ""))
                for name in ("switchml, 256 values", "psdense")
            )
            ratios[size, gbit] = switchml / servers
    assert 0.975 < ratios.pop((65_536, 10.0)) < 0.985 and min(ratios.values()) >= 1


SIMULATED_HERE = ("16,384 bytes in flight", "switchml, 256 values")


@pytest.mark.parametrize(
    ("table", "index"),
    [
        pytest.param(title, index, marks=[pytest.mark.soak] * ((title, row.scheme.name) != SIMULATED_HERE))
        for title, rows in fair_tables().items()
        for index, row in enumerate(rows)
    ],
)
def test_the_published_rates_equal_the_simulated_rates(table: str, index: int) -> None:
    row = fair_tables()[table][index]
    for gbit, point in fair_points(FULL, row).items():
        assert f"{1e-6 * point.run().values_per_s:,.0f}" == published_rate(table, row, gbit)


def test_a_window_beyond_64_packets_hides_a_longer_way() -> None:
    far = Network(rate_mbit=100_000, delay_us=20)
    goodputs = [measure(PUBLISHED, 2, 1, 60_000, far, window=window).values_per_s for window in (64, 256)]
    assert 3 < goodputs[1] / goodputs[0] < 4.1
    with pytest.raises(ValueError, match=mentions("window", 1, 256, 257)):
        measure(PUBLISHED, 2, 1, 100, far, window=257)


def test_large_packets_carry_four_times_as_many_values() -> None:
    found = measure(LARGE_PACKETS, 2, 1, 256 * 40, Network(), window=4)
    # 40 chunks, and 4 packets of exponents only.
    assert found.worker_up == found.worker_down == 44 * (42 + 10 + 1_024) / (256 * 40)


@pytest.mark.no_cover
@pytest.mark.parametrize("fault", ["everything", "worker killed"])
def test_large_packets_add_up_under_faults(fault: str) -> None:
    stalls = {AllReduceVerdict.STALLED} if fault == "worker killed" else set()
    check_verdicts(LARGE_PACKETS_CHECKED, fault, 0, 10, {AllReduceVerdict.EQUAL} | stalls)
