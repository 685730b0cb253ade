"""The hash that selects lane and share."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foundation.protocol.hashing import lane_of, lanes_of, ps_ids_of, ps_of
from foundation.protocol.header import LANES
from hosts.keys import KeySpace


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(1, 300))
def test_hashes_of_arrays_equal_hashes_of_single_keys(keys: list[int], n_ps: int) -> None:
    array = np.array(keys, dtype=np.uint64)
    assert lanes_of(array).tolist() == [lane_of(key) for key in keys]
    assert lanes_of(array, 16).tolist() == [lane_of(key, 16) for key in keys]
    assert all(lane_of(key, 16) == lane_of(key) // 2 for key in keys)
    assert ps_ids_of(array, n_ps).tolist() == [ps_of(key, n_ps) for key in keys]
    assert all(lane_of(key) < LANES and ps_of(key, n_ps) < n_ps for key in keys)


def test_dense_keys_spread_evenly_over_lanes_and_shares() -> None:
    keys = np.arange(20_000, dtype=np.uint64)
    keys_each = np.bincount(lanes_of(keys).astype(np.int64) * 2 + ps_ids_of(keys, 2), minlength=2 * LANES)
    assert abs(keys_each - 20_000 / (2 * LANES)).max() < 40


def test_a_key_has_its_known_lane_and_server() -> None:
    assert (lane_of(1), ps_of(1, 3)) == (19, 1)


def test_the_last_byte_of_the_multiplier_decides_lane_and_server() -> None:
    """0x15: its upper five bits are the lane of a key that shifts it to the top, and it is the PS of 256."""
    assert lane_of(1 << 56) == 0b00010
    assert ps_of(1 << 40, 256) == 0x15


@given(st.sets(st.integers(0, 2**64 - 2), min_size=1), st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_a_key_space_maps_its_keys_to_positions_and_back(members: set[int], asked: list[int]) -> None:
    space = KeySpace(len(members), np.array(sorted(members), dtype=np.uint64))
    positions = space.positions(np.array(asked, dtype=np.uint64))
    for key, position in zip(asked, positions.tolist(), strict=True):
        assert (position < space.size) == (key in members)
        assert position == space.size or int(space.keys(np.array([position]))[0]) == key
    dense = KeySpace(10).positions(np.array([0, 9, 10, 2**64 - 1], dtype=np.uint64))
    assert dense.tolist() == [0, 9, 10, 10]
