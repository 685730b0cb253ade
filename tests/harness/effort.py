"""How much a test tries: little in `make test`, much in `make soak`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

SOAK_SEEDS = 20
"""Times as many seeds in `make soak`."""


def examples(number: int) -> int:
    """`max_examples` of a test that has `number` in `make test`; the soak's profile has more."""
    assert settings.default is not None
    return number * settings.default.max_examples // settings.get_profile("default").max_examples


def seeds(number: int) -> list[Any]:
    """Parameters 0 to `number` - 1, and many more for the soak.

    Coverage is not counted, which takes four times as long as to run: other tests take the same lines.
    """
    soak, no_cover = [pytest.mark.soak], [pytest.mark.no_cover]
    return [
        pytest.param(seed, marks=no_cover + soak * (seed >= number)) for seed in range(SOAK_SEEDS * number)
    ]
