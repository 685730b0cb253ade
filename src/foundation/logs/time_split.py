"""Split a log in time: hot sets are chosen from its first part, and scored on what follows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.logs.access.steps import Steps, updates_of

TRAIN_SHARE = 0.5
"""Share of a log's mini-batches that hot sets are chosen from."""


def training_length(steps: int, share: float = TRAIN_SHARE) -> int:
    """Return the number of training steps, given their share; at least one step is scored."""
    return min(round(steps * share), steps - 1)


class SplitUpdates(NamedTuple):
    """The updates of each key that a hot set is chosen from, and those that it is scored on: [distinct]."""

    training: NDArray[np.int64]
    scored: NDArray[np.int64]
    training_steps: int
    """Mini-batches that hot sets are chosen from; 0 if a log has only one, which is then scored as well."""


def split_updates(steps: Steps) -> SplitUpdates:
    training_steps = training_length(len(steps))
    if not training_steps:
        updates = updates_of(steps)
        return SplitUpdates(updates, updates, 0)
    end = int(steps.starts[training_steps])
    return SplitUpdates(
        updates_of(steps, 0, end), updates_of(steps, end, len(steps.accesses)), training_steps
    )
