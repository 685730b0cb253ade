"""Errors of conformance runs and of their targets; the text of each is one clear line."""

from __future__ import annotations

from softswitch.errors import SwitchError


class ConformanceError(SwitchError):
    """Base of all errors that the runner reports."""


class StfError(ConformanceError):
    """A line of an STF file that is malformed, or that names what the program does not have."""


class Mismatch(ConformanceError):
    """The switch did something else than the vectors expect."""


class TargetError(SwitchError):
    """Base of all errors that targets report."""


class P4RuntimeError(TargetError):
    """The switch refused a call, or did not answer. `code` is the one of `google.rpc.Code`, 0 without one."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class Unsupported(TargetError):
    """A target cannot do what a statement or a program asks for, and says so by name."""
