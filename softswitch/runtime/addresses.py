"""gRPC addresses by BMv2's Thrift ports, for those who know a switch by `--thrift-port`.

A switch that is started with a Thrift port, which it does not serve, notes its gRPC address in a small file;
who is given the same Thrift port finds it there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from softswitch.errors import SwitchError

DEFAULT_THRIFT_PORT = 9090
"""BMv2's."""


def folder() -> Path:
    """Where the notes are: of this user alone."""
    above = os.environ.get("XDG_RUNTIME_DIR")
    return Path(above, "softswitch") if above else Path(tempfile.gettempdir(), f"softswitch-{os.getuid()}")


@contextmanager
def noted(thrift_port: int, address: str) -> Iterator[None]:
    """Have the gRPC address HOST:PORT found by a Thrift port."""
    note = _note(thrift_port)
    try:
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.write_text(f"{address}\n")
    except OSError as error:
        raise SwitchError(f"{note}: {error.strerror}") from None
    try:
        yield
    finally:
        with suppress(OSError):
            if note.read_text().strip() == address:
                note.unlink()


def address_of(thrift_port: int) -> str | None:
    """The gRPC address of the switch with a Thrift port; None where none has noted it."""
    with suppress(OSError):
        return _note(thrift_port).read_text().strip()
    return None


def _note(thrift_port: int) -> Path:
    return folder() / f"thrift-{thrift_port}"
