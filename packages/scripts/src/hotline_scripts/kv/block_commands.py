"""Execute the commands of a run in a script's worker: begin and end blocks, replace hints of hot keys."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from foundation.errors import HotlineError
from hotline_scripts.kv.connection import ClusterLost, Connection
from hotline_scripts.kv.engine import Engine
from hotline_scripts.kv.failures import describe
from hotline_scripts.kv.run_recorder import RunRecorder
from hotline_scripts.lines import Message

log = logging.getLogger(__name__)


class BlockCommandListener:
    """A thread that executes the commands in their order, until the connection ends."""

    def __init__(self, connection: Connection, engine: Engine, recorder: RunRecorder) -> None:
        self._connection, self._engine, self._recorder = connection, engine, recorder
        self._is_in_block = False
        self._thread = threading.Thread(target=self._run, name="hotline-block-commands", daemon=True)
        self._thread.start()

    def close(self) -> Message:
        """Stop the thread, and return the last block for the leave message. Close the engine first."""
        self._connection.commands.put(None)
        self._thread.join()
        try:
            return {"last_block": self._end_block() or None, "dropped_rows": self._recorder.dropped_rows}
        finally:
            self._recorder.close()

    def _run(self) -> None:
        while (command := self._connection.commands.get()) is not None:
            number, name = command.pop("number"), command.pop("command")
            try:
                answer = self._execute(name, command)
            except (HotlineError, OSError) as error:
                answer = {"error": str(error)}
            except Exception as error:  # or the run would wait for an answer until a timeout
                log.exception("command %s", name)
                answer = {"error": f"{name}: {describe(error)}"}
            try:
                self._connection.send("done", number=number, **answer)
            except ClusterLost:
                return

    def _execute(self, name: str, values: Message) -> Message:
        if name == "begin_block":
            return self._begin_block(**values)
        if name == "end_block":
            return self._end_block()
        if name == "hint":
            return self._hint(**values)
        # The command is "flush"; the log rows of a block are written at its end.
        return {"dropped_rows": self._recorder.dropped_rows}

    def _begin_block(self, start_ns: int, **block: Any) -> Message:
        time.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
        self._recorder.begin_block(self._engine.client, self._engine.steps, **block)
        self._is_in_block = True
        self._engine.resume()
        return {}

    def _end_block(self) -> Message:
        self._engine.pause()
        if not self._is_in_block:
            return {}
        self._is_in_block = False
        return self._recorder.end_block(self._engine.client)

    def _hint(self, file: str | None) -> Message:
        keys: Any = None
        if file is not None:
            keys = pl.read_parquet(Path(file), columns=["key"], glob=False)["key"].to_numpy()
            keys = keys.astype(np.uint64)
        self._engine.client.hint(keys)
        return {}
