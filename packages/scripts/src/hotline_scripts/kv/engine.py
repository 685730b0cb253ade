"""A thread that executes operations in order, by loops of machine code that run without the GIL."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import pinned
from foundation.concurrency import InterruptibleCondition
from foundation.designs.registry import design
from foundation.errors import HotlineError
from foundation.protocol.codec import Caller
from foundation.protocol.header import SET, STATE
from foundation.text import show
from hosts.keys import KeySpace
from hosts.sockets import Address
from hotline_agents.designs import agents_of
from hotline_agents.udp import make_udp
from hotline_agents.worker.client import BaseClient
from hotline_agents.worker.compiled_loop import LOG_FULL, make_wire, operate
from hotline_agents.worker.ops import COMPILED
from hotline_agents.worker.window import WindowState
from hotline_scripts.kv.calls import Operation
from hotline_scripts.kv.connection import ClusterLost, release
from hotline_scripts.kv.failures import OperationFailed, WorkerFailed, combine, describe

if TYPE_CHECKING:
    from hotline_scripts.kv.run_recorder import RunRecorder

MAX_CHUNK = 1 << 16
"""Largest operation of the state machine, in parameters; larger operations are split."""
SILENCE_S = 5.0
"""Time without any answer after which the rendezvous is told of the silent servers."""
_TICK_NS = 50_000_000
"""Interval at which the compiled loop returns to check for an error or `close`."""
_PAST_DEADLINE_NS = 0  # a deadline at which the loop returns at once
_NO_FILE = -1  # instead of a file descriptor
_STEP_MODULUS = 1 << 32  # the header's field has 32 bits


def max_chunk(space: KeySpace) -> int:
    """Return the maximum number of rows of a push or a pull."""
    return min(MAX_CHUNK // max(space.dims), space.size)


class InvalidCall(HotlineError):
    """A call that is not possible in the present state; nothing was sent."""


class WorkerClosed(InvalidCall):
    """A call after the worker was closed."""


class Engine:
    """Executes operations in the order of their submission, and numbers them from 0.

    What a callback raises is an error of its operation, and later operations go on; the next wait for it or
    for a later operation raises it. Any other error in the thread ends it by `fail`, after which all waits
    for operations that are not done, and later calls, raise that error. An engine with a recorder begins
    paused: calls block, and queued operations wait, until `resume`.

    `on_silence` is called with the numbers of servers that have not answered for `SILENCE_S`, and without any
    when one has answered again. Which of them will never answer is found by others, who call `fail`.
    """

    def __init__(
        self, caller: Caller, design_name: str, space: KeySpace, window: int, servers: Sequence[Address],
        sock: socket.socket, recorder: RunRecorder | None = None,
        on_silence: Callable[[Sequence[int]], None] = lambda servers: None,
    ) -> None:  # fmt: skip
        self._max_chunk = max_chunk(space)
        self.recorder, self._on_silence = recorder, on_silence
        # While paused, no operation begins. Busy: an operation is under way.
        self._is_paused, self._is_busy = recorder is not None, False
        self._pushes = 0
        self.client: BaseClient = agents_of(design(design_name)).client(
            caller, len(servers), space, time.monotonic_ns, window, max_keys=self._max_chunk
        )
        self._socket = sock
        self._answered_flags = np.zeros(self._max_chunk, np.bool_)
        self._udp = pinned(make_udp())
        self._wire = pinned(make_wire(sock.fileno(), servers, commands=_NO_FILE, signals=_NO_FILE))
        self._condition = InterruptibleCondition()
        self._queue: deque[Operation] = deque()
        self._taken_count = self._done_count = 0
        self._values_submitted = self._values_answered = 0
        self._answers = 0  # number of times that the thread has found new answers
        self._operation_errors: dict[int, BaseException] = {}  # by number, until a call raises them
        self._error: HotlineError | None = None
        self._is_closing = False
        # Load or compile the machine code now, rather than in the first operation.
        self._operate(_PAST_DEADLINE_NS)
        self._thread = threading.Thread(target=self._run, name="hotline", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation) -> int:
        """Queue an operation, and return its number; raise `WorkerClosed` or the error of `fail`."""
        with self._condition:
            self._raise_if_ended()
            # Calls from a callback do not wait, because they are part of an operation under way.
            while self._is_paused and threading.current_thread() is not self._thread:
                self._condition.wait()
                self._raise_if_ended()
            operation.submitted_ns = time.monotonic_ns()
            # In this order, Ctrl-C at any point can only make values count as unanswered.
            if operation.deltas is not None:
                self._values_submitted += len(operation.positions) * operation.table.values_of_key
            self._queue.append(operation)
            self._condition.notify_all()
            return self._submitted_count - 1

    @property
    def _submitted_count(self) -> int:
        # The caller holds `_condition`.
        return self._taken_count + len(self._queue)

    def check_not_in_callback(self, call: str) -> None:
        if threading.current_thread() is self._thread:
            raise InvalidCall(
                f"{call}: a callback is part of its operation, so it cannot wait; call it outside of it"
            )

    def wait(self, operation_number: int) -> None:
        """Wait until an operation and all before it have ended, and raise their errors."""
        self.check_not_in_callback("wait")
        with self._condition:
            if not 0 <= operation_number < self._submitted_count:
                known_numbers = f"0..{self._submitted_count - 1}" if self._submitted_count else "none"
                raise InvalidCall(
                    f"wait({show(operation_number)}): expected the ts of an operation, {known_numbers} so far"
                )
            while self._done_count <= operation_number:
                self._raise_if_ended()
                self._condition.wait()
            self._raise_operation_errors(operation_number)

    def wait_for_all(self) -> None:
        """Wait until all operations have ended, also those that callbacks submit, and raise their errors."""
        self.check_not_in_callback("wait")
        with self._condition:
            while self._done_count < self._submitted_count:
                self._raise_if_ended()
                self._condition.wait()
            if self.has_failed:
                self._raise_if_ended()
            self._raise_operation_errors(self._done_count)

    def flush(self, limit_s: float) -> None:
        """Wait for all operations, while servers answer or it is paused; raise the error of `fail`.

        The wait ends once nothing has been answered for `limit_s`.
        """
        with self._condition:
            remaining_s, answers = limit_s, self._answers
            while self._done_count < self._submitted_count and remaining_s > 0:
                self._raise_if_ended()
                start_s, was_paused = time.monotonic(), self._is_paused
                self._condition.wait(min(remaining_s, _TICK_NS / 1e9))
                if was_paused or self._answers != answers:
                    remaining_s, answers = limit_s, self._answers
                else:
                    remaining_s -= time.monotonic() - start_s

    @property
    def unanswered_values(self) -> int:
        """Number of pushed values that no server has acknowledged."""
        return self._values_submitted - self._values_answered

    @property
    def has_failed(self) -> bool:
        """Whether the thread has ended by an error of this process."""
        return isinstance(self._error, WorkerFailed)

    def take_operation_errors(self) -> dict[int, BaseException]:
        """Return the errors that no call has raised, by the number of their operation, and forget them."""
        with self._condition:
            errors, self._operation_errors = self._operation_errors, {}
        return errors

    def _raise_operation_errors(self, last_number: int) -> None:
        # The caller holds `_condition`.
        if errors := {number: e for number, e in self._operation_errors.items() if number <= last_number}:
            for number in errors:
                del self._operation_errors[number]
            raise combine(errors)

    @property
    def steps(self) -> int:
        """Number of completed training pushes modulo 2^32, which is the step of the next push."""
        return self._pushes % _STEP_MODULUS

    def resume(self) -> None:
        with self._condition:
            self._is_paused = False
            self._condition.notify_all()

    def pause(self) -> None:
        """Block new calls, and wait until no operation is under way."""
        with self._condition:
            self._is_paused = True
            while self._is_busy:
                self._condition.wait()

    def fail(self, error: HotlineError) -> None:
        with self._condition:
            self._error = self._error or error
            self._condition.notify_all()

    def close(self, timeout_s: float | None = None) -> None:
        """End the thread, drop queued operations; wait up to `timeout_s` (None: forever) for a callback."""
        with self._condition:
            self._is_closing = True
            self._condition.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._socket.close()

    def abandon(self) -> None:
        """Release the socket in a forked process, which has no thread and shares the parent's socket."""
        release(self._socket)

    def _raise_if_ended(self) -> None:
        # Callers hold `_condition`, except for `_complete_rpcs`.
        if self._is_closing:
            raise WorkerClosed("this worker has been closed")
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while (operation := self._take_next()) is not None:
                error = self._execute(operation)
                with self._condition:
                    if error is not None:
                        self._operation_errors[self._done_count] = error
                    self._done_count += 1
                    self._is_busy = False
                    self._condition.notify_all()
        except ClusterLost as error:
            self.fail(error)
        except WorkerClosed:
            pass
        except BaseException as error:
            self.fail(self._make_failure(error))
        finally:
            with self._condition:
                self._is_busy = False
                self._condition.notify_all()

    def _make_failure(self, error: BaseException) -> WorkerFailed:
        what = f"operation {self._done_count}" if self._is_busy else "the thread of operations"
        failure = WorkerFailed(
            f"{what} has failed, and no later one is executed ({describe(error)}): "
            "close all workers, and start them again"
        )
        failure.__cause__ = error
        return failure

    def _take_next(self) -> Operation | None:
        with self._condition:
            while not ((self._queue and not self._is_paused) or self._is_closing or self._error):
                self._condition.wait()
            if self._is_closing or self._error:
                return None
            self._is_busy = True
            self._taken_count += 1
            return self._queue.popleft()

    def _execute(self, operation: Operation) -> BaseException | None:
        """Push, pull, and run the callback; return the error of `on_values` or of the callback."""
        starts = range(0, len(operation.positions), self._max_chunk)
        chunks = [slice(start, start + self._max_chunk) for start in starts]
        if operation.deltas is not None:
            self._push(operation, operation.deltas, chunks)
        if operation.on_values is not None:
            values = self._pull(operation, chunks)
            try:
                operation.on_values(values)
            except BaseException as error:
                failure = OperationFailed(
                    f"operation {self._done_count}: the pulled values were not written to out "
                    f"({describe(error)})"
                )
                failure.__cause__ = error
                return failure
        if operation.callback is not None:
            try:
                operation.callback()
            except BaseException as error:  # also SystemExit, which would end only this thread
                return error
        return None

    def _push(self, operation: Operation, deltas: NDArray[np.uint32], chunks: list[slice]) -> None:
        start_ns, rpcs, recorder = time.monotonic_ns(), 0, self.recorder
        for chunk in chunks:
            positions = operation.positions[chunk]
            chunk_deltas = deltas[chunk.start * operation.width : chunk.stop * operation.width]
            answered_flags, is_update = self._answered_flags[: len(positions)], not operation.word_flags & SET
            answered_flags[:] = False
            if recorder is not None and is_update:
                answered_flags = recorder.begin_push(positions, chunk_deltas)
            self.client.prepare(operation.step, operation.word_flags)
            self.client.push(self.steps, positions, chunk_deltas, answered_flags)
            try:
                rpcs += self._complete_rpcs()
            finally:
                self._values_answered += int(np.count_nonzero(answered_flags)) * operation.table.values_of_key
            if recorder is not None and is_update:
                recorder.end_push()
        if recorder is not None:
            recorder.record_operation("push", operation, self.steps, start_ns, rpcs)
        self._pushes += operation.is_training

    def _pull(self, operation: Operation, chunks: list[slice]) -> NDArray[np.uint32]:
        start_ns, rpcs = time.monotonic_ns(), 0
        width = operation.width
        values = np.empty(len(operation.positions) * width, np.uint32)
        for chunk in chunks:
            self.client.prepare(operation.step, operation.word_flags & STATE)
            self.client.pull(self.steps, operation.positions[chunk])
            rpcs += self._complete_rpcs()
            values[chunk.start * width : chunk.stop * width] = self.client.values
        if self.recorder is not None:
            self.recorder.record_operation("pull", operation, self.steps, start_ns, rpcs)
        return values

    def _complete_rpcs(self) -> int:
        client = self.client
        rows, last_progress_ns, is_silent = -1, 0, False
        while not client.idle:
            now_ns = time.monotonic_ns()
            reason = self._operate(now_ns + _TICK_NS)
            # Without the lock: an error that is set meanwhile is raised at the next tick.
            self._raise_if_ended()
            # The log has a row for each answered RPC: without new rows, no server answers.
            previous_rows, rows = rows, int(client.state.header.rows)
            if rows != previous_rows:
                last_progress_ns = now_ns
                self._answers += 1
                if is_silent:
                    is_silent = False
                    self._on_silence([])
            elif not is_silent and now_ns - last_progress_ns > SILENCE_S * 1e9:
                is_silent = True
                self._on_silence(self._silent_servers())
            if reason == LOG_FULL:
                self._swap_log()
        return client.rpcs_of_operation

    def _operate(self, deadline_ns: int) -> int:
        return operate(self.client.reference, self._udp, self._wire, deadline_ns)

    def _swap_log(self) -> None:
        if self.recorder is None:
            self.client.take_records(self.client.state.log)
        else:
            self.recorder.swap_log(self.client)

    def _silent_servers(self) -> list[int]:
        is_slot_busy = cast(WindowState, self.client.state).slots["busy"]  # designs of scripts have a window
        busy_slots = np.flatnonzero(is_slot_busy).tolist()
        return sorted({int(COMPILED.peer(self.client.reference, slot)) for slot in busy_slots})
