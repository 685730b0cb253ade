"""Jobs that share a switch, at a small size."""

from __future__ import annotations

import pytest

from hotline_allreduce.study.plan import FULL, QUICK, SHARING_WORKERS, UPLINK, VECTOR_FACTOR, sharing_points
from hotline_allreduce.study.point import make_network
from hotline_allreduce.study.schemes import scheme_of
from hotline_allreduce.study.sharing import MAX_SLOTS, SharingResult, share, share_hot_set, window_of
from tools.evidence.result import published_table

VALUES, WORKERS, JOBS = 6_000, 4, (1, 2, 4, 8)
NETWORK = make_network(100)


def shared(name: str, jobs: int, slots: int = MAX_SLOTS) -> SharingResult:
    return share(scheme_of(name).subject, 1, jobs, WORKERS, VALUES, NETWORK, slots)


def hot_set(jobs: int, slots: int = 2_000, values: int = 2_000) -> SharingResult:
    return share_hot_set(jobs, WORKERS, values, NETWORK, slots)


def test_the_window_of_switchml_is_its_part_of_the_slots() -> None:
    def windows(name: str, slots: int) -> list[int]:
        return [window_of(scheme_of(name).subject, 1, jobs, WORKERS, NETWORK, slots) for jobs in JOBS]

    assert windows("switchml", 128) == [64, 32, 16, 8]
    assert windows("atp", 0) == [64] * 4
    assert windows("switchml", 0) == [0] * 4


def test_fairness_is_jains_index() -> None:
    assert SharingResult(in_switch=1, goodputs=[5.0, 5.0, 5.0, 5.0]).fairness == pytest.approx(1)
    assert SharingResult(in_switch=1, goodputs=[5.0, 0.0, 0.0, 0.0]).fairness == pytest.approx(1 / 4)


def test_jobs_share_the_slots_of_a_hot_set_equally() -> None:
    found = [hot_set(jobs) for jobs in JOBS]
    shares = [each.in_switch for each in found]
    assert shares == sorted(shares, reverse=True) and shares[0] > 0.8
    assert shares[-1] == pytest.approx(0.4945, abs=5e-4)
    assert all(
        each.fairness > 0.99 and len(each.goodputs) == jobs for each, jobs in zip(found, JOBS, strict=True)
    )
    # All keys of a job alone fit.
    assert hot_set(1, MAX_SLOTS).in_switch == 1 and hot_set(1, 0).in_switch == 0


@pytest.mark.parametrize("name", ["switchml", "atp"])
def test_jobs_do_not_slow_each_other_where_memory_is_plenty(name: str) -> None:
    alone, beside = shared(name, 1), shared(name, 4)
    # A few of ATP's places collide in its 20,000 cells.
    assert alone.in_switch == 1 and beside.in_switch > 0.95
    assert beside.mean == pytest.approx(alone.mean, rel=0.02) and beside.fairness > 0.999


def test_with_little_memory_switchml_slows_down_and_atp_uses_its_servers() -> None:
    plenty, scarce = (shared("switchml", 4, slots) for slots in (MAX_SLOTS, 64))
    assert scarce.mean < 0.5 * plenty.mean
    found = [shared("atp", 4, slots) for slots in (MAX_SLOTS, 2_000, 0)]
    assert [each.in_switch for each in found] == sorted((each.in_switch for each in found), reverse=True)
    assert found[-1].in_switch == 0 and 0 < found[1].in_switch < 1
    # Servers have a cable for each job here, which four workers share.
    assert found[-1].mean > 0.5 * found[0].mean


def test_one_uplink_is_shared_by_all_workers() -> None:
    """A worker's goodput is at most its part of the uplink, 32 bits a value."""
    for row in sharing_points(QUICK)[UPLINK]:
        if row[0].scheme != "hotset":
            for point in row:
                found = point.model_copy(update={"values": VALUES}).run()
                assert found.mean <= 100e9 / 32 / (point.jobs * point.workers)
                assert found.in_switch == (point.scheme in ("switchml", "atp")) or point.scheme == "atp"


def test_the_published_shares_of_hot_sets_equal_the_simulated_shares() -> None:
    published, values = published_table("allreduce-hotset-jobs"), FULL.shared_values // VECTOR_FACTOR
    for jobs, column in ((1, "1 job"), (8, "8 jobs")):
        found = share_hot_set(jobs, SHARING_WORKERS, values, NETWORK, 2_000).in_switch
        assert published.text_of("2,000", column) == f"{100 * found:.0f} %"
