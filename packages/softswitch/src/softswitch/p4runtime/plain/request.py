"""Split a serialized Write request into the message without updates and the positions of their values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.plain.scan import (
    MIN_VALUE_BYTES,
    UPDATE_COLUMNS,
    VALUE_COLUMNS,
    count_updates,
    scan,
)

_MAX_SCANNED_BYTES = 1 << 24
"""Maximum bytes of a request that is scanned, which takes several times as much memory."""


@dataclass(frozen=True)
class ScannedUpdates:
    data: npt.NDArray[np.uint8]  # the request
    updates: npt.NDArray[np.int64]  # [updates, UPDATE_COLUMNS], see `plain.scan`
    values: npt.NDArray[np.int64]  # [at least all values, VALUE_COLUMNS], see `plain.scan`


class Request:
    """A Write request; `scanned` is None if the scanner does not support all updates (see `plain.scan`)."""

    head: p4r.WriteRequest  # without the updates in `scanned`, or the whole message

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.scanned = self._scan()
        if self.scanned is None:
            self.head = self.whole

    @cached_property
    def whole(self) -> p4r.WriteRequest:
        return p4r.WriteRequest.FromString(self.data)

    def _scan(self) -> ScannedUpdates | None:
        if len(self.data) > _MAX_SCANNED_BYTES:
            return None
        data = np.frombuffer(self.data, dtype=np.uint8)
        count = count_updates(data)
        if count <= 0:
            return None
        updates = np.empty((count, UPDATE_COLUMNS), dtype=np.int64)
        values = np.empty((len(data) // MIN_VALUE_BYTES, VALUE_COLUMNS), dtype=np.int64)
        head = np.empty(len(data), dtype=np.uint8)
        head_length = scan(data, updates, values, head)
        if head_length < 0:
            return None
        self.head = p4r.WriteRequest.FromString(head[:head_length].tobytes())
        return ScannedUpdates(data, updates, values)
