"""The packing of traces whose RPCs can be counted by hand."""

from __future__ import annotations

from itertools import count, islice, pairwise
from typing import Any

import numpy as np
import pytest

from foundation.protocol.hashing import lane_of, lanes_of, ps_ids_of
from hosts.workload.generator import generate
from hotline_agents.hotset.worker.counting import RpcCounts, count_rpcs
from hotline_paper import packing
from hotline_paper.packing import DIMS, STEPS, pack_shape, pack_trace, packing_ratios, shape_of, skew_of
from packages.agents.tests.unit.test_packing import chosen
from tests.harness.traces import trace_of
from tools.evidence.result import published_table


def keys_in_lane(number: int, lane: int) -> list[int]:
    return list(islice((key for key in count(1) if lane_of(key) == lane), number))


def test_hot_keys_of_one_lane_take_an_rpc_each_and_cold_keys_share_rpcs() -> None:
    """Three hot keys of lane 4 and one of lane 9 in every mini-batch; 40 cold ones, always others."""
    hot = [*keys_in_lane(3, 4), *keys_in_lane(1, 9)]
    chance = np.random.default_rng(1)
    cold = [key for key in chance.permutation(np.arange(5_000, 9_000)).tolist() if key not in hot]
    batches = [[*hot, *cold[40 * number : 40 * number + 40]] for number in range(80)]
    found = pack_trace(trace_of(batches), top_k=4, servers=1)
    assert (found.keys, found.hot_share) == (44, 4 / 44)
    # 44 keys in RPCs of 32; two with the cold ones have room for two of a lane, and the third needs its own.
    assert (found.rpcs, found.rpcs_with_offload, found.server_rpcs_with_offload) == (2, 3, 2)


def test_a_hot_set_is_chosen_from_the_first_half_and_counted_on_the_second_half() -> None:
    """Keys that are hot only in the second half are not in the set."""
    first, second = keys_in_lane(8, 1), keys_in_lane(16, 2)[8:]
    found = pack_trace(trace_of([first] * 60 + [second] * 60), top_k=8, servers=1)
    assert found.hot_share == 0
    assert (found.rpcs, found.rpcs_with_offload, found.server_rpcs_with_offload) == (1, 1, 1)


def test_two_servers_have_own_rpcs() -> None:
    batches = [list(range(1, 65))] * 4
    found = pack_trace(trace_of(batches), top_k=1, servers=2)
    assert found.rpcs in (2, 3) and found.keys == 64


def test_generated_data_have_the_requested_skew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The served share is a little less than the skew, as the hot set comes from other steps."""
    monkeypatch.setattr(packing, "_PROFILE_LANES", 200_000)
    found = pack_shape(0.5, 2000, 2)
    assert found.keys == pytest.approx(2000, rel=0.05)
    assert 0.44 < found.hot_share < 0.52
    assert found.server_rpcs_with_offload < found.rpcs < found.rpcs_with_offload < 1.1 * found.rpcs


PUBLISHED = published_table("packing")


def published_rows() -> list[Any]:
    """Parameters of the published rows; all but one of each dim are for `make soak`."""
    return [
        pytest.param(
            *(int(name.replace(",", "")) for name in row.names), row.cells,
            marks=[] if row.names[1:] == ("500", "20") else pytest.mark.soak, id="-".join(row.names),
        )
        for row in PUBLISHED.rows
    ]  # fmt: skip


def test_rows_of_all_dims_are_published() -> None:
    fast = [row.values[0] for row in published_rows() if not row.marks]
    assert fast == [*DIMS] and len(published_rows()) == len(DIMS) * len(STEPS)


@pytest.mark.parametrize(("dim", "keys_per_step", "servers", "cells"), published_rows())
def test_packing_ratios_equal_the_published_ratios(
    dim: int, keys_per_step: int, servers: int, cells: tuple[float, ...]
) -> None:
    """The hot sets are 20,000 rows of one value, or as many longer rows as fit."""
    found = packing_ratios(dim, keys_per_step, servers)
    assert (found.rpcs, found.least, found.server_rpcs) == pytest.approx(cells)
    assert found.least <= found.rpcs


def test_skew_is_the_share_of_the_top_2_per_cent() -> None:
    """Of 100 keys one has 50 updates and another 25, the others one each."""
    batches = [[1, *([2] if number % 2 else []), 3 + number] for number in range(50)]
    assert skew_of(trace_of([*batches, list(range(53, 101))])) == pytest.approx(75 / (75 + 98))


@pytest.mark.parametrize(
    ("keys_per_step", "servers"), [(3000, 2), (500, 20), (1000, 20), (3000, 20), (3000, 70)]
)
def test_packing_achieves_the_planned_number_of_rpcs(keys_per_step: int, servers: int) -> None:
    """R1's data takes as many RPCs as the best choice."""
    trace = generate(shape_of(0.5, keys_per_step), 1, 30, seed=2)
    is_hot = np.arange(trace.space.size) < 20_000
    batches = [trace.position[a:b] for a, b in pairwise(trace.key_start.tolist())]
    hot = np.flatnonzero(is_hot).astype(np.uint64)
    for found, batch in zip(
        count_rpcs(trace.space, servers, hot, batches, trace.largest_batch), batches, strict=True
    ):
        keys = trace.space.keys(batch)
        hot_only, calls = chosen(ps_ids_of(keys, servers), lanes_of(keys), is_hot[batch], servers)
        assert found == RpcCounts(hot_only + sum(calls.values()), sum(calls.values()))
