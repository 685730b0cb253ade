"""Errors of conformance runs and of their targets; the text of each is one line."""

from __future__ import annotations

from softswitch.errors import SwitchError


class ConformanceError(SwitchError):
    """Base of the errors in STF files and of failed expectations."""


class StfError(ConformanceError):
    """A line of an STF file is malformed, or names an object that the program does not have."""


class Mismatch(ConformanceError):
    """The outputs of the switch differ from the expected ones."""


class TargetError(SwitchError):
    """Base of the errors that targets report."""


class P4RuntimeError(TargetError):
    """The switch refused a call, or did not answer; `code` is its `google.rpc.Code`, 0 if there is none."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class Unsupported(TargetError):
    """A target does not support a statement or a construct of the program, which the text names."""
