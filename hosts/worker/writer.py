"""The log of RPCs during a block: another thread writes full arrays of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.logs.backlog import LIMIT, Backlog
from foundation.logs.columns import RpcRow
from hosts.worker.client import BaseClient
from hosts.worker.logs import Origin
from nativekit.records import Records, records

ROWS = 1 << 16
"""Rows of an array, more than a block of the default run has; they are written when the block ends."""


@dataclass(frozen=True, slots=True)
class _RowBatch:
    """Logged rows, the beginning of `array`, which is reused once they are written."""

    rows: Records[RpcRow]
    array: Records[RpcRow]

    def __len__(self) -> int:
        return len(self.rows)


class RpcWriter:
    def __init__(
        self, write: Callable[[NDArray[np.void], Origin], None], rows: int = ROWS, limit: int = LIMIT
    ) -> None:
        self._write = write
        self._rows = rows
        self._spare_arrays = [_allocate(rows), _allocate(rows)]
        self._backlog: Backlog[_RowBatch] = Backlog(limit)

    @property
    def dropped(self) -> int:
        return self._backlog.dropped

    def begin(self, client: BaseClient) -> None:
        client.take_records(self._next_array())

    def swap(self, client: BaseClient, origin: Origin) -> None:
        self._write_rows(client, self._next_array(), origin)

    def end(self, client: BaseClient, origin: Origin) -> None:
        self._write_rows(client, records(0, RpcRow), origin)
        self._recycle(self._backlog.settle())

    def close(self) -> None:
        self._backlog.close()

    def _write_rows(self, client: BaseClient, new_log: Records[RpcRow], origin: Origin) -> None:
        array = client.state.log
        batch = _RowBatch(client.take_records(new_log), array)
        if not self._backlog.put(batch, lambda rows_batch: self._write(rows_batch.rows, origin)):
            self._recycle([batch])

    def _next_array(self) -> Records[RpcRow]:
        self._recycle(self._backlog.take_written())
        # If the writer is slow, more arrays are made, up to the backlog's limit: the worker must not wait.
        return self._spare_arrays.pop() if self._spare_arrays else _allocate(self._rows)

    def _recycle(self, batches: list[_RowBatch]) -> None:
        self._spare_arrays += [batch.array for batch in batches]


def _allocate(rows: int) -> Records[RpcRow]:
    """Return an array whose memory is already mapped."""
    array = records(rows, RpcRow)
    array.view(np.uint8)[:] = 0
    return array
