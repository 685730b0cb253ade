"""Jobs that share the memory of a switch, at a small size."""

from __future__ import annotations

import pytest

from hosts.atp.packet import CELLS
from simulator.neighbours.sharing import JOBS, Shared, jain, share, share_hot_set, window_of

VALUES = 6_000


def test_the_window_of_switchml_is_its_part_of_the_slots() -> None:
    assert [window_of("switchml", jobs, 128) for jobs in JOBS] == [64, 32, 16, 8]
    assert [window_of("atp", jobs, 0) for jobs in JOBS] == [64] * 4
    assert window_of("switchml", 1, 0) == 0


def test_jains_index() -> None:
    assert Shared(1.0, (5.0, 5.0, 5.0, 5.0)).fairness == pytest.approx(1)
    assert Shared(1.0, (5.0, 0.0, 0.0, 0.0)).fairness == pytest.approx(1 / 4)


def test_jobs_share_the_slots_of_a_hot_set_equally() -> None:
    found = [share_hot_set(jobs) for jobs in JOBS]
    means = [sum(each) / len(each) for each in found]
    assert means == sorted(means, reverse=True) and means[0] > 0.85 and means[-1] > 0.6
    assert all(jain(each) > 0.999 for each in found)
    # A job alone that asks for fewer keys than there are slots gets all of them.
    assert share_hot_set(1, keys=1_000) == [pytest.approx(1)]


@pytest.mark.parametrize("name", ["switchml", "atp"])
def test_jobs_do_not_slow_each_other_where_memory_is_plenty(name: str) -> None:
    alone, beside = share(name, 1, CELLS, VALUES), share(name, 4, CELLS, VALUES)
    # A few of ATP's places collide in its 20,000 cells.
    assert alone.in_switch == 1 and beside.in_switch > 0.95
    assert beside.mean == pytest.approx(alone.mean, rel=0.02) and beside.fairness > 0.999


def test_with_little_memory_switchml_slows_down_and_atp_uses_its_servers() -> None:
    plenty, scarce = (share("switchml", 4, cells, VALUES) for cells in (CELLS, 64))
    assert scarce.mean < 0.5 * plenty.mean
    found = [share("atp", 4, cells, VALUES) for cells in (CELLS, 2_000, 0)]
    assert [each.in_switch for each in found] == sorted((each.in_switch for each in found), reverse=True)
    assert found[-1].in_switch == 0 and 0 < found[1].in_switch < 1
    # Servers have a cable for each job here, which four workers share.
    assert found[-1].mean > 0.5 * found[0].mean
