"""The log of RPCs while a block runs: full arrays of rows are written by another thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.worker.client import Client
from hosts.worker.logs import Origin
from hosts.worker.state import ROW
from native.records import records

ROWS = 1 << 16
"""Of one array: a block of the default run fills less, and is written when it has ended."""


class RpcWriter:
    """Gives clients arrays for their rows, and has `write` write them; rows are never dropped in silence."""

    def __init__(self, write: Callable[[NDArray[np.void], Origin], None], rows: int = ROWS) -> None:
        self._write = write
        self._rows = rows
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._spare = [_touched(rows), _touched(rows)]
        self._writing: list[tuple[Future[None], Any]] = []

    def begin(self, client: Client) -> None:
        """Give the client an array to log a block in; it must have logged nothing yet."""
        client.take_records(self._fresh())

    def swap(self, client: Client, origin: Origin) -> None:
        """Write what the client has logged, beside it, and give it another array."""
        self._take(client, self._fresh(), origin)

    def end(self, client: Client, origin: Origin) -> None:
        """Write what the client has logged, and wait until all is written; raises what has failed."""
        self._take(client, records(0, ROW), origin)
        writing, self._writing = self._writing, []
        wait([future for future, _ in writing])
        self._spare += [array for _, array in writing]
        for future, _ in writing:
            future.result()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def _take(self, client: Client, fresh: Any, origin: Origin) -> None:
        array = client.state.log
        taken = client.take_records(fresh)
        self._writing.append((self._thread.submit(self._write, taken, origin), array))

    def _fresh(self) -> Any:
        while self._writing and self._writing[0][0].done() and not self._writing[0][0].exception():
            self._spare.append(self._writing.pop(0)[1])
        # When the writer falls behind there is more to be written, not less.
        return self._spare.pop() if self._spare else _touched(self._rows)


def _touched(rows: int) -> Any:
    """An array that has its memory already."""
    array = records(rows, ROW)
    array.view(np.uint8)[:] = 0
    return array
