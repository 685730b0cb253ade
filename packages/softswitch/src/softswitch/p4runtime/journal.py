"""The journal of a pinned pipeline, from which another process rebuilds its control plane.

It has the config and all Write requests, each with its time. Requests are written before they are executed,
so none is missing; the next process executes a request that a killed process did not. Replaying
them in the same order, at the same times, leads to the same state.
"""

from __future__ import annotations

import errno
import io
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.message import DecodeError
from grpc import StatusCode

from nativekit.files import replace_file
from softswitch.errors import SwitchError
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal

_RECORD_HEADER = struct.Struct("<QI")  # time in µs, length of the request in bytes


class Journal:
    """The files of one pipeline, created if a config is given; open until `close`."""

    def __init__(self, folder: Path, config: p4r.ForwardingPipelineConfig | None = None) -> None:
        self._config_path = folder / "config.pb"
        if config is not None:
            self.set_config(config)
        descriptor = os.open(folder / "journal", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._file = io.FileIO(descriptor, "a+")

    def close(self) -> None:
        self._file.close()

    def set_config(self, config: p4r.ForwardingPipelineConfig) -> None:
        try:
            replace_file(self._config_path, config.SerializeToString())
        except OSError as error:
            raise _persist_error("pipeline config", error) from None

    def config(self) -> p4r.ForwardingPipelineConfig:
        try:
            return p4r.ForwardingPipelineConfig.FromString(self._config_path.read_bytes())
        except (OSError, DecodeError) as error:
            raise SwitchError(f"{self._config_path}: cannot read the pipeline config: {error}") from None

    def add(self, time_us: int, data: bytes) -> None:
        """Append a serialized request before its execution; raises Refusal if the disk is full."""
        record = _RECORD_HEADER.pack(time_us, len(data)) + data
        old_size = self._size()
        try:
            if os.write(self._file.fileno(), record) < len(record):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            os.ftruncate(self._file.fileno(), old_size)
            raise _persist_error("request", error) from None

    def read_requests(self) -> Iterator[tuple[int, p4r.WriteRequest]]:
        """Yield times and requests, in order; remove an incomplete last one. Raises SwitchError."""
        offset, size = 0, self._size()
        while offset + _RECORD_HEADER.size <= size:
            time_us, length = _RECORD_HEADER.unpack(self._read(_RECORD_HEADER.size, offset))
            if offset + _RECORD_HEADER.size + length > size:
                break
            try:
                request = p4r.WriteRequest.FromString(self._read(length, offset + _RECORD_HEADER.size))
            except DecodeError as error:
                journal = self._config_path.parent / "journal"
                text = f"{journal}: no valid Write request at byte {offset}: {error}"
                raise SwitchError(text) from None
            yield time_us, request
            offset += _RECORD_HEADER.size + length
        os.ftruncate(self._file.fileno(), offset)

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _read(self, size: int, offset: int) -> bytes:
        return os.pread(self._file.fileno(), size, offset)


def _persist_error(subject: str, error: OSError) -> Refusal:
    return Refusal(StatusCode.RESOURCE_EXHAUSTED, f"the {subject} cannot be persisted: {error.strerror}")
