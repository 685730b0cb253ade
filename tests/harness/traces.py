"""Traces of given mini-batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hosts.keys import KeySpace
from hosts.workload.trace import Trace


def trace_of(batches: Sequence[Sequence[int]]) -> Trace:
    """Return the trace of one worker with these keys in its mini-batches."""
    keys = np.unique(np.concatenate(batches)).astype(np.uint64)
    sizes = np.cumsum([0, *map(len, batches)])
    position = np.searchsorted(keys, np.concatenate(batches).astype(np.uint64))
    return Trace("t", 1, len(batches), KeySpace(len(keys), keys), sizes, position.astype(np.uint32))
