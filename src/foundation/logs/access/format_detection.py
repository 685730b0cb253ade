"""Formats of access logs; a text is read as the format that explains most of its first lines, and best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from foundation.errors import DataError
from foundation.logs.access.block import AccessLog, ReadOptions
from foundation.logs.access.conversions import conversion_of
from foundation.logs.access.dialect import FORMATS, MIN_SCORE, TEXT_FORMATS, Candidate, Examine, head_of
from foundation.logs.access.formats.delimited import (
    examine_column,
    examine_criteo,
    examine_recbole,
    examine_tables,
)
from foundation.logs.access.formats.json_array import is_json_array, open_json_array
from foundation.logs.access.formats.json_lines import examine_json
from foundation.logs.access.formats.libffm import examine_libffm
from foundation.logs.access.formats.libsvm import examine_libsvm
from foundation.logs.access.formats.lists import examine_lists
from foundation.logs.access.formats.oracle_general import open_oracle_general
from foundation.logs.access.formats.parquet import ARROW_FILE, ARROW_STREAM, open_arrow, open_parquet
from foundation.logs.access.formats.web_log import examine_web_log
from foundation.logs.access.log_files import read_head
from foundation.logs.update_log import CONTROL_CHARACTERS, PARQUET_MAGIC
from foundation.text import pluralize

Open = Callable[[Path, bytes, ReadOptions], AccessLog | None]
"""Returns the log, or None if a file's decompressed head is of another format. Raises `DataError`."""
BINARY: dict[str, Open] = {
    "parquet": open_parquet, "arrow": open_arrow, "oracle-general": open_oracle_general,
}  # fmt: skip
TEXT: dict[str, Examine] = {
    "criteo": examine_criteo,
    "recbole": examine_recbole,
    "json": examine_json,
    "libffm": examine_libffm,
    "libsvm": examine_libsvm,
    "web": examine_web_log,
    "table": examine_tables,
    "lists": examine_lists,
    "column": examine_column,
}
EXPECTED = (
    "expected a log in CSV, TSV, JSON (lines, or one array), Parquet, Arrow, Criteo's TSV, RecBole's atomic "
    "files or libCacheSim's oracleGeneral, lists of keys, a web server's log, or a libsvm or libffm training "
    "set"
)


def open_log(path: Path, options: ReadOptions) -> AccessLog:
    if options.format is not None and options.format not in FORMATS:
        raise DataError(f"--format {options.format}: expected one of {', '.join(FORMATS)}")
    head = read_head(path)
    if not head.strip():
        raise DataError(f"{path}: is empty; {EXPECTED}")
    magics = (PARQUET_MAGIC, ARROW_FILE, ARROW_STREAM)
    is_binary = head.startswith(magics) or CONTROL_CHARACTERS.search(head) is not None
    if options.format in BINARY or (options.format is None and is_binary):
        return _open_binary(path, head, options)
    return _open_text(path, head, options)


def _open_binary(path: Path, head: bytes, options: ReadOptions) -> AccessLog:
    names = BINARY if options.format is None else (options.format,)
    for name in names:
        if (log := BINARY[name](path, head, options)) is not None:
            return log
    if options.format is None and (problem := conversion_of(path, head)) is not None:
        raise DataError(f"{path}: {problem}")
    problem = "is neither text nor Parquet, which begins with PAR1, nor Arrow (ARROW1), nor oracleGeneral"
    if options.format is not None:
        problem = f"is not of the format {options.format} (--format)"
    raise DataError(f"{path}: {problem}; {EXPECTED}")


def _open_text(path: Path, data: bytes, options: ReadOptions) -> AccessLog:
    if options.format in (None, "json") and options.separator is None and is_json_array(data):
        return open_json_array(path, options)
    head = head_of(path, data, options)
    names: Sequence[str] = TEXT_FORMATS if options.separator is None else ("table", "lists")
    if options.format is not None:
        names = (options.format,)
    candidates = [candidate for name in names for candidate in TEXT[name](head)]
    best = max(candidates, key=lambda candidate: candidate.score, default=None)
    is_requested = options.format is not None or options.separator is not None
    if best is None or (best.score < MIN_SCORE and not (is_requested and best.explained)):
        raise DataError(f"{path}: {_problem(candidates, len(head.lines), is_requested)}; {EXPECTED}")
    return best.open()


def _problem(candidates: Sequence[Candidate], lines: int, is_requested: bool) -> str:
    of_lines = f"of its first {pluralize(lines, 'line')}"
    closest = max(candidates, key=lambda candidate: candidate.explained, default=None)
    if closest is None or not closest.explained:
        return f"is of no known format: none {of_lines} fits one"
    flags = "" if is_requested else " (--format and --separator choose one)"
    return f"is of no known format: {closest.explained:,} {of_lines} fit {closest.format}, most of all{flags}"
