"""How the switch and the servers of a design combine the values that are pushed to a parameter."""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import MAX_U32

_SIGN = 1 << 31
_ADD, _MAX, MIN_CODE, _COUNT = range(4)  # `Combination.code`


class Combination(str, Enum):
    """The result of all pushes to a value, which is 0 before the first one."""

    ADD = "add"
    """The sum, modulo 2^32."""
    MAX = "max"
    """The largest pushed value, as a signed number of 32 bits, or 0 if it is larger."""
    MIN = "min"
    COUNT = "count"
    """The number of pushes."""
    NONE = "none"
    """Nothing that can be checked, for example a sketch: no value is accounted for. Servers add."""

    @property
    def code(self) -> int:
        """The number that stands for it in compiled code."""
        return 0 if self is Combination.NONE else list(Combination).index(self)

    @property
    def result(self) -> str:
        """Noun phrase for the value of a parameter after a run."""
        nouns = {"max": "the maximum", "min": "the minimum"}
        return "the number of pushes" if self is self.COUNT else f"{nouns.get(self, 'the sum')} of its pushes"

    @property
    def trains(self) -> bool:
        """Whether pushed gradients can train a model."""
        return self.code == _ADD

    def units(self, pushed: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return what pushed values contribute each."""
        return np.ones_like(pushed) if self is Combination.COUNT else pushed

    def merge(self, values: NDArray[np.uint32], others: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Combine the results of two parts of the pushes, such as those at the switch and at a server."""
        if self in (Combination.MAX, Combination.MIN):
            larger = np.maximum if self is Combination.MAX else np.minimum
            merged: NDArray[np.int32] = larger(values.view(np.int32), others.view(np.int32))
            return merged.view(np.uint32)
        return values + others


def combination_of(code: int) -> Combination:
    return list(Combination)[code]


def combine(code: int, value: int, pushed: int) -> int:
    """Return the word that a value is after a push, by `Combination.code`; agents compile this function."""
    if code == _ADD:
        return value + pushed & MAX_U32
    if code == _COUNT:
        return value + 1 & MAX_U32
    is_larger = (pushed ^ _SIGN) > (value ^ _SIGN)
    return pushed if is_larger == (code == _MAX) else value
