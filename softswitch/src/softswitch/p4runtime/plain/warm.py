"""Compile what plain writes need, or load it, before the first of them comes."""

from __future__ import annotations

import numpy as np

from softswitch.memory.rows import Words
from softswitch.p4runtime.plain.encode import ACTION_ROW, FIELD, TABLE_ROW, encode
from softswitch.p4runtime.plain.request import Request

_DELETION = bytes.fromhex("2211 0803 120d 120b 0801 1207 0801 1203 0a0101")


def warm() -> None:
    """Scan a request, and encode none of it."""
    scanned = Request(_DELETION).scanned
    assert scanned is not None
    tables, actions, fields = (np.zeros(0, dtype=kind) for kind in (TABLE_ROW, ACTION_ROW, FIELD))
    ops: Words = np.zeros(0, dtype=np.uint64)
    starts = np.zeros(1, dtype=np.int64)
    encode(scanned.data, scanned.updates[:0], scanned.values, tables, actions, fields, ops, starts)
