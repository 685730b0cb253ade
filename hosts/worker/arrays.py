"""Arrays that the worker states of all designs have in common."""

from __future__ import annotations

from typing import Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from foundation.logs.columns import Row
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import Rpc, rpcs
from hosts.worker.window import Slot
from nativekit.records import Ints, Records, Words, records

_ROWS = 1024  # initial size of the log


class OperandState(Protocol):
    """The operands of an operation; B is its maximum number of keys."""

    @property
    def positions(self) -> Ints:
        """int64[B]: positions of the keys in the key space."""

    @property
    def deltas(self) -> Words:
        """uint32[B]: the deltas of a push."""

    @property
    def values(self) -> Words:
        """uint32[B]: the values of a pull."""

    @property
    def answered(self) -> NDArray[np.bool_]:
        """bool[>= B]: which deltas are known to be applied; the caller of a push passes the array."""


class OperandArrays(TypedDict):
    positions: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]


class WindowArrays(TypedDict):
    slots: Records[Slot]
    sent: Records[Rpc]
    resends: Ints
    log: Records[Row]


def operand_arrays(max_keys: int) -> OperandArrays:
    return {
        "positions": np.zeros(max_keys, np.int64),
        "deltas": np.zeros(max_keys, np.uint32),
        "values": np.zeros(max_keys, np.uint32),
        "answered": np.zeros(max_keys, np.bool_),
    }


def window_arrays(more_datagrams: int = 0) -> WindowArrays:
    return {
        "slots": records(WINDOW, Slot),
        "sent": rpcs(WINDOW + more_datagrams),
        "resends": np.zeros(WINDOW, np.int64),
        "log": records(_ROWS, Row),
    }
