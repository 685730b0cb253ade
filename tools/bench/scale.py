"""Sizes of what the testbed's sections measure, beside those of `switch_bench.scale`."""

from __future__ import annotations

from switch_bench.scale import Scale

_DENSE, _LARGE, _LARGE_HASHED = (900_000, False), (150_000_000, False), (150_000_000, True)


def shares(scale: Scale) -> tuple[tuple[int, bool], ...]:
    """Return the sizes of a parameter server: number of keys, and whether they are hashed."""
    return (_DENSE,) if scale.is_quick else (_DENSE, _LARGE, _LARGE_HASHED)


def policy_steps(scale: Scale) -> int:
    """Return the steps, of 3,000 keys each, of the log that policies are measured on."""
    return 600 if scale.is_quick else 4_000
