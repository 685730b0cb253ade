"""The journal of a pinned pipeline, from which another process rebuilds its control plane.

It has the config and all Write requests, each with its time. Requests are written before they are executed,
so none is missing; one that a killed process did not execute is executed by the next process. Replaying
them in the same order, at the same times, leads to the same state.
"""

from __future__ import annotations

import errno
import os
import struct
import weakref
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.message import DecodeError
from grpc import StatusCode

from softswitch.errors import SwitchError
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal

_HEAD = struct.Struct("<QI")  # time, bytes of the request


class Journal:
    """The files of one pipeline, created if a config is given; closed by `close` or on garbage collection."""

    def __init__(self, folder: Path, config: p4r.ForwardingPipelineConfig | None = None) -> None:
        self._config = folder / "config.pb"
        if config is not None:
            self.set_config(config)
        self._file = os.open(folder / "journal", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.close = weakref.finalize(self, os.close, self._file)

    def set_config(self, config: p4r.ForwardingPipelineConfig) -> None:
        new = self._config.with_suffix(".new")
        try:
            new.write_bytes(config.SerializeToString())
            os.replace(new, self._config)
        except OSError as error:
            raise _refusal("pipeline config", error) from None

    def config(self) -> p4r.ForwardingPipelineConfig:
        try:
            return p4r.ForwardingPipelineConfig.FromString(self._config.read_bytes())
        except (OSError, DecodeError) as error:
            raise SwitchError(f"{self._config}: cannot read the pipeline config: {error}") from None

    def add(self, now: int, data: bytes) -> None:
        """Append a serialized request before its execution; raises Refusal if the disk is full."""
        record = _HEAD.pack(now, len(data)) + data
        before = os.fstat(self._file).st_size
        try:
            if os.write(self._file, record) < len(record):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            os.ftruncate(self._file, before)
            raise _refusal("request", error) from None

    def requests(self) -> Iterator[tuple[int, p4r.WriteRequest]]:
        """Yield times and requests, in order; remove an incomplete last one. Raises SwitchError."""
        at, size = 0, os.fstat(self._file).st_size
        while at + _HEAD.size <= size:
            now, length = _HEAD.unpack(os.pread(self._file, _HEAD.size, at))
            if at + _HEAD.size + length > size:
                break
            try:
                request = p4r.WriteRequest.FromString(os.pread(self._file, length, at + _HEAD.size))
            except DecodeError as error:
                text = f"{self._config.parent / 'journal'}: no valid Write request at byte {at}: {error}"
                raise SwitchError(text) from None
            yield now, request
            at += _HEAD.size + length
        os.ftruncate(self._file, at)


def _refusal(what: str, error: OSError) -> Refusal:
    return Refusal(StatusCode.RESOURCE_EXHAUSTED, f"the {what} cannot be persisted: {error.strerror}")
