"""Write rows to a switch in this process, as the P4Runtime messages that other switches get over gRPC."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from finsy.proto import p4r

from controller.tables import Change, RowEncoder, TableRow, Update
from softswitch.errors import StateError
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.plain.request import Request

_SMALL_WRITE = 64  # maximum updates of a write whose encoding is cached
_CACHED_UPDATES = 1024


class RowWriter:
    def __init__(self, control: ControlledPipeline[Any]) -> None:  # a pipeline of any kind
        self._control = control
        self._encode = RowEncoder(control.config.p4info).update
        # Schedules of faults write the same few rows many times.
        self._encode_cached = lru_cache(_CACHED_UPDATES)(self._encode)

    def insert(self, rows: Iterable[TableRow]) -> None:
        self.write(Update(Change.INSERT, row) for row in rows)

    def write(self, updates: Iterable[Update]) -> None:
        updates = list(updates)
        encode = self._encode_cached if len(updates) <= _SMALL_WRITE else self._encode
        message = p4r.WriteRequest(updates=map(encode, updates))
        results = self._control.write_bytes(Request(message.SerializeToString()))
        for update, refusal in zip(updates, results, strict=True):
            if refusal is not None:
                change = update.change.name.lower()
                raise StateError(f"{change} of {update.row}: {refusal.code.name}: {refusal}")
