"""A server's state machine, of any design, as an object that handles one datagram at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.header import offset_of
from foundation.protocol.rpc import BUFFER_BYTES, rpcs
from hotline_agents.interface import COMMAND
from hotline_agents.ps.journal import add_note
from hotline_agents.ps.ops import COMPILED, pinned, plain_ops, replay_journal
from hotline_agents.ps.rpcs import JobsState, grow_state
from nativekit.plain import plain
from nativekit.reference import unwrap_ref

_JOB_AT = offset_of("job")


def job_of(datagram: bytes) -> int:
    return int.from_bytes(datagram[_JOB_AT : _JOB_AT + 2], "big")


class RpcServer:
    """A server that answers workers' RPCs. `clock` (monotonic, ns) measures the processing time.

    `as_plain` runs the same functions as plain Python; a state with a journal is durable
    (`hotline_agents.ps.journal`).
    """

    state: Any  # of the design's class: a `JobsState`, and `JournalState` if it is durable

    def __init__(self, state: JobsState, clock: Callable[[], int], as_plain: bool = False) -> None:
        self.state = state
        self.counters = {int(row.job): row for row in self.state.jobs}
        """Job -> a record with `JOB_COUNTERS`: bytes are UDP payloads, times ns from reading to sending."""
        self._full_logs: list[NDArray[np.void]] = []
        self._clock = clock
        self._ops = plain_ops() if as_plain else COMPILED
        self._replay_journal = plain(replay_journal) if as_plain else replay_journal
        self._reference: Any = None  # of any class of state
        self._request: Any = rpcs(1)  # operations take the first datagram of an array
        self._answer: Any = rpcs(1)  # one record, too
        self._request_bytes = self._request.view(np.uint8)
        self._answer_bytes = self._answer.view(np.uint8)

    @property
    def reference(self) -> Any:  # of the class of the state
        """A reference to the current state, for entry points."""
        if unwrap_ref(self._reference) is not self.state:
            self._reference = pinned(self.state)
        return self._reference

    @property
    def malformed(self) -> int:
        return int(self.state.header.malformed)

    @property
    def misdirected(self) -> int:
        """Number of RPCs of an unknown job or for another PS, and of answers."""
        return int(self.state.header.misdirected)

    def count_malformed(self) -> None:
        self.state.header.malformed += 1

    def count_misdirected(self) -> None:
        self.state.header.misdirected += 1

    def handle(self, datagram: bytes | memoryview, arrival: int, read: int) -> tuple[int, bytes] | None:
        """Handle a datagram received at `arrival` and read at `read` (ns); return job and answer, or None."""
        self.make_room(1)
        length = min(len(datagram), BUFFER_BYTES)
        self._request_bytes[:length] = np.frombuffer(datagram, np.uint8, length)
        outcome = self._ops.handle(self.reference, self._request, length, arrival, self._answer)
        if outcome == COMMAND:  # without a Python part that handles commands
            self.count_misdirected()
        if outcome <= 0:  # NO_REPLY, COMMAND or FOREIGN; otherwise the length of the answer
            return None
        self._ops.stamp(self.reference, self._answer, self._clock() - read, read - arrival)
        octets = self._answer_bytes[:outcome].tobytes()
        return job_of(octets), octets

    def replay_journal(self, notes: NDArray[np.uint8], offset: int) -> tuple[int, int]:
        """Replay workers' requests from `offset` of the notes on, without answering.

        Return the offset of the first note of another source, or the end, and the number of replayed notes.
        """
        progress = np.array([offset, 0])  # the next offset, and the number of replayed notes
        while True:
            self.make_room(1)
            previous_offset = progress[0]
            self._replay_journal(self.reference, self._request, self._answer, notes, progress)
            if progress[0] == previous_offset:
                return int(progress[0]), int(progress[1])

    def note(self, source: int, datagram: bytes | memoryview) -> None:
        """Journal a datagram from a source other than a worker, if this PS is durable."""
        header = self.state.header
        if header.is_durable:
            header.journal_length = add_note(self.state.journal, int(header.journal_length), source, datagram)

    @property
    def notes(self) -> bytes:
        notes: bytes = self.state.journal[: self.state.header.journal_length].tobytes()
        return notes

    def forget_notes(self) -> None:
        self.state.header.journal_length = 0

    def make_room(self, datagrams: int) -> None:
        """Make room for that many datagrams of any callers; the notes must be persisted."""
        if self._ops.needs_room(self.reference, datagrams):
            self.state, connection_records = grow_state(self.state, datagrams)
            self._full_logs.append(connection_records)

    def take_full_logs(self) -> list[NDArray[np.void]]:
        logs, self._full_logs = self._full_logs, []
        return logs

    def collect_connection_records(self) -> list[NDArray[np.void]]:
        current_records = np.array(self.state.connection_records[: self.state.header.n_connection_records])
        self.state.header.n_connection_records = 0
        return [*self.take_full_logs(), current_records]
