"""How a worker that takes the rank of a killed one ends the push that the killed one had begun.

The killed worker's ledger says which rows were acknowledged, and the file of requests in flight has those
requests that switch and servers may have executed. Its successor sends the same bytes again, in the epoch of
the killed worker, until each has an answer: a request that was executed is acknowledged, and not executed
again. Rows in no request were never sent, or were refused, so the successor pushes them in an epoch of its
own. Meanwhile the other workers train.

A worker with a replay log has no such successor. It may be killed between two stores, with a row that is in
the log and is not marked in the ledger, and nothing would say so. In a run that keeps replay logs each row of
that push is therefore in the sums once or not at all, and the accounting counts it as unknown.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.errors import MalformedDatagram
from foundation.protocol.codec import Values
from foundation.protocol.header import HEADER_BYTES, NO_KEY, RESPONSE, SLOT_MASK, Header, Op, unpack
from hosts import in_flight
from hosts.in_flight import InFlight
from hosts.keys import KeySpace
from hosts.ledger import UnfinishedPush
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


def succeed(
    config: WorkerConfig, job: WorkerJobConfig, space: KeySpace, exchange: Exchange
) -> tuple[Remainder | None, InFlight]:
    """End the push of the killed worker whose rank this one takes; return what is left of it.

    The file of requests in flight is this worker's from now on. Raises `LedgerError` for unreadable files.
    """
    file, remainder = config.log_dir / in_flight.file_name(config.number, job.job), None
    push = _find_push(config, job)
    if push is not None and file.exists():
        ending = PredecessorPush(push, in_flight.reopen(file), space)
        if _send_until_answered(ending, exchange):
            remainder = ending.end()
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
            send(exchange.sock, datagram, exchange.servers[unpack(datagram).ps])
        ready, _, _ = select.select([exchange.sock.fileno(), exchange.interrupt_fd], [], [], RETRANSMISSION_S)
        if exchange.interrupt_fd in ready:
            return False
        while (received := receiver.receive()) is not None:
            ending.receive(received.datagram)
    return True


class PredecessorPush:
    """The push of a killed worker, which its successor ends. No I/O."""

    def __init__(self, push: UnfinishedPush, sent: InFlight, space: KeySpace) -> None:
        self._push, self.sent, self._space = push, sent, space
        self._index = {int(place): i for i, place in enumerate(push.first)}
        datagrams = sent.requests().items()
        self.requests = {slot: datagram for slot, datagram in datagrams if unpack(datagram).op == Op.PUSH}
        """Slot -> a request that is to be sent until it has an answer."""
        if not self._index:
            self.requests = {}  # their push has ended, so all have answers

    def receive(self, datagram: bytes) -> None:
        """Handle a datagram, which may be an answer to a request."""
        slot = self._slot_of_answer(datagram)
        if slot is not None:
            self._note(self.requests.pop(slot), unpack(datagram))
            self.sent.clear(slot)

    def end(self) -> Remainder | None:
        """Note that no request is left; return the rows that are to be pushed, or None."""
        deltas = self._push.retain_unanswered()
        first = self._push.first
        return Remainder(self._space.positions_of(first), deltas, self._push) if len(first) else None

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
        for lane in map(int, np.flatnonzero(keys != NO_KEY)):
            if not answer.refused >> lane & 1:
                positions = self._space.positions(keys[lane : lane + 1].astype(np.uint64))
                place = int(self._space.first_values(positions)[0])
                self._push.answered[self._index[place]] = True
