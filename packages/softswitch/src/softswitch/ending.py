"""The end of a switch by a signal, also while one of its threads compiles."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

_LOOK_S = 0.02
_MAX_LOOKS = 50
"""Looks until which the event loop must take a signal. A stopped process looks once, however long it is."""
_undoing: dict[object, Callable[[], None]] = {}  # by owner


def undo_at_end(owner: object, undo: Callable[[], None] | None) -> None:
    """Set, or with None remove, what `end_now` has to undo of an owner outside of this process."""
    if undo is None:
        _undoing.pop(owner, None)
    else:
        _undoing[owner] = undo


def end_now() -> None:
    """End the process with status 0, without waiting for its threads."""
    for undo in list(_undoing.values()):
        with contextlib.suppress(OSError):
            undo()
    sys.stderr.flush()
    os._exit(0)


@contextlib.contextmanager
def handled_signals(
    handlers: Mapping[int, Callable[[], None]], call_in_loop: Callable[[Callable[[], None]], object]
) -> Iterator[None]:
    """Call the handlers of signals by `call_in_loop`, which returns before the call; of the main thread.

    A thread of its own reads the signals, because a main thread in a compilation handles none. If the loop
    does not take SIGINT or SIGTERM, the thread calls `end_now`.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def handle(number: int) -> None:
        taken = threading.Event()

        def call_handler() -> None:
            taken.set()
            handlers[number]()

        with contextlib.suppress(RuntimeError):  # the loop is closed
            call_in_loop(call_handler)
        is_end = number in (signal.SIGINT, signal.SIGTERM)
        if is_end and not any(taken.wait(_LOOK_S) for _ in range(_MAX_LOOKS)):
            end_now()

    def read_signals() -> None:
        while number := reader.recv(1):
            if number[0] in handlers:
                handle(number[0])

    thread = threading.Thread(target=read_signals, name="signals", daemon=True)
    old_handlers = {number: signal.signal(number, _do_nothing) for number in handlers}
    old_writer = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(old_writer)
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        writer.close()
        thread.join()
        reader.close()


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal whose number is read from a socket."""
