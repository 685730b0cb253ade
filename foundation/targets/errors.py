"""What a target may fail with; the text of each is one clear line."""

from __future__ import annotations

from foundation.errors import HotlineError


class TargetError(HotlineError):
    """Base of all errors that targets report."""


class Bmv2NotFound(TargetError):
    """`simple_switch_grpc` is not where it was looked for."""


class SwitchEnded(TargetError):
    """A switch process ended before it should."""


class P4RuntimeError(TargetError):
    """The switch refused a call, or did not answer. `code` is the one of `google.rpc.Code`, 0 without one."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class Unsupported(TargetError):
    """A target cannot do what a statement or a program asks for, and says so by name."""
