"""Random numbers that are equal on every machine: integers and products of powers of two, no libm."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from nativekit.compile import compiled

_SPLITMIX_INCREMENT = np.uint64(0x9E3779B97F4A7C15)


class RandomState(Protocol):
    random: np.uint64


@compiled
def mix64(z: np.uint64) -> np.uint64:
    """Hash 64 bits (splitmix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def next_random(state: RandomState) -> float:
    """Return the next random number in [0, 1) (splitmix64)."""
    state.random += _SPLITMIX_INCREMENT
    return float(mix64(state.random) >> np.uint64(11)) * 2.0**-53  # 53 bits, as a float64 has


@compiled
def next_exponential(state: RandomState) -> float:
    """Return a random number of the exponential distribution with mean 1.

    The method is that of von Neumann (1951), which only compares uniform random numbers: of a run of falling
    numbers after the first one, an odd length accepts the first one as the fractional part.
    """
    whole = 0.0
    while True:
        first = next_random(state)
        previous = first
        is_accepted = True
        while True:
            drawn = next_random(state)
            if drawn >= previous:
                break
            previous = drawn
            is_accepted = not is_accepted
        if is_accepted:
            return whole + first
        whole += 1.0
