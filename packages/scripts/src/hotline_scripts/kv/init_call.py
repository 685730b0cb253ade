"""A call that sets a table to its first values, and goes on if the caller no longer waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import numpy as np

from hotline_scripts.kv.archive import Numbers


class InitCall:
    """A call of `set_table` in a thread, which Ctrl-C does not interrupt.

    The values of a table are added to its zeros by several pushes, so a call that ended between two of them
    could be neither repeated nor undone.
    """

    def __init__(self, values: Numbers, set_table: Callable[[], bool]) -> None:
        self._values, self._set_table = values, set_table
        self._result: Future[bool] = Future()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="hotline-init", daemon=True)

    def is_of(self, values: Numbers) -> bool:
        return values is self._values or np.array_equal(values, self._values)

    def wait(self) -> bool:
        """Start the call unless it has been; return its result, or raise its error."""
        with self._lock:
            if self._thread.ident is None:
                self._thread.start()
        return self._result.result()

    def _run(self) -> None:
        try:
            self._result.set_result(self._set_table())
        except BaseException as error:  # raised by `wait`
            self._result.set_exception(error)
