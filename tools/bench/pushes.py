"""Pushes with keys as a run draws them: the keys of workload R1's steps, packed by hash lane."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from controller.sizes import SLOTS
from controller.tables import HotParam, KeyState, TableRow
from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.hashing import lanes_of
from foundation.protocol.header import LANES, dtype, lanes_of_dim, offset_of
from foundation.protocol.register_packing import pack_hashed
from hosts.workload.generator import R1, calibrate
from switch_bench.workload import INGRESS
from tools.bench import hotline

SEQ_AT = FRAME_OVERHEAD + offset_of("seq")
_SEED = 1
N = TypeVar("N", bound=np.generic)


class Pushes(NamedTuple):
    """Frames, and the popularity rank of the key in each lane; ranks of job j start at (j - 1) * R1.hot."""

    frames: NDArray[np.uint8]
    """[n, bytes]"""
    ranks: NDArray[np.int64]
    """[n, lanes]"""


def hot_rows(jobs: int, dim: int = 1) -> list[TableRow]:
    """Return the rows that admit the pushes, and each job's hot set, with slots by falling popularity."""
    rows: list[TableRow] = [*hotline.network_rows()]
    keys, lanes = _keys()[: _hot_keys(dim)], lanes_of_dim(dim)
    used_slots = [0] * lanes
    for job in range(1, jobs + 1):
        rows += hotline.job_rows(job) if job > 1 else ()
        for key, lane in zip(keys.tolist(), lanes_of(keys, lanes).tolist(), strict=True):
            rows.append(HotParam(job, key, lane, used_slots[lane], KeyState.HOT, dim))
            used_slots[lane] += 1
    return rows


def hot_pushes(jobs: int, count: int, dim: int = 1) -> Pushes:
    """Return pushes of the jobs in turn, whose lanes are all filled with hot keys; rows have `dim` values."""
    return _pushes(jobs, count, first_rank=0, egress=INGRESS, dim=dim)


def repeated_pushes(jobs: int, count: int) -> Pushes:
    """Return pushes of the jobs in turn, where each job repeats one push, so that it has 32 keys only."""
    push_by_job = hot_pushes(jobs, jobs)
    turns = np.arange(count) % jobs
    return Pushes(push_by_job.frames[turns], push_by_job.ranks[turns])


def cold_pushes(jobs: int, count: int) -> Pushes:
    """Return pushes like those of `hot_pushes`, but with keys that are not hot."""
    return _pushes(jobs, count, first_rank=R1.hot, egress=hotline.PS_PORT)


def _pushes(jobs: int, count: int, first_rank: int, egress: int, dim: int = 1) -> Pushes:
    keys, lanes, per_job = _keys(), lanes_of_dim(dim), -(-count // jobs)  # rounded up
    push = np.dtype(
        [
            ("outer", "u1", FRAME_OVERHEAD),
            ("rpc", dtype()),
            ("keys", ">u8", lanes),
            ("values", ">u4", lanes * dim),
        ]
    )
    frames, ranks = [], []
    for job in range(1, jobs + 1):
        hot_ranks = _ranks(per_job, _SEED + job, dim)
        first_keys = np.arange(lanes, dtype=np.uint64)
        template = np.frombuffer(hotline.push(LANES, first_keys, egress, job, dim), push)
        pushes = np.repeat(template, per_job)
        pushes["rpc"]["epoch"] = 1  # the number of the run, as in `hotline.py`
        pushes["keys"] = keys[first_rank + hot_ranks]
        frames.append(pushes.view(np.uint8).reshape(per_job, -1))
        ranks.append(hot_ranks + (job - 1) * R1.hot)
    return Pushes(_interleave(frames, count), _interleave(ranks, count))


def _interleave(parts: list[NDArray[N]], count: int) -> NDArray[N]:
    rows: NDArray[N] = np.stack(parts, axis=1).reshape(len(parts) * len(parts[0]), -1)[:count]
    return rows


def _keys() -> NDArray[np.uint64]:
    return np.random.default_rng(_SEED).permutation(R1.parameters).astype(np.uint64)


def _hot_keys(dim: int) -> int:
    """Return the number of hot keys: R1's, or half as many as the switch has room for."""
    return min(R1.hot, SLOTS * lanes_of_dim(dim) // 2)


def _ranks(count: int, seed: int, dim: int) -> NDArray[np.int64]:
    """Return the ranks of the hot keys of full RPCs, step by step: [count, lanes]."""
    law, draws = calibrate(R1)
    rng, keys, lanes = np.random.default_rng(seed), _keys(), lanes_of_dim(dim)
    rpcs: list[NDArray[np.int64]] = []
    while sum(map(len, rpcs)) < count:
        ranks = np.unique(law.ranks(rng.random(draws)))
        ranks = ranks[ranks < _hot_keys(dim)]
        position = pack_hashed(np.zeros(len(ranks), np.uint16), lanes_of(keys[ranks], lanes)).position[
            :, :lanes
        ]
        is_full = (position < len(ranks)).all(axis=1)  # a lane without a key has a larger position
        rpcs.append(ranks[position[is_full]])
    return np.concatenate(rpcs)[:count]
