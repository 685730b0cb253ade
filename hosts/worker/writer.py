"""The log of RPCs while a block runs: full arrays of rows are written by another thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.logs.backlog import LIMIT, Backlog
from foundation.logs.columns import Row
from hosts.worker.client import BaseClient
from hosts.worker.logs import Origin
from nativekit.records import Records, records

ROWS = 1 << 16
"""Of one array: a block of the default run fills less, and is written when it has ended."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """What a client has logged, and the array that it is the head of."""

    rows: Records[Row]
    array: Records[Row]

    def __len__(self) -> int:
        return len(self.rows)


class RpcWriter:
    """Gives clients arrays for their rows, and has `write` write them; rows are never dropped in silence."""

    def __init__(
        self, write: Callable[[NDArray[np.void], Origin], None], rows: int = ROWS, limit: int = LIMIT
    ) -> None:
        self._write = write
        self._rows = rows
        self._spare = [_touched(rows), _touched(rows)]
        self._backlog: Backlog[_Batch] = Backlog(limit)

    @property
    def dropped(self) -> int:
        """Rows that the disk was too slow for, so far."""
        return self._backlog.dropped

    def begin(self, client: BaseClient) -> None:
        """Give the client an array to log a block in; it must have logged nothing yet."""
        client.take_records(self._fresh())

    def swap(self, client: BaseClient, origin: Origin) -> None:
        """Write what the client has logged, beside it, and give it another array."""
        self._take(client, self._fresh(), origin)

    def end(self, client: BaseClient, origin: Origin) -> None:
        """Write what the client has logged, and wait until all is written; raises what has failed."""
        self._take(client, records(0, Row), origin)
        self._keep(self._backlog.settle())

    def close(self) -> None:
        """End the thread."""
        self._backlog.close()

    def _take(self, client: BaseClient, fresh: Records[Row], origin: Origin) -> None:
        array = client.state.log
        batch = _Batch(client.take_records(fresh), array)
        if not self._backlog.put(batch, lambda taken: self._write(taken.rows, origin)):
            self._keep([batch])

    def _fresh(self) -> Records[Row]:
        self._keep(self._backlog.take_written())
        # When the writer falls behind there is more to be written, not less.
        return self._spare.pop() if self._spare else _touched(self._rows)

    def _keep(self, written: list[_Batch]) -> None:
        """Use their arrays again."""
        self._spare += [batch.array for batch in written]


def _touched(rows: int) -> Records[Row]:
    """An array that has its memory already."""
    array = records(rows, Row)
    array.view(np.uint8)[:] = 0
    return array
