"""What a control plane is made from again by another process: its config, and all that it was told.

Requests are kept before they are done, so nothing that packets have met is missing; what was kept and not
done when the process was killed, is done by the next. Each is kept with the time at which it came: done
again at the same times in the same order, they lead to the same.
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


class Kept:
    """The files of one pipeline in a folder of theirs; `close`, or nobody's holding it, closes them."""

    def __init__(self, folder: Path, config: p4r.ForwardingPipelineConfig | None = None) -> None:
        """Those that are there; with a config new ones."""
        self._config = folder / "config.pb"
        if config is not None:
            self.set_config(config)
        self._journal = os.open(
            folder / "journal", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        self.close = weakref.finalize(self, os.close, self._journal)

    def set_config(self, config: p4r.ForwardingPipelineConfig) -> None:
        """Replace the config, as with another cookie."""
        new = self._config.with_suffix(".new")
        try:
            new.write_bytes(config.SerializeToString())
            os.replace(new, self._config)
        except OSError as error:
            raise _refusal("pipeline config", error) from None

    def config(self) -> p4r.ForwardingPipelineConfig:
        """The config; `SwitchError` where there is none that can be read."""
        try:
            return p4r.ForwardingPipelineConfig.FromString(self._config.read_bytes())
        except (OSError, DecodeError) as error:
            raise SwitchError(f"{self._config}: no pipeline config that can be read: {error}") from None

    def add(self, now: int, data: bytes) -> None:
        """Keep the bytes of a request that is to be done; `Refusal` where the disk does not take it."""
        record = _HEAD.pack(now, len(data)) + data
        before = os.fstat(self._journal).st_size
        try:
            if os.write(self._journal, record) < len(record):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            os.ftruncate(self._journal, before)
            raise _refusal("request", error) from None

    def requests(self) -> Iterator[tuple[int, p4r.WriteRequest]]:
        """Time and request, in order. One that was not kept whole was not done, and goes.

        `SwitchError` where one cannot be read.
        """
        at, size = 0, os.fstat(self._journal).st_size
        while at + _HEAD.size <= size:
            now, length = _HEAD.unpack(os.pread(self._journal, _HEAD.size, at))
            if at + _HEAD.size + length > size:
                break
            try:
                request = p4r.WriteRequest.FromString(os.pread(self._journal, length, at + _HEAD.size))
            except DecodeError as error:
                text = f"{self._config.parent / 'journal'}: at byte {at} is no Write request: {error}"
                raise SwitchError(text) from None
            yield now, request
            at += _HEAD.size + length
        os.ftruncate(self._journal, at)


def _refusal(what: str, error: OSError) -> Refusal:
    return Refusal(StatusCode.RESOURCE_EXHAUSTED, f"the {what} cannot be kept: {error.strerror}")
