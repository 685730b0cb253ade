"""What a policy is: something that serves accesses, of one size or of all sizes in one pass.

A key enters only with an access to it, as its value travels then: what a policy chooses otherwise, at the
end of a period, waits for the key's next access. So Belady's optimum bounds all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from studies.policies.log import Accesses, Log

Levels = NDArray[np.uint8]
"""For each access the number of the smallest size that has the key; as many as there are sizes: none has."""
Serve = Callable[[Accesses, Levels], None]
"""Take accesses in order, and fill in their levels."""
INSTALLS, EVICTIONS = 0, 1
"""Rows of `Policy.moves`."""


def nothing() -> None:
    """At the end of a period."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy with what it keeps."""

    serve: Serve
    moves: NDArray[np.int64]
    """[2, sizes]: installs and evictions so far."""
    turn: Callable[[], None] = nothing
    """End a period."""


Make = Callable[[Log, Sequence[int]], Policy]
"""The one signature of policies: for a log, with sizes that ascend: one of them where it is no `one_pass`."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A policy by its name."""

    name: str
    """In tables for machines, and of files."""
    title: str
    what: str
    """Does it, in a line."""
    make: Make
    one_pass: bool = False
    """Whether it serves all sizes at once."""
    warms: bool = True
    """Whether it goes through the part of the log that is learnt from, too."""
    by_switch: bool = False
    """Whether the data plane makes the moves by itself; else the control plane writes tables."""
    is_bound: bool = False
    """Knows the future."""


def no_moves(sizes: Sequence[int]) -> NDArray[np.int64]:
    """For a policy of these sizes."""
    return np.zeros((2, len(sizes)), np.int64)
