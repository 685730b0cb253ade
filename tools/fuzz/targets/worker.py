"""Fuzz a worker during an operation: its compiled code and the same code as plain Python must agree.

An input's first byte selects the operation. The rest is a list of events, whose first byte is the kind: an
answer to one of the requests with some bytes changed, a datagram, the next deadline, or a new epoch of the
switch.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from foundation.errors import MalformedDatagram
from foundation.protocol.codec import Caller
from foundation.protocol.header import offset_of, unpack
from hosts.keys import KeySpace
from hosts.replay import ReplayLog
from hosts.replay_words import UNDO_WORDS
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps, plain_ops
from tests.harness.wire import sent
from tools.fuzz.datagrams import EPOCH, JOB, WORKER, answer
from tools.fuzz.target import MARK, Target, parts

SIZE, N_PS = 40, 2
SPACE = KeySpace(SIZE)
POSITIONS = np.arange(SIZE)
PULL, PUSH, EMPTY, OPERATIONS = range(4)
CHANGED_ANSWER, RAW, DEADLINE, NEW_EPOCH, KINDS = range(5)


class Bench:
    """A worker that has sent the requests of one operation; every third key is marked as hot."""

    def __init__(self, operation: int, ops: AnyWorkerOps) -> None:
        self.now, self.epoch = 0, EPOCH
        self.worker = HotsetClient(
            Caller(JOB, WORKER, EPOCH),
            N_PS,
            SPACE,
            lambda: self.now,
            window=4,
            ops=ops,
            log=ReplayLog.in_memory(np.zeros(SIZE + UNDO_WORDS, np.int64), SPACE, SIZE),
        )
        self.worker.hint(POSITIONS[::3].astype(np.uint64))
        if operation == EMPTY:
            self.worker.start_empty_rpc(1)
        elif operation == PULL:
            self.worker.pull(1, POSITIONS)
        else:
            self.worker.push(1, POSITIONS, POSITIONS.astype(np.uint32), np.zeros(SIZE, np.bool_))
        self.sent = sent(self.worker)

    def play(self, kind: int, data: bytes) -> object:
        if kind == DEADLINE:
            due = self.worker.deadline()
            self.now = self.now if due is None else due
            self.worker.wake(self.now)
        elif kind == NEW_EPOCH:
            self.epoch += 1
            self.worker.renew(self.epoch)
        else:
            self.worker.receive(data, self.now, self.now)
        if self.worker.idle and self.worker.has_unreplayed:
            self.worker.replay()
        self.sent += sent(self.worker)
        return [*self.sent], [np.ascontiguousarray(array).tobytes() for array in self.worker.state]


def change_answer(requests: list[bytes], data: bytes) -> bytes:
    """Return an answer to the request that the first byte of `data` selects, changed by the rest."""
    # Bytes 1 to 4 are the lanes served, 5 to 8 those refused; each further 3 are an offset and 2 new bytes.
    data = data.ljust(9, b"\0")
    served, refused = (int.from_bytes(data[at : at + 4], "big") for at in (1, 5))
    datagram = bytearray(answer(requests[data[0] % len(requests)], served, refused & ~served))
    for at in range(9, len(data) - 2, 3):
        offset = data[at] % len(datagram)
        datagram[offset : offset + 2] = data[at + 1 : at + 3]
    return bytes(datagram)


def run(data: bytes) -> Hashable:
    operation = (data[0] if data else 0) % OPERATIONS
    benches = [Bench(operation, ops) for ops in (plain_ops(), COMPILED)]
    worker = benches[0].worker
    for part in parts(data[1:]):
        kind, rest = (part[0] if part else 0) % KINDS, part[1:]
        datagram = change_answer(benches[0].sent, rest) if kind == CHANGED_ANSWER else rest
        malformed = worker.malformed
        plain, compiled = (bench.play(kind, datagram) for bench in benches)
        assert plain == compiled, "the plain and the compiled worker differ"
        if kind in (CHANGED_ANSWER, RAW):
            assert (worker.malformed > malformed) == _is_malformed(datagram), (
                "the codec and the worker differ"
            )
    seen = (worker.malformed, worker.unexpected, len(worker.records), worker.idle)
    return operation, tuple(bool(number) for number in seen)


def _is_malformed(data: bytes) -> bool:
    try:
        unpack(data)
    except MalformedDatagram:
        return True
    return False


def seeds() -> list[bytes]:
    served, refused = b"\xff" * 4 + bytes(4), bytes(4) + b"\x0f" * 4
    answers = [bytes([CHANGED_ANSWER, n]) + bitmaps for n in range(4) for bitmaps in (served, refused)]
    renewed = bytes([NEW_EPOCH])
    resent_refused = [bytes([CHANGED_ANSWER, n]) + refused for n in range(4, 9)]
    later, raw = bytes([DEADLINE]), bytes([RAW]) + answer(Bench(PULL, COMPILED).sent[0])
    return [
        *(bytes([operation]) + MARK.join(answers) for operation in range(OPERATIONS)),
        bytes([PUSH]) + MARK.join([answers[1], later, later, answers[0], answers[0]]),
        bytes([PUSH])
        + MARK.join([answers[0], renewed, *resent_refused, answers[2], renewed, *resent_refused]),
        bytes([PULL]) + MARK.join([raw, raw, answers[0] + bytes([offset_of("t0"), 1, 2])]),
    ]


TARGET = Target(
    "worker",
    run,
    (
        "packages/agents/src/hotline_agents/worker",
        "packages/agents/src/hotline_agents/hotset/worker",
        "src/foundation/protocol",
    ),
    seeds,
)
