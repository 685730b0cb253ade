from __future__ import annotations

import numpy as np

from foundation.protocol import codec, control
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.header import LANES, Op
from tests.harness import wire

JOB, WORKER, EPOCH = 1, 2, 3
CONTROLLER_EPOCH = 5
PULLED_VALUE = 7


def rpc(op: Op, keys: list[int], seq: int, served: int = 0, **changes: int) -> bytes:
    """Return a request of lanes with these keys and the values 1, 2, ..."""
    carried = range(1, len(keys) + 1) if op == Op.PUSH or served else None
    fields = {"job": JOB, "worker": WORKER, "epoch": EPOCH, "seq": seq, "served": served, **changes}
    return wire.rpc(op, keys, carried, **fields)


def answer(request: bytes, served: int = 0, refused: int = 0) -> bytes:
    """Return the answer to a request; the answer to a pull has `PULLED_VALUE` in each lane."""
    header = codec.parse(request).header
    # The answer to an EMPTY is about the lanes of an earlier push, not about lanes of the EMPTY.
    refusable_lanes = header.live if header.op != Op.EMPTY else 2**LANES - 1
    return wire.reply(header, PULLED_VALUE, served=served & header.live, refused=refused & refusable_lanes)


def command(code: Command, keys: list[int], seq: int, status: Status | None = None) -> bytes:
    message = Control(code, JOB, ps=0, epoch=CONTROLLER_EPOCH, seq=seq, keys=np.array(keys, np.uint64))
    if status is Status.STALE:
        message = message.answer_stale(CONTROLLER_EPOCH + 1)
    elif status is not None:
        values = code is Command.VALUES and status is Status.OK
        message = message.answer(status, message.keys.astype(np.uint32) if values else None)
    return control.build(message)
