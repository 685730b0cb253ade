"""Sets that never change, one in the other: the key's place in one order says which sizes have it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.policies.compiling import entry_point, int64
from studies.policies.log import KEY, Log
from studies.policies.policy import Policy, no_moves


def fixed(log: Log, order: NDArray[np.integer], sizes: Sequence[int]) -> Policy:
    """The first keys in this order, as many as each size has."""
    level = np.full(len(log.keys), len(sizes), np.uint8)
    places = np.arange(min(len(order), sizes[-1]))
    level[order[: len(places)]] = np.searchsorted(sizes, places, side="right")
    return Policy(partial(_look_up, level), no_moves(sizes))


@entry_point
def _look_up(level: Any, accesses: Any, levels: Any) -> None:
    for i in range(len(accesses)):
        levels[i] = level[int64(accesses[i]) & KEY]
