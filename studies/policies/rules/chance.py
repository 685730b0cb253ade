"""Random keys among those that have been seen, which stay: what [DDL] §4 says does little."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from studies.policies.log import Log
from studies.policies.policy import Kind, Policy
from studies.policies.rules.ranked import fixed

_SEED = 1


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Every key that was updated in the part that is learnt from is as likely."""
    seen = np.flatnonzero(log.counts)
    return fixed(log, np.random.default_rng(_SEED).permutation(seen), sizes)


RANDOM = Kind(
    "random", "random", "random keys of the first part of the log, fixed", make, one_pass=True, warms=False
)
