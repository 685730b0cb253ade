"""A data file as a workload, whatever its format."""

from __future__ import annotations

from pathlib import Path

from foundation.logs.update_log import is_update_log
from hosts.workload import libsvm, replay
from hosts.workload.trace import Trace


def load(path: Path, workers: int, samples_per_step: int) -> Trace:
    """Return the trace of an update log, or of a training set in mini-batches of `samples_per_step`.

    Raise `DataError` for an invalid file.
    """
    if is_update_log(path):
        return replay.load(path, workers)
    return libsvm.load(path, workers, samples_per_step)
