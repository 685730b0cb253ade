"""How much a test tries: little in `make test`, much in `make soak`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

SOAK_TIMES = 20
"""As much as a test names is tried so many times in `make soak`."""
FAST_SHARE = 8
"""And the eighth part of it in `make test`."""


def examples(number: int) -> int:
    """`max_examples`: an eighth of `number` in `make test`, and 20 times `number` with the soak's profile."""
    assert settings.default is not None
    return max(1, number * settings.default.max_examples // settings.get_profile("default").max_examples)


def seeds(number: int) -> list[Any]:
    """Parameters from 0 on: an eighth of `number` in `make test`, and 20 times `number` in all.

    Coverage is not counted, which takes four times as long as to run: other tests take the same lines.
    """
    fast, marks = -(-number // FAST_SHARE), [pytest.mark.no_cover]
    return [
        pytest.param(seed, marks=marks + [pytest.mark.soak] * (seed >= fast))
        for seed in range(SOAK_TIMES * number)
    ]
