"""Exceptions of the switch: every error that is shown to users derives from `SwitchError`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

NESTED_TOO_DEEPLY = "it is nested too deeply"
"""Message for input that causes a RecursionError."""


class SwitchError(Exception):
    """Base of all errors that the switch reports; its text is one line."""


class ProgramError(SwitchError):
    """The BMv2 JSON cannot be read as a program (missing part, wrong type, dangling reference)."""


class UnsupportedConstruct(ProgramError):
    """A construct that this switch does not implement, with the P4 source line that p4c recorded."""

    def __init__(self, construct: str, location: str = "") -> None:
        super().__init__(f"{location + ': ' if location else ''}{construct} is not supported by softswitch")
        self.construct = construct
        self.location = location


@contextmanager
def add_location(location: str) -> Iterator[None]:
    """Add the `location` to an UnsupportedConstruct from the block, unless it has one."""
    try:
        yield
    except UnsupportedConstruct as error:
        raise error if error.location else UnsupportedConstruct(error.construct, location) from None


class PortError(SwitchError):
    """An error of a port or of an option about ports; the text names the port and its interface."""


class StateError(SwitchError):
    """A control-plane operation that the pipeline's state does not allow."""


class EntryExists(StateError):
    """INSERT of an entry whose match key is already in the table."""


class EntryMissing(StateError):
    """MODIFY or DELETE of an entry that is not in the table."""


class TableFull(StateError):
    """INSERT into a table that holds as many entries as its declared size."""


class BatchTooLarge(StateError):
    """A batch of writes that the data plane cannot apply between two packets."""


class SwitchEnded(SwitchError):
    """A switch process ended although no command stopped it."""


class Bmv2NotFound(SwitchError):
    """`simple_switch_grpc` was not found."""


class KernelError(SwitchError):
    """An operation that the kernel, the process's rights or BPF do not allow; the text is the reason."""
