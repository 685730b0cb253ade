"""Arrays that the states of workers have in common, whatever their design."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from foundation.logs.columns import Row
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import Rpc, rpcs
from hosts.worker.window import Slot
from nativekit.records import Ints, Records, Words, records


class OperandArrays(TypedDict):
    """What an operation reads and writes; B is the largest number of its keys."""

    positions: Ints
    """int64[B]: positions of the keys in the key space."""
    deltas: Words
    """uint32[B]: what a push adds."""
    values: Words
    """uint32[B]: what a pull brings."""
    answered: NDArray[np.bool_]
    """bool[>= B]: which deltas are known to be applied; the caller's array replaces it."""


class WindowArrays(TypedDict):
    """What `hosts.worker.window` works on, and the log of answered RPCs."""

    slots: Records[Slot]
    """SLOT[WINDOW]"""
    sent: Records[Rpc]
    """RPC[WINDOW or more]: each slot's datagram, as long as it may be sent again."""
    resends: Ints
    """int64[WINDOW]: slots to be sent again, a ring of header.queued_resends from header.resends on."""
    log: Records[Row]
    """ROW[n]: answered RPCs, the first header.rows."""


def operand_arrays(largest: int) -> OperandArrays:
    """Return arrays for operations on at most `largest` keys."""
    return {
        "positions": np.zeros(largest, np.int64),
        "deltas": np.zeros(largest, np.uint32),
        "values": np.zeros(largest, np.uint32),
        "answered": np.zeros(largest, np.bool_),
    }


def window_arrays(rows: int, more_datagrams: int = 0) -> WindowArrays:
    """Return the arrays of an idle window, with a log of `rows` and buffers for more datagrams than slots."""
    return {
        "slots": records(WINDOW, Slot),
        "sent": rpcs(WINDOW + more_datagrams),
        "resends": np.zeros(WINDOW, np.int64),
        "log": records(rows, Row),
    }
