"""Open the files of a log, which have to be of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from foundation.errors import DataError
from foundation.logs.access.block import AccessLog, ReadOptions
from foundation.logs.access.format_detection import open_log
from foundation.logs.access.table_rows import text_columns_of


def open_logs(files: Sequence[Path], options: ReadOptions) -> list[AccessLog]:
    """Return the log in each file; raise `DataError` for one of another kind than those before it."""
    logs = [open_log(file, options) for file in files]
    first_log = logs[0]
    for file, log in zip(files, logs, strict=True):
        if log.has_batches != first_log.has_batches:
            first_description = f"{files[0]} ({first_log.description})"
            raise DataError(
                f"{file}: {log.description}; "
                f"expected mini-batches in all files or in none; the first is {first_description}"
            )
    _check_same_kinds(files, logs)
    return logs


def _check_same_kinds(files: Sequence[Path], logs: Sequence[AccessLog]) -> None:
    """Raise `DataError` if a key column is read as texts in one file, and as integers in another."""
    first_file: dict[tuple[str, bool], Path] = {}
    for file, log in zip(files, logs, strict=True):
        for name, is_text in text_columns_of(log).items():
            first_file.setdefault((name, is_text), file)
            if (other := first_file.get((name, not is_text))) is not None:
                kinds = ("texts", "numbers") if is_text else ("numbers", "texts")
                raise DataError(
                    f"{file}: column {name} has {kinds[0]}, and {kinds[1]} in {other}; expected one kind "
                    f"(--text {name} reads its values as texts)"
                )
