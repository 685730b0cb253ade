"""Kinds of values in a column, and their conversion; values that cannot be converted become null."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.logs.access.block import INTEGER_EXPECTED, KEY_EXPECTED
from foundation.logs.columns import TRANSFERS
from foundation.protocol.header import NO_KEY

_SIGN = np.uint64(1 << 63)  # bit of a 64-bit float
_DATETIMES = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.fZ", "%Y-%m-%d")
_TEXT_SEED = 0x686F746C696E65  # "hotline" in ASCII; another seed would change the keys of texts


class Kind(NamedTuple):
    expected: str
    convert: Callable[[pl.Series], pl.Series]


def _to_integers(values: pl.Series) -> pl.Series:
    """Return values as UInt64; a float that is not a whole number becomes null."""
    if values.dtype.is_float():
        values = values.set(values != values.floor(), None)
    return values.cast(pl.UInt64, strict=False)


def _to_integer_keys(values: pl.Series) -> pl.Series:
    integers = _to_integers(values)
    return integers.set(integers == NO_KEY, None)


def _hash_text_keys(values: pl.Series) -> pl.Series:
    texts = values.cast(pl.String)
    hashed = texts.hash(_TEXT_SEED)
    return pl.select(pl.when(texts.is_not_null()).then(hashed)).to_series()


def _parse_hexadecimal(values: pl.Series) -> pl.Series:
    return values.str.to_integer(base=16, dtype=pl.UInt64, strict=False)


def _to_numbers(values: pl.Series) -> pl.Series:
    numbers = values.cast(pl.Float64, strict=False)
    return numbers.set(~numbers.is_finite(), None)


def _to_microseconds(values: pl.Series) -> pl.Series:
    if values.dtype == pl.String:
        parsed = [
            pl.lit(values).str.to_datetime(pattern, time_unit="us", strict=False) for pattern in _DATETIMES
        ]
        values = pl.select(pl.coalesce(parsed)).to_series()
    return values.cast(pl.Datetime("us")).to_physical().cast(pl.Float64)


def _to_pull_flags(values: pl.Series) -> pl.Series:
    is_transfer = values.is_in(list(TRANSFERS))
    return pl.select(pl.when(is_transfer).then(values == "pull")).to_series()


INTEGER = Kind(INTEGER_EXPECTED, _to_integers)
INTEGER_KEY = Kind(KEY_EXPECTED, _to_integer_keys)
TEXT_KEY = Kind("a text", _hash_text_keys)
HEX_KEY = Kind("a hexadecimal number of up to 64 bits", _parse_hexadecimal)
NUMBER = Kind("a number", _to_numbers)
DATETIME = Kind("a date and time", _to_microseconds)
TEXT = Kind("a name", lambda values: values.cast(pl.String))
OPERATION = Kind(" or ".join(TRANSFERS), _to_pull_flags)


def kind_of_keys(sample: pl.Series) -> Kind:
    if sample.dtype.is_numeric():
        return INTEGER_KEY
    texts = sample.drop_nulls().str.strip_chars().str.strip_prefix("+")
    non_integers = texts.str.contains(r"^\d+$").not_().sum()
    # If at least half are integers, the others are errors.
    return INTEGER_KEY if 2 * non_integers <= len(texts) else TEXT_KEY


def kind_of_times(sample: pl.Series) -> Kind:
    if sample.dtype.is_temporal():
        return DATETIME
    if sample.dtype != pl.String:
        return NUMBER
    return DATETIME if DATETIME.convert(sample).count() > NUMBER.convert(sample).count() else NUMBER


def sortable(values: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Return integers that sort as these numbers do."""
    if values.dtype == np.uint64:
        return values.astype(np.uint64, copy=False)
    # The bits of positive floats sort as they are, those of negative ones in reverse.
    bits = values.astype(np.float64).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)
