"""Access logs for tests: generated files of each format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from foundation.logs.access.block import read_options
from foundation.logs.access.formats.oracle_general import RECORD
from foundation.logs.access.steps import KEY, PULL, Steps, read_steps


def read(
    folder: Path, *paths: Path, columns: str | None = None, batch: int = 1, skip_bad: bool = False,
    format: str | None = None, separator: str | None = None, max_bad: float = 1.0, must_repeat: bool = False,
) -> Steps:  # fmt: skip
    """Read a log into a new folder in `folder`, by default also one whose keys are all distinct."""
    scratch = folder / f"arrays-{len(list(folder.iterdir()))}"
    scratch.mkdir()
    options = read_options(columns, batch, skip_bad, format, separator, max_bad)
    return read_steps(paths, options, scratch, lambda done, total: None, must_repeat=must_repeat)


def keys_by_step(steps: Steps) -> list[list[int]]:
    """Return the keys of each step; those of pulls are negative."""
    keys = steps.keys[steps.accesses & KEY].tolist()
    signed = [
        -key if access & PULL else key for key, access in zip(keys, steps.accesses.tolist(), strict=True)
    ]
    return [signed[a:b] for a, b in zip(steps.starts[:-1], steps.starts[1:], strict=True)]


def accesses_by_table(steps: Steps) -> dict[str, int]:
    counts = np.bincount(steps.table_of[steps.accesses & KEY], minlength=len(steps.tables))
    return dict(zip(steps.tables, counts.tolist(), strict=True))


def oracle_general(objects: Sequence[int], times: Sequence[int] | None = None) -> bytes:
    """Return a trace of these objects, with the index of each one's next access."""
    records = np.zeros(len(objects), RECORD)
    records["time"] = range(len(objects)) if times is None else times
    records["object"], records["size"], records["next"] = objects, 1, -1
    order = np.argsort(records["object"], kind="stable")
    is_again = np.diff(records["object"][order]) == 0
    records["next"][order[:-1][is_again]] = order[1:][is_again]
    return records.tobytes()


_USERS, _ITEMS = range(1, 41), range(1_000, 1_060)


def rows_with_dims() -> list[str]:
    """Return lines of `iteration,worker,table,key,updates,n`: users have rows of 10 values, items of 64."""
    chance, found = np.random.default_rng(5), []
    for step in range(24):
        for _ in range(12):
            for table, keys, dim in (("users", _USERS, 10), ("items", _ITEMS, 64)):
                key = keys[int(len(keys) * chance.random() ** 3)]
                found.append(f"{step},1,{table},{key},1,{dim}")
    return found


def write_rows_with_dims(folder: Path, rows: Sequence[str]) -> Path:
    file = folder / "log.csv"
    file.write_text("\n".join(["iteration,worker,table,key,updates,n", *rows]) + "\n")
    return file
