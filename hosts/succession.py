"""How a worker that takes the rank of a killed one ends the push that the killed one had begun.

The killed worker's ledger says which rows were acknowledged, and the file of requests in flight has those
requests that switch and servers may have executed. Its successor sends the same bytes again, in the epoch of
the killed worker, until each has an answer: a request that was executed is acknowledged, and not executed
again. Rows in no request were never sent, or were refused, so the successor pushes them in an epoch of its
own. Meanwhile the other workers train.

With a replay log, the rows that the switch has added are logged before they are marked in the ledger, and a
row that is logged but not marked is marked first. The killed worker may have pushed a part of its replay log;
rows of it in no request are unreplayed again. If the switch has been lost since the push began, an answer may
never come, and requests may be missing in the file: then each row without an answer is in the sums once or
not at all, and stays unknown in the ledger, or in a copy of the replay log (`unsettled_log`).
"""

from __future__ import annotations

import select
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.errors import MalformedDatagram
from foundation.logs.parts import atomic_path
from foundation.protocol.codec import Values
from foundation.protocol.header import HEADER_BYTES, NO_KEY, PS_MASK, RESPONSE, SLOT_MASK, Header, Op, unpack
from hosts import in_flight
from hosts.in_flight import InFlight
from hosts.keys import KeySpace
from hosts.ledger import UnfinishedPush
from hosts.replay import NO_SWITCHES, ReplayLog, read_unacked
from hosts.replay import file_name as replay_file
from hosts.sockets import Address, Receiver, send
from hosts.worker_config import WorkerConfig, WorkerJobConfig

RETRANSMISSION_S = 0.1
_ECHOED = ("op", "job", "worker", "epoch", "ps", "count", "dim", "seq", "live", "iteration", "t0")
"""Fields that an answer repeats."""


class Remainder(NamedTuple):
    """The rows of a killed worker's push that were never added; they are open in its ledger."""

    positions: NDArray[np.int64]  # in the key space, [n]
    deltas: Values  # row by row
    push: UnfinishedPush
    """Marks the rows that are acknowledged (`answered`), and is closed when all are."""


class Exchange(NamedTuple):
    """The sockets of a job."""

    sock: socket.socket
    servers: Sequence[Address]
    interrupt_fd: int
    """Readable when nothing is to be waited for any more."""


def ledger_file(config: WorkerConfig, job: int, epoch: int) -> Path:
    """Return the ledger of a worker that begins with this epoch."""
    return config.log_dir / f"ledger-worker-{config.number}-job-{job}-epoch-{epoch}.bin"


def unsettled_log(log_file: Path, epoch: int | str = "*") -> Path:
    """Return the copy of a replay log with a part whose outcome the worker of this epoch could not learn.

    By default the name is a pattern, for the copies that any of the workers has left.
    """
    return log_file.with_name(f"unsettled-{epoch}-{log_file.name}")


def read_unsettled(log_file: Path) -> list[Values]:
    """Return the rows without an answer of each copy of a replay log, uint32[values] by place."""
    copies = sorted(log_file.parent.glob(unsettled_log(log_file).name))
    return [read_unacked(copy, NO_SWITCHES).unknown for copy in copies]


def succeed(
    config: WorkerConfig, job: WorkerJobConfig, space: KeySpace, exchange: Exchange
) -> tuple[Remainder | None, InFlight]:
    """End the push of the killed worker whose rank this one takes; return what is left of it.

    The file of requests in flight is this worker's from now on; its replay log is not open yet. Raises
    `LedgerError` for unreadable files.
    """
    file, remainder = config.log_dir / in_flight.file_name(config.number, job.job), None
    log_file = config.log_dir / replay_file(f"worker-{config.number}", job.job)
    if file.exists():
        log = ReplayLog.of_killed_worker(log_file, space) if log_file.exists() else None
        ending = PredecessorPush(_find_push(config, job), in_flight.reopen(file), space, log)
        is_same_switch = log is None or log.switch_numbers == config.switches
        if is_same_switch and ending.sent.is_complete and _send_until_answered(ending, exchange):
            remainder = ending.end()
        else:
            if ending.has_unsettled_part:
                with atomic_path(unsettled_log(log_file, job.epoch)) as partial:
                    shutil.copyfile(log_file, partial)
            ending.give_up()
    return remainder, in_flight.create(file)


def _find_push(config: WorkerConfig, job: WorkerJobConfig) -> UnfinishedPush | None:
    """Return the open push of the workers before; one at most is open, as each has ended that of the last."""
    for epoch in job.previous_epochs:
        file = ledger_file(config, job.job, epoch)
        if file.exists() and len((push := UnfinishedPush.in_file(file)).first):
            return push
    return None


def _send_until_answered(ending: PredecessorPush, exchange: Exchange) -> bool:
    """Send the requests until each has an answer; return False if it is not to be waited for any more."""
    receiver = Receiver(exchange.sock)
    while ending.requests:
        for datagram in ending.requests.values():
            send(exchange.sock, datagram, exchange.servers[unpack(datagram).ps & PS_MASK])
        ready, _, _ = select.select([exchange.sock.fileno(), exchange.interrupt_fd], [], [], RETRANSMISSION_S)
        if exchange.interrupt_fd in ready:
            return False
        while (received := receiver.receive()) is not None:
            ending.receive(received.datagram)
    return True


class PredecessorPush:
    """The push of a killed worker, which its successor ends. No I/O."""

    def __init__(
        self, push: UnfinishedPush | None, sent: InFlight, space: KeySpace, log: ReplayLog | None = None
    ) -> None:
        self._push, self.sent, self._space, self._log = push, sent, space, log
        part = None if log is None else log.unfinished_part
        self._part = None if part is None or part.is_done else part
        rows = self._part or push  # a worker pushes one of them at a time
        self._index = {} if rows is None else {int(place): i for i, place in enumerate(rows.first)}
        self.answered = np.zeros(0, np.bool_) if rows is None else rows.answered
        datagrams = sent.requests().items()
        self.requests = {slot: datagram for slot, datagram in datagrams if unpack(datagram).op == Op.PUSH}
        """Slot -> a request that is to be sent until it has an answer."""
        if self.answered.all():
            self.requests = {}  # their push has ended, so all have answers
        self._mark_logged_row()

    @property
    def has_unsettled_part(self) -> bool:
        """Whether a part of the replay log has rows without an answer."""
        return self._part is not None and not self._part.is_done

    def receive(self, datagram: bytes) -> None:
        """Handle a datagram, which may be an answer to a request."""
        slot = self._slot_of_answer(datagram)
        if slot is not None:
            self._note(self.requests.pop(slot), unpack(datagram))
            self.sent.clear(slot)

    def end(self) -> Remainder | None:
        """Note that no request is left; return the rows that are to be pushed, or None."""
        if self._part is not None:
            self._part.return_unanswered()
        if self._push is None:
            return None
        deltas = self._push.retain_unanswered()
        first = self._push.first
        return Remainder(self._space.positions_of(first), deltas, self._push) if len(first) else None

    def give_up(self) -> None:
        """Leave the rows without an answer unknown: no worker learns any more whether they were added."""
        if self._push is not None:
            if self._push.answered.all():
                self._push.close()
            else:
                self._push.give_up()

    def _slot_of_answer(self, datagram: bytes) -> int | None:
        try:
            answer = unpack(datagram)
        except MalformedDatagram:
            return None
        request = self.requests.get(answer.seq & SLOT_MASK)
        if request is None or not answer.flags & RESPONSE:
            return None
        sent = unpack(request)
        is_answer = all(getattr(answer, name) == getattr(sent, name) for name in _ECHOED)
        return answer.seq & SLOT_MASK if is_answer else None

    def _note(self, request: bytes, answer: Header) -> None:
        """Mark the rows of a request that were added; an answer may refuse some."""
        keys = np.frombuffer(request, ">u8", answer.count, HEADER_BYTES)
        deltas = np.frombuffer(request, ">u4", answer.count * answer.dim, HEADER_BYTES + keys.nbytes)
        for lane in map(int, np.flatnonzero(keys != NO_KEY)):
            if not answer.refused >> lane & 1:
                positions = self._space.positions(keys[lane : lane + 1].astype(np.uint64))
                place = int(self._space.first_values(positions)[0])
                row = deltas[lane * answer.dim : (lane + 1) * answer.dim].astype(np.uint32)
                self._settle(place, row, is_served=bool(answer.served >> lane & 1))

    def _settle(self, place: int, deltas: Values, is_served: bool) -> None:
        """Mark a row as answered, after it is logged if the switch has added it."""
        index = self._index[place]
        if self.answered[index]:
            return
        if is_served and self._log is not None:
            self._log.acknowledge(place, deltas)
        self.answered[index] = True
        if is_served and self._log is not None:
            self._log.remove_mark()

    def _mark_logged_row(self) -> None:
        """Mark the row as answered that was logged when the worker was killed."""
        if self._log is not None and (place := self._log.logged_place) is not None:
            if place in self._index:  # otherwise it was the last row of a part, and is marked
                self.answered[self._index[place]] = True
            self._log.remove_mark()
