"""How much a test tries: little in `make test`, much in `make soak`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

SOAK_TIMES = 20
"""Factor in `make soak` by which the effort that a test names is multiplied."""
FAST_SHARE = 8
"""Divisor of that effort in `make test`."""


def examples(number: int) -> int:
    """Return `max_examples`: an eighth of `number` in `make test`, 20 times it with the soak's profile."""
    return max(1, int(number * _share()))


def seeds(number: int) -> list[Any]:
    """Parameters from 0 on: an eighth of `number` in `make test`, 20 times `number` with the soak's profile.

    Coverage is not counted, which takes four times as long as to run: other tests take the same lines.
    """
    fast, marks = -(-number // FAST_SHARE), [pytest.mark.no_cover]
    return [
        pytest.param(seed, marks=marks + [pytest.mark.soak] * (seed >= fast))
        for seed in range(max(fast, int(number * _share())))
    ]


def steps(number: int) -> int:
    """Return the number of steps of a history: a quarter in `make test`, which also has fewer histories."""
    return number if _share() > 1 else number // 4


def _share() -> float:
    """Scale the effort that a test names by the profile that is loaded when tests are collected."""
    assert settings.default is not None
    return settings.default.max_examples / settings.get_profile("default").max_examples
