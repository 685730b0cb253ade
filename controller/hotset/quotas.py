"""Divide the switch's slots between jobs by their quotas: pure functions, no I/O.

A quota of K keys is K / LANES slots of each lane. The quotas of all jobs together fit into the switch, so a
job can claim its quota at any time. Slots of a quota that its job does not need are free for any job.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from controller.errors import QuotaError
from controller.tables import SLOTS, HotParam
from foundation.protocol.hashing import lanes_of
from foundation.protocol.header import LANES
from foundation.protocol.packing import rank_in_group

Slots: TypeAlias = NDArray[np.int64]
"""Numbers of slots by lane: [LANES]."""
CAPACITY = LANES * SLOTS
ALL_SLOTS: Slots = np.full(LANES, SLOTS, np.int64)


def round_quota(keys: int) -> int:
    """Return the smallest quota of at least `keys` keys that has equally many slots in each lane."""
    return -(-keys // LANES) * LANES


def check_quota(job: int, keys: int, quotas: Mapping[int, int]) -> None:
    other_quotas = sum(quota for other, quota in quotas.items() if other != job)
    if keys + other_quotas > CAPACITY:
        raise QuotaError(
            f"quota of job {job}: expected at most {CAPACITY - other_quotas:,} keys beside other quotas, "
            f"got {keys:,}"
        )


def slots_of(keys: Sequence[int]) -> Slots:
    return np.bincount(lanes_of(np.array(keys, dtype=np.uint64)), minlength=LANES).astype(np.int64)


def divide(
    wanted_slots: Mapping[int, Slots],
    held_slots: Mapping[int, Slots],
    quotas: Mapping[int, int],
    slots: Slots,
) -> dict[int, Slots]:
    """Divide each lane's `slots` between jobs that want slots and jobs that only hold slots.

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
) -> dict[int, list[int]]:
    """Return the keys left to each other job that must give slots back so that `job` can load `wanted`.

    Keys in a lane's last slots leave first: a hot set that was loaded at once has its coldest keys there.
    """
    keys_by_job, orphaned_keys = keys_of_others(entries, {job}, quotas)
    shares = divide(
        {job: slots_of(wanted)},
        {other: slots_of(keys) for other, keys in keys_by_job.items()},
        quotas,
        np.maximum(slots - slots_of(orphaned_keys), 0),
    )
    for other, keys in keys_by_job.items():
        # Orphaned keys may leave too few slots for all quotas: jobs keep what they hold within theirs.
        held_within_quota = np.minimum(slots_of(keys), quotas[other] // LANES)
        shares[other] = np.maximum(shares[other], held_within_quota)
    remaining = {other: first_per_lane(keys, shares[other]) for other, keys in keys_by_job.items()}
    return {other: keys for other, keys in remaining.items() if len(keys) < len(keys_by_job[other])}


def first_per_lane(keys: Sequence[int], room: Slots) -> list[int]:
    """Return the keys [n] that are among the first `room` of their lanes, in their order."""
    lanes = lanes_of(np.array(keys, dtype=np.uint64))
    has_room = (rank_in_group(lanes) < room[lanes]).tolist()
    return [key for key, key_has_room in zip(keys, has_room, strict=True) if key_has_room]


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
