"""The comparison with published parameters, and with equal bytes in flight; large packets of SwitchML."""

from __future__ import annotations

import pytest

from hotline_allreduce.simulation.measure import measure
from hotline_allreduce.simulation.player import AllReduceVerdict
from hotline_allreduce.study.fair import EQUAL_BYTES, equal_rows, published_rows, table_lines
from hotline_allreduce.switchml.model.subject import LARGE_PACKETS, LARGE_PACKETS_CHECKED, PUBLISHED
from packages.allreduce.tests.harness.verdicts import check_verdicts
from simulator.costs import Network
from switch_harness.wording import mentions


def test_published_parameters() -> None:
    rows = [(row.name, row.subject.chunk_size, row.window) for row in published_rows()]
    assert rows == [
        ("switchml", 256, 256), ("switchml", 64, 256), ("atp", 62, 64), ("exact", 32, 256),
        ("psdense", 256, 64), ("ring", 256, 64),
    ]  # fmt: skip


@pytest.mark.parametrize("size", EQUAL_BYTES)
def test_equal_bytes_in_flight(size: int) -> None:
    rows = equal_rows(size)
    assert [row.name for row in rows if row.name != "atp"] == ["switchml", "exact", "psdense", "ring"]
    assert ("atp" in [row.name for row in rows]) == (size == 16_384)
    for row in rows:
        assert 0.96 * size <= row.window * row.packet_bytes <= size
        assert row.window <= row.subject.max_window


def test_a_table_has_a_row_for_each_design() -> None:
    lines = table_lines(published_rows(), workers=2, values=2_000)
    assert [line.count("|") for line in lines] == [6] * 8
    assert lines[2].startswith("| `switchml` | 256 | 256 |")


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
