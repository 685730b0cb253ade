"""Ctrl-C is one line and exit code 130, whenever it comes. Imports nothing that takes time."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

INTERRUPTED = 130
"""Exit code."""
_STDERR = 2


def end_at_ctrl_c() -> None:
    """Let Ctrl-C end the process at once, where an exception would leave modules half imported."""
    # What runs in the background of a script ignores SIGINT, and means it.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)
    # The script `hotline` has blocked it for the interpreter's own start.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def raise_at_ctrl_c() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, so that a command can end in order."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupted(again: str | None = None) -> str:
    """The line that is told; `again` is what to ask for to finish what was begun."""
    return f"hotline: interrupted{f'; {again} again to finish' if again else ''}"


def _end(number: int, frame: object) -> NoReturn:
    os.write(_STDERR, f"{interrupted()}\n".encode())
    os._exit(INTERRUPTED)
