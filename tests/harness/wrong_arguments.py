"""Values of every kind that a caller may pass where another kind is expected."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np

from foundation.errors import HotlineError
from foundation.text import show

F32 = np.float32


class Hostile:
    """An object of whose every conversion another error is raised."""

    def _fail(self, *arguments: object, **more: object) -> Any:
        raise RuntimeError("hostile")

    __array__ = __float__ = __index__ = __int__ = __len__ = __iter__ = __fspath__ = __repr__ = _fail
    __eq__ = __lt__ = _fail
    __hash__ = None  # type: ignore[assignment]  # as a list has none


def frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


def masked(*values: float, dtype: Any) -> Any:
    return np.ma.array(np.array(values, dtype), mask=[False] * (len(values) - 1) + [True])


KINDS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "text": lambda: "x",
    "text of a number": lambda: "1",
    "empty text": lambda: "",
    "long text": lambda: "x" * 100_000,
    "text with NUL": lambda: "a\0b",
    "surrogate": lambda: "\ud800",
    "bytes": lambda: b"x",
    "NaN": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "negative": lambda: -1,
    "zero": lambda: 0,
    "huge": lambda: 2**70,
    "enormous": lambda: 10**400,
    "of more digits than Python prints": lambda: 10**5000,
    "fraction": lambda: 1.5,
    "complex": lambda: 1j,
    "decimal": lambda: Decimal("NaN"),
    "bool": lambda: True,
    "list": lambda: [0, 1],
    "empty list": lambda: [],
    "nested list": lambda: [[0, 1]],
    "ragged list": lambda: [[0], [1, 2]],
    "list of None": lambda: [None, 1],
    "list of texts": lambda: ["0", "1"],
    "list of huge": lambda: [2**70, 1],
    "list of floats": lambda: [0.0, 1.0],
    "dict": lambda: {"x": 1},
    "dict of other names": lambda: {1: 1, None: 2},
    "set": lambda: {1, 2},
    "generator": lambda: (number for number in range(2)),
    "range": lambda: range(2),
    "function": lambda: os.getpid,
    "class": lambda: int,
    "object": object,
    "hostile object": Hostile,
    "int64 array": lambda: np.array([0, 1]),
    "negative array": lambda: np.array([0, -1]),
    "array with duplicates": lambda: np.array([1, 1]),
    "uint64 array": lambda: np.array([0, 2**63], np.uint64),
    "float32 array": lambda: np.zeros(2, F32),
    "float64 array": lambda: np.zeros(2),
    "float16 array": lambda: np.zeros(2, np.float16),
    "NaN array": lambda: np.array([0, np.nan], F32),
    "inf array": lambda: np.array([0, -np.inf], F32),
    "bool array": lambda: np.array([True, False]),
    "object array": lambda: np.array([0, None]),
    "text array": lambda: np.array(["0", "1"]),
    "time array": lambda: np.zeros(2, "M8[s]"),
    "record array": lambda: np.zeros(2, [("a", "f4")]),
    "array without dimensions": lambda: np.array(1),
    "empty array": lambda: np.zeros(0, F32),
    "longer array": lambda: np.zeros(9, F32),
    "array of shape (2, 2)": lambda: np.zeros((2, 2), F32),
    "array of shape (2, 1)": lambda: np.zeros((2, 1), F32),
    "masked float32": lambda: masked(0, 1, dtype=F32),
    "masked int64": lambda: masked(0, 1, dtype=np.int64),
    "masked constant": lambda: np.ma.masked,
    "frozen float32": lambda: frozen(np.zeros(2, F32)),
    "frozen int64": lambda: frozen(np.array([0, 1])),
    "strided float32": lambda: np.zeros(4, F32)[::2],
    "strided int64": lambda: np.arange(4)[::2],
    "big-endian float32": lambda: np.zeros(2, ">f4"),
    "big-endian int64": lambda: np.array([0, 1], ">i8"),
}


def refusal(call: Callable[[], object], kind: str) -> str:
    """Return the error of a call, which has to be one line of Hotline's that says what was expected."""
    try:
        call()
    except HotlineError as error:
        message = str(error)
        assert "\n" not in message and len(message) < 1_000 and "expected" in message, (kind, message)
        return message
    except Exception as error:
        raise AssertionError(f"{kind}: expected a HotlineError, got {error!r}") from error
    raise AssertionError(f"{kind}: expected a HotlineError, got none")


def is_named(message: str, value: Any) -> bool:
    """Whether a message describes a value: by its text, type, dtype, shape or first wrong element."""
    descriptions = [show(value), type(value).__name__, value if isinstance(value, str) else show(value)]
    if isinstance(value, dict):
        descriptions += map(str, value)
    with suppress(ValueError):  # of a ragged list
        value = np.asarray(value) if isinstance(value, list | range) else value
    if isinstance(value, np.ndarray):
        descriptions += [str(value.dtype), str(value.shape), *(str(each) for each in value.ravel()[:2])]
    return any(text in message for text in descriptions)
