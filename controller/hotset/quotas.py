"""Divide the switch's slots between jobs by their quotas: pure functions, no I/O.

A quota of K slots is K / LANES slots of each bank: a row of one value takes one of them, and a row of 16
takes four. The quotas of all jobs together fit into the switch, so a job can claim its quota at any time.
Slots of a quota that its job does not need are free for any job.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from controller.errors import QuotaError
from controller.sizes import CAPACITY, SLOTS
from controller.tables import HotParam
from foundation.protocol.header import LANES
from foundation.protocol.register_packing import rank_in_group
from foundation.protocol.rows import ONE_VALUE, RowRanges, banks_of_row, count_slots, dims_in, lanes_of_rows

Slots: TypeAlias = NDArray[np.int64]
"""Numbers of slots by bank: [LANES]."""
NO_RANGES: Mapping[int, RowRanges] = {}
"""Ranges of rows by job, if all rows have one value."""
ALL_SLOTS: Slots = np.full(LANES, SLOTS, np.int64)


def round_quota(keys: int) -> int:
    """Return the smallest quota of at least `keys` slots that has equally many in each bank."""
    return -(-keys // LANES) * LANES


def check_quota(job: int, keys: int, quotas: Mapping[int, int]) -> None:
    other_quotas = sum(quota for other, quota in quotas.items() if other != job)
    if keys + other_quotas > CAPACITY:
        raise QuotaError(
            f"quota of job {job}: expected at most {CAPACITY - other_quotas:,} keys beside other quotas, "
            f"got {keys:,}"
        )


def slots_of(keys: Sequence[int], ranges: RowRanges = ONE_VALUE) -> Slots:
    """Return the slots that the rows of `keys` take; `ranges` has their dims."""
    key_array = np.array(keys, dtype=np.uint64)
    dims = dims_in(ranges, key_array)
    return count_slots(lanes_of_rows(key_array, dims), dims)


def lane_room(room: Slots, dim: int) -> Slots:
    """Return how many rows of `dim` values fit into each of their lanes, for `room` slots by bank."""
    fewest: Slots = room.reshape(-1, banks_of_row(dim)).min(axis=1)
    return fewest


def divide(
    wanted_slots: Mapping[int, Slots],
    held_slots: Mapping[int, Slots],
    quotas: Mapping[int, int],
    slots: Slots,
) -> dict[int, Slots]:
    """Divide each bank's `slots` between jobs that want slots and jobs that only hold slots.

    First every job gets what it wants or holds within its quota. Then jobs that only hold slots keep all of
    them, and the rest is divided as equally as possible between jobs that want more.
    """
    needs = {**held_slots, **wanted_slots}
    within_quota = {job: np.minimum(need, quotas.get(job, 0) // LANES) for job, need in needs.items()}
    shares = {job: np.zeros_like(slots) for job in needs}
    for limits in (within_quota, held_slots, wanted_slots):
        _grant(limits, shares, slots)
    return shares


def keys_of_others(
    entries: Iterable[HotParam], jobs: Container[int], quotas: Container[int]
) -> tuple[dict[int, list[int]], list[int]]:
    """Return the keys of all jobs but `jobs` in order of slots: by job with a quota, and those of the rest.

    Jobs without a quota are unknown to the switch, and have no servers that could take values back.
    """
    keys_by_job: dict[int, list[int]] = {}
    orphaned_keys: list[int] = []
    for entry in sorted(entries, key=lambda entry: entry.slot):
        if entry.job not in jobs:
            keys = keys_by_job.setdefault(entry.job, []) if entry.job in quotas else orphaned_keys
            keys.append(entry.key)
    return keys_by_job, orphaned_keys


def remaining_keys(
    entries: Iterable[HotParam],
    job: int,
    wanted: Sequence[int],
    quotas: Mapping[int, int],
    slots: int = SLOTS,
    ranges: Mapping[int, RowRanges] = NO_RANGES,
) -> dict[int, list[int]]:
    """Return the keys left to each other job that must give slots back so that `job` can load `wanted`.

    Keys in a lane's last slots leave first: a hot set that was loaded at once has its coldest keys there.
    `ranges` has the ranges of rows of each job whose rows have more than one value.
    """
    entries = list(entries)
    keys_by_job, orphaned_keys = keys_of_others(entries, {job}, quotas)
    orphaned = set(orphaned_keys)
    orphans = [entry for entry in entries if entry.key in orphaned and entry.job not in quotas]
    held_slots = {other: slots_of(keys, ranges.get(other, ONE_VALUE)) for other, keys in keys_by_job.items()}
    shares = divide(
        {job: slots_of(wanted, ranges.get(job, ONE_VALUE))},
        held_slots,
        quotas,
        np.maximum(slots - slots_of_entries(orphans), 0),
    )
    for other, held in held_slots.items():
        # Orphaned keys may leave too few slots for all quotas: jobs keep what they hold within theirs.
        held_within_quota = np.minimum(held, quotas[other] // LANES)
        shares[other] = np.maximum(shares[other], held_within_quota)
    remaining = {
        other: first_per_lane(keys, shares[other], ranges.get(other, ONE_VALUE))
        for other, keys in keys_by_job.items()
    }
    return {other: keys for other, keys in remaining.items() if len(keys) < len(keys_by_job[other])}


def slots_of_entries(entries: Sequence[HotParam]) -> Slots:
    lanes = np.array([entry.lane for entry in entries], np.int64)
    return count_slots(lanes, np.array([entry.dim for entry in entries], np.int64))


def first_per_lane(keys: Sequence[int], room: Slots, ranges: RowRanges = ONE_VALUE) -> list[int]:
    """Return the keys [n] whose rows are among the first that find `room` in their banks, in their order."""
    key_array = np.array(keys, dtype=np.uint64)
    dims = dims_in(ranges, key_array)
    lanes = lanes_of_rows(key_array, dims)
    if len({each.dim for each in ranges}) == 1:
        has_room = rank_in_group(lanes.astype(np.uint8)) < lane_room(room, ranges[0].dim)[lanes]
    else:
        has_room = _take_room(lanes, dims, room.copy())
    return [key for key, key_has_room in zip(keys, has_room.tolist(), strict=True) if key_has_room]


def _take_room(lanes: NDArray[np.int64], dims: NDArray[np.int64], room: Slots) -> NDArray[np.bool_]:
    """Return which rows [n], taken in order, find a slot in each of their banks; reduce `room`."""
    has_room = np.zeros(len(lanes), np.bool_)
    for k, (lane, dim) in enumerate(zip(lanes.tolist(), dims.tolist(), strict=True)):
        banks = room[lane * banks_of_row(dim) : (lane + 1) * banks_of_row(dim)]
        has_room[k] = banks.min() > 0
        banks -= has_room[k]
    return has_room


def _grant(needs: Mapping[int, Slots], shares: Mapping[int, Slots], slots: Slots) -> None:
    """Give jobs up to `needs` slots, as equally as the free slots allow; smaller ids come first."""
    jobs = sorted(needs)
    while jobs:
        free_slots = slots - sum(shares.values(), np.zeros_like(slots))
        missing_slots = np.array([np.maximum(needs[job] - shares[job], 0) for job in jobs])
        asking_jobs = (missing_slots > 0).sum(axis=0)
        equal_share = free_slots // np.maximum(asking_jobs, 1)
        remainder = np.where(equal_share > 0, 0, free_slots)
        # If there are fewer free slots than asking jobs, the first jobs get one slot each.
        grants = np.minimum(
            missing_slots, np.where((missing_slots > 0).cumsum(axis=0) <= remainder, 1, equal_share)
        )
        if not grants.any():
            return
        for job, grant in zip(jobs, grants, strict=True):
            shares[job][:] += grant
