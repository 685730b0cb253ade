"""The most updated keys of the part that is learnt from, which stay: what `hotline load` does ([DDL] §4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from studies.policies.log import Log
from studies.policies.policy import Kind, Policy
from studies.policies.rules.ranked import fixed


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Of equals the smaller key; what was never updated is in no set."""
    order = np.argsort(-log.counts, kind="stable")
    return fixed(log, order[log.counts[order] > 0], sizes)


TOP_K = Kind(
    "top-k",
    "top-k",
    "a fixed set: the k most updated keys of the first part of the log, as `hotline load` moves them in",
    make,
    one_pass=True,
    warms=False,
)
