"""The hash that selects the lane and the parameter server of a row: one multiplicative hash for all hosts.

Knuth, TAOCP 3, 6.4 (Fibonacci hashing): the top bits of key * 2^64/phi are the lane, the bits 16..47 the PS.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.protocol.codec import MAX_U32
from foundation.protocol.header import LANES

MULTIPLIER = 0x9E3779B97F4A7C15
_MASK64 = 2**64 - 1
LANE_BITS = (LANES - 1).bit_length()
PS_SHIFT = 16


def _lane_shift(lanes: int) -> int:
    return 64 - (lanes - 1).bit_length()


LANE_SHIFT = _lane_shift(LANES)


def lane_of(key: int, lanes: int = LANES) -> int:
    """Return the lane (0..lanes-1) of a key in a switch with `lanes` lanes, a power of two."""
    return (key * MULTIPLIER & _MASK64) >> _lane_shift(lanes)


def ps_of(key: int, n_ps: int) -> int:
    """Return the 0-based id of the PS whose share contains a key."""
    # 32 bits of the hash, as a fraction of 2^32, times `n_ps`.
    return ((key * MULTIPLIER & _MASK64) >> PS_SHIFT & MAX_U32) * n_ps >> 32


def _hashes(keys: ArrayLike) -> NDArray[np.uint64]:
    hashes: NDArray[np.uint64] = np.asarray(keys, dtype=np.uint64) * np.uint64(MULTIPLIER)
    return hashes


def lanes_of(keys: ArrayLike, lanes: int = LANES) -> NDArray[np.uint8]:
    result: NDArray[np.uint8] = (_hashes(keys) >> np.uint64(_lane_shift(lanes))).astype(np.uint8)
    return result


def ps_ids_of(keys: ArrayLike, n_ps: int) -> NDArray[np.uint16]:
    middle = _hashes(keys) >> np.uint64(PS_SHIFT) & np.uint64(MAX_U32)
    ids: NDArray[np.uint16] = (middle * np.uint64(n_ps) >> np.uint64(32)).astype(np.uint16)
    return ids
