"""Arrays that the worker states of all designs have in common."""

from __future__ import annotations

from typing import Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from foundation.logs.columns import RpcRow
from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import Rpc, rpcs
from hosts.worker.window import Slot, WindowHeader, open_window
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


class CallArrays(TypedDict):
    slots: Records[Slot]
    sent: Records[Rpc]
    free: Ints
    resends: Ints
    positions: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    log: Records[RpcRow]


def open_calls(
    header: WindowHeader, caller: Caller, max_keys: int, window: int, more_datagrams: int = 0
) -> CallArrays:
    """Return an idle worker's arrays, and fill in `header`; `more_datagrams` buffers follow the slots."""
    return {
        "slots": records(WINDOW, Slot),
        "sent": rpcs(WINDOW + more_datagrams),
        "free": open_window(header, caller, window),
        "resends": np.zeros(WINDOW, np.int64),
        "positions": np.zeros(max_keys, np.int64),
        "deltas": np.zeros(max_keys, np.uint32),
        "values": np.zeros(max_keys, np.uint32),
        "answered": np.zeros(max_keys, np.bool_),
        "log": records(_ROWS, RpcRow),
    }
