"""Hashes and chance, as a data plane could have them: of 64 bits, multiplied and shifted."""

from __future__ import annotations

import numpy as np

from studies.policies.compiling import compiled, int64

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _TO_31_BITS, _1 = (np.uint64(bits) for bits in (30, 27, 31, 33, 1))
BITS = 31


@compiled
def mixed(key: int, seed: int) -> int:
    """A hash from 0 to 2^31 - 1: the topmost bits of SplitMix64 (Steele et al., OOPSLA 2014)."""
    x = np.uint64(key) + (np.uint64(seed) + _1) * _STEP
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return int64((x ^ (x >> _31)) >> _TO_31_BITS)


@compiled
def reduced(hashed: int, size: int) -> int:
    """A place below `size`."""
    return (hashed * size) >> BITS
