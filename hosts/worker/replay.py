"""A worker's replay log as a file that outlives the process: what the switch has acknowledged to it, by
key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.errors import LedgerError
from hosts.worker.ledger import reserve

HELD, OWED = 0, 1
"""Rows of a replay log: what the switch has acknowledged, and what one that is gone had."""
_MAGIC = 0x676F6C79616C7065
_HEAD = np.dtype([("magic", "<u8"), ("size", "<i8"), ("switch", "<i8")])


class ReplayLog:
    """`kept` is uint32[2, size], by position in the key space; `switch` says which switch holds what is
    held.

    What another one held is owed. Raises `LedgerError` for a file that is none, or of other parameters.
    """

    def __init__(self, size: int, switch: int, path: Path) -> None:
        n_bytes = _HEAD.itemsize + 2 * 4 * size
        is_new = not path.exists()
        if is_new:
            reserve(path, n_bytes)
        elif path.stat().st_size != n_bytes:
            raise LedgerError(f"{path}: has {path.stat().st_size} bytes, not {n_bytes} for {size} parameters")
        content = np.asarray(np.memmap(path, dtype=np.uint8, mode="r+", shape=(n_bytes,)))
        self._head: Any = content[: _HEAD.itemsize].view(_HEAD)[0]
        if is_new:
            self._head["magic"], self._head["size"], self._head["switch"] = _MAGIC, size, switch
        elif self._head["magic"] != _MAGIC:
            raise LedgerError(f"{path}: is no replay log")
        self.kept: NDArray[np.uint32] = content[_HEAD.itemsize :].view(np.uint32).reshape(2, size)
        if self._head["switch"] != switch:
            self.kept[OWED] += self.kept[HELD]
            self.kept[HELD] = 0
            self.is_of(switch)

    @property
    def owes(self) -> bool:
        """Something of it is to be pushed again."""
        return bool(self.kept[OWED].any())

    def is_of(self, switch: int) -> None:
        """What is held from now on is held by this switch."""
        self._head["switch"] = switch
