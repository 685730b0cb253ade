"""What a run orders a script's worker to do: let calls through for a block, shut them out, take hints."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from foundation.errors import HotlineError
from hotline.kv.books import RunBooks
from hotline.kv.connection import Connection, Message
from hotline.kv.engine import Engine
from hotline.kv.errors import Gone


class Orders:
    """A thread that carries them out, one after the other, until the connection ends."""

    def __init__(self, connection: Connection, engine: Engine, books: RunBooks) -> None:
        self._connection, self._engine, self._books = connection, engine, books
        self._is_in_block = False
        self._thread = threading.Thread(target=self._run, name="hotline-orders", daemon=True)
        self._thread.start()

    def close(self) -> Message:
        """The engine has been closed: nothing is done after this. What the run is to know at last."""
        self._connection.orders.put(None)
        self._thread.join()
        try:
            return {"ran": self._shut() or None, "dropped_rows": self._books.dropped_rows}
        finally:
            self._books.close()

    def _run(self) -> None:
        while (order := self._connection.orders.get()) is not None:
            number, what = order.pop("order"), order.pop("do")
            try:
                answer = self._do(what, order)
            except (HotlineError, OSError) as error:
                answer = {"error": str(error)}
            try:
                self._connection.tell("done", order=number, **answer)
            except Gone:
                return

    def _do(self, what: str, given: Message) -> Message:
        if what == "open":
            return self._open(**given)
        if what == "shut":
            return self._shut()
        if what == "hint":
            return self._hint(**given)
        return {"dropped_rows": self._books.dropped_rows}

    def _open(self, start_ns: int, **block: Any) -> Message:
        time.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
        self._books.begin(self._engine.client, self._engine.steps, **block)
        self._is_in_block = True
        self._engine.open()
        return {}

    def _shut(self) -> Message:
        self._engine.shut()
        if not self._is_in_block:
            return {}
        self._is_in_block = False
        return self._books.end(self._engine.client)

    def _hint(self, file: str | None) -> Message:
        keys: Any = None
        if file is not None:
            keys = pl.read_parquet(Path(file), columns=["key"], glob=False)["key"].to_numpy()
            keys = keys.astype(np.uint64)
        self._engine.client.hint(keys)
        return {}
