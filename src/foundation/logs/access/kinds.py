"""Kinds of a column's values, their conversion to numbers, and the kind that a sample of values shows.

Values that cannot be converted become null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import polars as pl

from foundation.logs.access.block import INTEGER_EXPECTED, KEY_EXPECTED
from foundation.logs.columns import TRANSFERS
from foundation.protocol.header import NO_KEY
from foundation.protocol.rows import MAX_DIM

_UTC_PATTERNS = (
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d",
    "%Y-%m-%dT%H:%M:%S%.fZ",
    "%Y-%m-%d %H:%M:%S%.f UTC",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d %H:%M:%S%.f",
    "%Y/%m/%d",
)
_ZONE_PATTERNS = (
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f %#z",
    "%d/%b/%Y:%H:%M:%S %z",
    "%a %b %d %H:%M:%S %z %Y",
)
"""Patterns with an offset from UTC, which is applied."""
_PATTERNS = (*_UTC_PATTERNS, *_ZONE_PATTERNS)
_TEXT_SEED = 0x686F746C696E65  # "hotline" in ASCII; another seed would change the keys of texts
MAX_WEIGHT = 2**24
_WHOLE_NUMBER = r"^\+?\d+$"
_WHOLE_FLOAT = r"^\+?\d+\.0*$"
_MIN_TEXTS = 3
"""Distinct texts beside integers from which on a column's values are texts, if that share of them are."""
_TEXT_SHARE = 0.01
_PULLS = ("pull", "get", "gets", "read", "r", "get_lease", "lookup", "load", "l", "head", "select")
_UPDATES = (
    "push", "set", "add", "replace", "cas", "append", "prepend", "incr", "decr", "put", "write", "w",
    "update", "store", "s", "insert", "upsert", "set_lease", "delete", "del", "remove", "post", "patch",
)  # fmt: skip
OPERATIONS = {**dict.fromkeys(_PULLS, True), **dict.fromkeys(_UPDATES, False)}
"""Whether an operation, in lower case, is a pull."""


class Kind(NamedTuple):
    expected: str
    convert: Callable[[pl.Series], pl.Series]
    flag: str = ""
    """Option of the command line, without the column, that reads other values, too."""


def _to_integers(values: pl.Series) -> pl.Series:
    """Return values as UInt64; a float that is not a whole number becomes null."""
    if values.dtype.is_float():
        values = values.set(values != values.floor(), None)
    return values.cast(pl.UInt64, strict=False)


def _to_integer_keys(values: pl.Series) -> pl.Series:
    integers = _to_integers(values)
    return integers.set(integers == NO_KEY, None)


def _to_whole_float_keys(values: pl.Series) -> pl.Series:
    return _to_integer_keys(values.str.replace(r"\.0*$", ""))


def _hash_text_keys(values: pl.Series) -> pl.Series:
    texts = values.cast(pl.String)
    hashed = texts.hash(_TEXT_SEED)
    return pl.select(pl.when(texts.is_not_null()).then(hashed)).to_series()


def _parse_hexadecimal(values: pl.Series) -> pl.Series:
    return values.str.to_integer(base=16, dtype=pl.UInt64, strict=False)


def _to_numbers(values: pl.Series) -> pl.Series:
    numbers = values.cast(pl.Float64, strict=False)
    return numbers.set(~numbers.is_finite(), None)


def _to_weights(values: pl.Series) -> pl.Series:
    weights = _to_integers(values)
    return weights.set(weights > MAX_WEIGHT, None)


def _to_dims(values: pl.Series) -> pl.Series:
    dims = _to_integers(values)
    return dims.set((dims < 1) | (dims > MAX_DIM), None)


def _to_microseconds(values: pl.Series) -> pl.Series:
    if values.dtype == pl.String:
        values = _parse_dates(values)
    elif isinstance(values.dtype, pl.Datetime) and values.dtype.time_zone is not None:
        values = values.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return values.cast(pl.Datetime("us")).to_physical().cast(pl.Float64)


def _parse_dates(texts: pl.Series) -> pl.Series:
    """Parse dates by the pattern of the first one, and what it does not fit by the others.

    A query takes about as long as it takes to parse hundreds of dates, so there are three at most.
    """
    dates = pl.Series(texts.name, [None] * len(texts), pl.Datetime("us"))
    first = texts.drop_nulls().head(1).to_frame("text")
    if first.is_empty():
        return dates
    parsed = first.select_seq(_parse_date(pattern).alias(pattern) for pattern in _PATTERNS)
    fits = [pattern for pattern in _PATTERNS if parsed[pattern].null_count() == 0]
    patterns = list(dict.fromkeys((*fits, *_PATTERNS)))
    if fits:
        dates = _parse_by(patterns[:1], texts)
        patterns = patterns[1:]
    if dates.null_count() > texts.null_count():
        remaining = (dates.is_null() & texts.is_not_null()).arg_true()
        dates = dates.scatter(remaining, _parse_by(patterns, texts.gather(remaining)))
    return dates


def _parse_by(patterns: Sequence[str], texts: pl.Series) -> pl.Series:
    """Parse each date by the first of these patterns that fits it."""
    dates = pl.coalesce(map(_parse_date, patterns)).alias(texts.name)
    return texts.to_frame("text").select_seq(dates).to_series()


def _parse_date(pattern: str) -> pl.Expr:
    dates = pl.col("text").str.to_datetime(pattern, time_unit="us", strict=False)
    has_zone = pattern in _ZONE_PATTERNS
    return dates.dt.replace_time_zone(None) if has_zone else dates  # in UTC


def _to_pull_flags(values: pl.Series) -> pl.Series:
    words, is_pull = values.cast(pl.String).str.to_lowercase(), list(OPERATIONS.values())
    return words.replace_strict(list(OPERATIONS), is_pull, default=None, return_dtype=pl.Boolean)


INTEGER = Kind(INTEGER_EXPECTED, _to_integers, "--ignore")
INTEGER_KEY = Kind(KEY_EXPECTED, _to_integer_keys, "--text")
WHOLE_FLOAT_KEY = Kind(KEY_EXPECTED, _to_whole_float_keys, "--text")
TEXT_KEY = Kind("a text", _hash_text_keys, "--skip-bad")
HEX_KEY = Kind("a hexadecimal number of up to 64 bits", _parse_hexadecimal, "--text")
NUMBER = Kind("a number", _to_numbers, "--ignore")
DATETIME = Kind("a date and time", _to_microseconds, "--ignore")
TEXT = Kind("a name", lambda values: values.cast(pl.String), "--ignore")
OPERATION = Kind(
    f"{' or '.join(TRANSFERS)}, or an operation such as get, set, read, write, delete",
    _to_pull_flags,
    "--ignore",
)
WEIGHT = Kind(f"an integer from 0 to {MAX_WEIGHT:,}", _to_weights, "--ignore")
DIM = Kind(f"an integer from 1 to {MAX_DIM}, as a longer row is several keys", _to_dims)


def kind_of_keys(sample: pl.Series) -> Kind:
    if sample.dtype.is_numeric():
        return INTEGER_KEY
    texts = sample.drop_nulls().cast(pl.String).str.strip_chars()
    if not len(texts):
        return INTEGER_KEY
    is_whole = texts.str.contains(_WHOLE_NUMBER)
    if texts.filter(is_whole).str.contains(r"^0\d").any():
        return TEXT_KEY  # as an integer, a text with leading zeros would equal one without
    is_negative = texts.str.contains(r"^-\d+$")
    others = texts.filter(~is_whole & ~is_negative)
    if others.str.contains(_WHOLE_FLOAT).sum() > len(others) / 2 and not is_whole.any():
        return WHOLE_FLOAT_KEY
    many = max(_MIN_TEXTS, _TEXT_SHARE * len(texts))
    are_texts = others.n_unique() >= _MIN_TEXTS and len(others) >= many
    # Some negative values stand for a category that is not known.
    if 2 * len(others) > len(texts) or are_texts or (is_negative.sum() >= many and not is_negative.all()):
        return TEXT_KEY
    return INTEGER_KEY  # the others are errors


def kind_of_times(sample: pl.Series) -> Kind:
    if sample.dtype.is_temporal():
        return DATETIME
    if sample.dtype != pl.String:
        return NUMBER
    return DATETIME if DATETIME.convert(sample).count() > NUMBER.convert(sample).count() else NUMBER


_LIST_SEPARATORS = ("|", ";", ",", " ")
IN_BRACKETS = "[,]"
"""Stands for the separator of lists such as `[7, 8]` (JSON), `('a', 'b')` (Python) or `[7 8]` (numpy)."""
_BRACKETED = re.compile(r"\[.*\]|\(.*\)", re.DOTALL)
_ID_PART = re.compile(r"\S*\d\S*")
_LIST_SHARE = 0.1
"""Share of the cells with several values from which on a column's cells are lists."""
_BRACKETED_SHARE = 0.9  # of the cells that begin and end with brackets, from which on they are lists


def split_cells(cells: pl.Series, separator: str) -> pl.Series:
    """Return the values of each cell, without spaces around them."""
    texts, around = cells.fill_null(""), " \t"
    if separator == IN_BRACKETS:
        inner = pl.col("cell").str.strip_chars(" \t\r\n[]()")
        has_commas = inner.str.contains("[,\"']")
        commas = pl.when(has_commas).then(inner).otherwise(inner.str.replace_all(r"\s+", ","))
        texts = texts.to_frame("cell").select(commas).to_series()
        separator, around = ",", " \t\r\n\"'"
    value = pl.element().str.strip_chars(around)
    return texts.str.split(separator).list.eval(value.filter(value != ""))


def are_in_brackets(cells: Sequence[str]) -> bool:
    bracketed = sum(_BRACKETED.fullmatch(cell.strip()) is not None for cell in cells)
    return bool(cells) and bracketed >= _BRACKETED_SHARE * len(cells)


def separator_of_lists(cells: Sequence[str]) -> str | None:
    """Return what separates several values in a cell (`A|B`), or None if a cell is one value.

    Lists have different lengths; parts between spaces have a digit each, and those between other separators
    recur in other cells: a text such as a title has spaces and commas, too.
    """
    if are_in_brackets(cells):
        return IN_BRACKETS
    for separator in _LIST_SEPARATORS:
        lists = [parts for cell in cells if len(parts := cell.split(separator)) > 1]
        lengths = {len(cell.split(separator)) for cell in cells}
        if len(lists) < max(1, _LIST_SHARE * len(cells)) or len(lengths) == 1 or not all(map(all, lists)):
            continue
        values = [part.strip() for parts in lists for part in parts]
        if separator == " ":
            if all(map(_ID_PART.fullmatch, values)):
                return separator
        elif all(map(str.isdecimal, values)) or 2 * len(set(values)) <= len(values):
            return separator
    return None
