"""Turn Ctrl-C into one line and exit code 130 at any time. This module imports nothing that takes time."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

INTERRUPTED = 130
_STDERR = 2


def end_at_ctrl_c() -> None:
    """Let Ctrl-C end the process at once, since an exception could leave modules half imported."""
    # SIGINT stays ignored in the background of a shell script.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end_process)
    # The script `hotline` blocks SIGINT while the interpreter starts.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def raise_at_ctrl_c() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, so that a command can end in order."""
    if signal.getsignal(signal.SIGINT) is _end_process:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupted_message(retry_hint: str | None = None) -> str:
    return f"hotline: interrupted{f'; {retry_hint} again to finish' if retry_hint else ''}"


def _end_process(number: int, frame: object) -> NoReturn:
    os.write(_STDERR, f"{interrupted_message()}\n".encode())
    os._exit(INTERRUPTED)
