"""The conversion of logs of any format, or training sets, to a `Log` on disk (`foundation.logs.access`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from foundation.errors import DataError
from foundation.logs.access.block import ReadOptions
from foundation.logs.access.steps import Progress, read_steps
from studies.policies.log import Log, training_length


def prepare(
    files: Sequence[Path], folder: Path, train_share: float, options: ReadOptions, progress: Progress,
    name: str | None = None,
) -> Log:  # fmt: skip
    steps = read_steps(files, options, folder, progress)
    if len(steps) < 2:
        raise DataError(f"{steps.name}: has one mini-batch; expected at least 2 (--batch sets their size)")
    return Log(
        name or steps.name,
        steps.accesses,
        steps.starts,
        steps.keys,
        training_length(len(steps), train_share),
        steps.has_pulls,
        folder,
        steps.tables,
        steps.table_of,
        steps.notes,
    )
