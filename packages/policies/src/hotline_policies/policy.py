"""The interface of a policy, which serves accesses for one size or for all sizes in one pass.

A key is installed only with an access to it, as its value travels with that access; a key selected at the end
of a period waits for its next access. Therefore Belady's optimum is an upper bound for all policies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotline_policies.log import Accesses, Log

Levels = NDArray[np.uint8]  # with one size: 0 for a hit, 1 for a miss
"""Index of the smallest size that has the key, for each access[n]; the number of sizes if none has it."""
Serve = Callable[[Accesses, Levels], None]
"""Serve accesses[n] in order, and fill in their levels[n]."""
INSTALLS, EVICTIONS = 0, 1  # rows of `moves`


@dataclass(frozen=True, slots=True)
class Policy:
    serve: Serve
    moves: NDArray[np.int64]
    """[2, sizes]: INSTALLS and EVICTIONS so far."""
    end_period: Callable[[], None] = lambda: None


MakePolicy = Callable[[Log, Sequence[int]], Policy]
"""Make a policy for a log and ascending sizes; exactly one size unless the policy is `one_pass`."""


@dataclass(frozen=True, slots=True)
class PolicySpec:
    name: str
    title: str
    description: str
    make: MakePolicy
    one_pass: bool = False
    """Whether the policy serves all sizes in one pass."""
    warms_up: bool = True  # whether the policy serves the training part before the scored part
    by_switch: bool = False
    """Whether the data plane makes the moves by itself; otherwise the control plane writes tables."""
    is_bound: bool = False  # whether the policy is an upper bound, which needs knowledge of the future


def zero_moves(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.zeros((2, len(sizes)), np.int64)
