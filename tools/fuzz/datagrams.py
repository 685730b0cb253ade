from __future__ import annotations

import numpy as np

from foundation.protocol import codec, control
from foundation.protocol.codec import Message
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.header import KEYS, LANES, NO_KEY, RESPONSE, VALUES, Header, Op

JOB, WORKER, EPOCH = 1, 2, 3
CONTROLLER_EPOCH = 5
PULLED_VALUE = 7


def rpc(op: Op, keys: list[int], seq: int, served: int = 0, **changes: int) -> bytes:
    """Return a request of lanes with these keys and the values 1, 2, ..."""
    live = sum(1 << lane for lane, key in enumerate(keys) if key != NO_KEY)
    has_values = op == Op.PUSH or served
    flags = (KEYS if keys else 0) | (VALUES if has_values else 0)
    header = Header(
        op=op, flags=flags, job=JOB, worker=WORKER, epoch=EPOCH, count=len(keys), seq=seq, live=live,
        served=served,
    )._replace(**changes)  # fmt: skip
    values = np.arange(1, len(keys) + 1, dtype=np.uint32) if has_values else None
    return bytes(codec.build(Message(header, np.array(keys, np.uint64) if keys else None, values)))


def answer(request: bytes, served: int = 0, refused: int = 0) -> bytes:
    """Return the answer to a request; the answer to a pull has `PULLED_VALUE` in each lane."""
    header = codec.parse(request).header
    values = np.full(header.count, PULLED_VALUE, np.uint32) if header.op == Op.PULL else None
    flags = RESPONSE | (0 if values is None else VALUES)
    # The answer to an EMPTY is about the lanes of an earlier push, not about lanes of the EMPTY.
    refusable_lanes = header.live if header.op != Op.EMPTY else 2**LANES - 1
    answer_header = header._replace(
        flags=flags, served=served & header.live, refused=refused & refusable_lanes
    )
    return bytes(codec.build(Message(answer_header, None, values)))


def command(code: Command, keys: list[int], seq: int, status: Status | None = None) -> bytes:
    message = Control(code, JOB, ps=0, epoch=CONTROLLER_EPOCH, seq=seq, keys=np.array(keys, np.uint64))
    if status is not None:
        values = code is Command.VALUES and status is Status.OK
        message = message.answer(status, message.keys.astype(np.uint32) if values else None)
    return control.build(message)
