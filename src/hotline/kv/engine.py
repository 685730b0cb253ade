"""A thread that does one operation after the other: the state machine and the loop of all agents.

The loop is machine code, and runs without the interpreter's lock: training goes on beside it.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from foundation.designs.registry import design
from foundation.protocol.codec import Caller
from hosts.designs import AGENTS
from hosts.keys import KeySpace
from hosts.sockets import Address, clock_offset
from hosts.udp import make_udp
from hosts.worker.client import BaseClient
from hosts.worker.machine import COMPILED
from hosts.worker.operate import FULL, make_wire, operate
from hosts.worker.window import WindowState
from hotline.kv.errors import Closed, Gone, Misused, NoAnswer

LARGEST = 1 << 16
"""Parameters of an operation of the state machine: larger ones are cut."""
PATIENCE_S = 5.0
"""Without any answer, after which servers are taken to be gone."""
_TICK_NS = 50_000_000
"""How often the loop comes back to look whether it is to end."""
_NO_FILE = -1
_MOD = 1 << 32
"""Iterations on the wire wrap."""


@dataclass(slots=True)
class Operation:
    """To push, to pull, or to do both to the same parameters [n]."""

    positions: NDArray[np.int64]
    deltas: NDArray[np.uint32] | None = None
    """[n]: what is added."""
    take: Callable[[NDArray[np.uint32]], None] | None = None
    """Gets the values [n]."""
    callback: Callable[[], object] | None = None
    is_training: bool = True
    """Part of a step, unlike what sets or reads a whole table."""
    begun_ns: int = 0
    """When it was called for."""


class Books(Protocol):
    """What is told of all operations in a run."""

    def pushing(self, positions: NDArray[np.int64], deltas: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Before a push of these parameters [n]; returns what it marks as answered [n]."""
        ...

    def pushed(self) -> None:
        """It has ended."""
        ...

    def ended(self, op: str, operation: Operation, iteration: int, start_ns: int, rpcs: int) -> None:
        """All pushes, or pulls, of an operation have ended now."""
        ...

    def make_room(self, client: BaseClient) -> None:
        """The client's log is full."""
        ...


class Engine:
    """Operations are done in the order in which they were begun, and have numbers from 0 on.

    When servers or switch are `lost`, that is for good: everybody who waits gets it. One with `books` begins
    shut: calls wait, and so does what they have queued, until it is opened.
    """

    def __init__(
        self, caller: Caller, chosen: str, parameters: int, window: int, peers: Sequence[Address],
        sock: socket.socket, make_books: Callable[[int], Books] | None = None,
    ) -> None:  # fmt: skip
        self._largest = min(LARGEST, parameters)
        self._books = None if make_books is None else make_books(self._largest)
        self._is_open, self._is_busy = self._books is None, False
        self._pushes = 0
        self.client: BaseClient = AGENTS.of(design(chosen)).client(
            caller, len(peers), KeySpace(parameters), time.monotonic_ns, window, largest=self._largest
        )
        self._socket, self._peers = sock, peers
        self._answered = np.zeros(self._largest, np.bool_)
        self._udp = make_udp(clock_offset())
        self._wire = make_wire(sock.fileno(), peers, _NO_FILE, _NO_FILE)
        self._changed = threading.Condition()
        self._queue: deque[Operation] = deque()
        self._begun = self._done = 0
        self._failures: dict[int, BaseException] = {}
        """Of callbacks, until somebody waits for their operations."""
        self._lost: Gone | None = None
        self._is_closing = False
        # Loads machine code, or makes it: nobody is to wait for that in an operation.
        operate(self.client.state, self._udp, self._wire, 0)
        self._thread = threading.Thread(target=self._run, name="hotline", daemon=True)
        self._thread.start()

    def begin(self, operation: Operation) -> int:
        """Queue an operation; its number. Raises `Gone`, or `Closed`."""
        with self._changed:
            self._check()
            # A callback is part of an operation under way, which nobody shuts out.
            while not self._is_open and threading.current_thread() is not self._thread:
                self._changed.wait()
                self._check()
            operation.begun_ns = time.monotonic_ns()
            self._queue.append(operation)
            self._begun += 1
            self._changed.notify_all()
            return self._begun - 1

    def wait(self, number: int) -> None:
        """Until an operation has ended; raises `Gone`, and what its callback has raised."""
        if threading.current_thread() is self._thread:
            raise Misused("wait: in a callback it would wait for itself; wait outside of it")
        with self._changed:
            if not 0 <= number < self._begun:
                known = f"0..{self._begun - 1}" if self._begun else "none"
                raise Misused(f"wait({number}): operations so far are {known}")
            while self._done <= number:
                self._check()
                self._changed.wait()
            if number in self._failures:
                raise self._failures.pop(number)

    def wait_for_all(self) -> None:
        """Until nothing is under way."""
        with self._changed:
            last = self._begun - 1
        if last >= 0:
            self.wait(last)

    @property
    def steps(self) -> int:
        """Pushes of training that have ended: what the next one has as its step."""
        return self._pushes % _MOD

    def open(self) -> None:
        """Let calls through."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def shut(self) -> None:
        """Let no call through from now on; returns when what is under way has ended."""
        with self._changed:
            self._is_open = False
            while self._is_busy:
                self._changed.wait()

    def lose(self, lost: Gone) -> None:
        """Training cannot go on: tell whoever waits, now and later."""
        with self._changed:
            self._lost = self._lost or lost
            self._changed.notify_all()

    def close(self) -> None:
        """Leave what has not been done, and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._socket.close()

    def _check(self) -> None:
        if self._is_closing:
            raise Closed("this worker has been closed")
        if self._lost is not None:
            raise self._lost

    def _run(self) -> None:
        try:
            while (operation := self._next()) is not None:
                try:
                    self._do(operation)
                except (Gone, Closed):
                    raise
                except Exception as error:
                    self._failures[self._done] = error
                with self._changed:
                    self._done += 1
                    self._is_busy = False
                    self._changed.notify_all()
        except Gone as error:
            self.lose(error)
        except Closed:
            pass
        finally:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()

    def _next(self) -> Operation | None:
        """What is to be done; None at the end."""
        with self._changed:
            while not ((self._queue and self._is_open) or self._is_closing or self._lost):
                self._changed.wait()
            if self._is_closing or self._lost:
                return None
            self._is_busy = True
            return self._queue.popleft()

    def _do(self, operation: Operation) -> None:
        n = len(operation.positions)
        parts = [slice(at, at + self._largest) for at in range(0, n, self._largest)]
        if operation.deltas is not None:
            self._push(operation, operation.deltas, parts)
        if operation.take is not None:
            operation.take(self._pull(operation, parts))
        if operation.callback is not None:
            operation.callback()

    def _push(self, operation: Operation, deltas: NDArray[np.uint32], parts: list[slice]) -> None:
        begun, rpcs, books = time.monotonic_ns(), 0, self._books
        for part in parts:
            positions = operation.positions[part]
            answered = self._answered if books is None else books.pushing(positions, deltas[part])
            self.client.push(self.steps, positions, deltas[part], answered)
            rpcs += self._drive()
            if books is not None:
                books.pushed()
        if books is not None:
            books.ended("push", operation, self.steps, begun, rpcs)
        self._pushes += operation.is_training

    def _pull(self, operation: Operation, parts: list[slice]) -> NDArray[np.uint32]:
        begun, rpcs = time.monotonic_ns(), 0
        values = np.empty(len(operation.positions), np.uint32)
        for part in parts:
            self.client.pull(self.steps, operation.positions[part])
            rpcs += self._drive()
            values[part] = self.client.values
        if self._books is not None:
            self._books.ended("pull", operation, self.steps, begun, rpcs)
        return values

    def _drive(self) -> int:
        """Until the operation of the state machine has ended; RPCs that it took. Raises `Gone`, `Closed`."""
        client = self.client
        rows, since = -1, 0
        while not client.idle:
            now = time.monotonic_ns()
            reason = operate(client.state, self._udp, self._wire, now + _TICK_NS)
            # No lock: a moment later is early enough.
            self._check()
            if rows != (rows := int(client.state.me.rows)):
                since = now
            elif now - since > PATIENCE_S * 1e9:
                raise NoAnswer(self._silence())
            if reason == FULL:
                self._make_room()
        return client.rpcs_of_operation

    def _make_room(self) -> None:
        if self._books is None:
            self.client.take_records(self.client.state.log)
        else:
            self._books.make_room(self.client)

    def _silence(self) -> str:
        """Whom nobody has heard."""
        state = self.client.state
        busy = cast(WindowState, state).slots["busy"]  # whose client's design has a window
        awaited = {COMPILED.peer(state, slot) for slot in np.flatnonzero(busy).tolist()}
        names = ", ".join(f"{peer} ({':'.join(map(str, self._peers[peer]))})" for peer in sorted(awaited))
        return (
            f"no answer for {PATIENCE_S:.0f} s from server {names}: it, or the switch before it, has ended; "
            "see `hotline up`'s log, close all workers, and start them again"
        )
