"""CONTROL: the controller's commands to a PS, in-band by packet-out and packet-in.

After the header: command (1 B), status (1 B, 0 in a request), zero (2 B), n (4 B), n keys of 8 B, and in the
answer to VALUES or BUSIEST n values of 4 B. The header's job and ps say whose keys; its seq is its number.
A command is idempotent: the controller repeats it until an answer with the same seq comes. As for RPCs, a
number is turn * SLOTS + slot, and a slot's next turn comes only after the answer to the last: a number below
the latest of its slot is a late copy, however far other slots have got.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from foundation.protocol.codec import MAX_U32, Keys, Values
from foundation.protocol.errors import MalformedDatagram
from foundation.protocol.header import (
    CONTROLLER_CALLER,
    HEADER_BYTES,
    KEY_BYTES,
    LAYOUT,
    RESPONSE,
    VALUE_BYTES,
    Header,
    Op,
    unpack,
)


class Command(IntEnum):
    """What the controller asks of a PS."""

    SEED = 1
    """Give the keys away: move their values into the switch."""
    COLLECT = 2
    """Take the keys home: move their values out of the switch."""
    VALUES = 3
    """Tell the values that the PS holds (0 for a key that is given away)."""
    HELLO = 4
    """Is anybody there?"""
    RENEW = 5
    """The switch is the one in which the PS's own RPCs have the epoch that is the only key. If the PS has
    known another, that one is gone: it takes home what the switch had of it
    (`hosts.hotset.ps.store.HotsetStore.restore`)."""
    BUSIEST = 6
    """Tell the most updated keys, most updates first, with how many since rank 0 was last asked for.

    Its two keys are a rank, from which the answer goes on as far as a datagram does, and how many keys are to
    be ranked. Rank 0 is all keys together, as NO_KEY; the ranking is kept until this is asked for again.
    """


class Status(IntEnum):
    """How a command ended."""

    OK = 0
    NOT_MINE = 1
    """A key is not in this PS's share; nothing was changed."""
    NO_ENTRY = 2
    """A key has no entry in the switch; it stays where it was, the command's other keys moved."""


SLOTS = 4
"""Commands under way at a PS for one job."""
MAX_KEYS = 128
"""Keys of one SEED or COLLECT."""
MAX_VALUES_KEYS = 117
"""Keys of an answer with values, 12 B a key, which must not be fragmented (MTU 1500)."""

_BODY = struct.Struct("!BBHI")
_NO_KEYS = np.empty(0, dtype=np.uint64)
WITH_VALUES = (Command.VALUES, Command.BUSIEST)
"""Answered with keys and values."""


@dataclass(frozen=True, slots=True)
class Control:
    """A CONTROL datagram. `keys` has shape [n], `values` [n] in answers to VALUES and BUSIEST, else None."""

    command: Command
    job: int
    ps: int
    epoch: int
    seq: int
    keys: Keys
    is_answer: bool = False
    status: Status = Status.OK
    values: Values | None = None

    @property
    def identity(self) -> tuple[int, int]:
        """What makes two datagrams the same command."""
        return self.epoch, self.seq

    def answer(self, status: Status, values: Values | None = None) -> Control:
        """The PS's answer; only one with values repeats the keys."""
        return replace(self, is_answer=True, status=status, values=values)

    def page(self, keys: Keys, counts: Values) -> Control:
        """The PS's answer to BUSIEST, of all that it has ranked [n]: as much from the rank on as it takes."""
        first = int(self.keys[0])
        some = slice(first, first + MAX_VALUES_KEYS)
        return replace(self, keys=keys[some], is_answer=True, values=counts[some])


def build(control: Control) -> bytes:
    """The datagram of a command or answer."""
    header = Header(
        op=Op.CONTROL,
        flags=RESPONSE if control.is_answer else 0,
        job=control.job,
        worker=CONTROLLER_CALLER,
        epoch=control.epoch,
        ps=control.ps,
        seq=control.seq,
    )
    datagram = LAYOUT.pack(*header) + _BODY.pack(control.command, control.status, 0, len(control.keys))
    if not control.is_answer or control.values is not None:
        datagram += control.keys.astype(">u8").tobytes()
    if control.values is not None:
        datagram += control.values.astype(">u4").tobytes()
    return datagram


def parse(datagram: bytes | memoryview) -> Control:
    """A command or answer; raises `MalformedDatagram`. An answer without values has no keys."""
    header = unpack(datagram)
    if header.op != Op.CONTROL or header.worker != CONTROLLER_CALLER:
        raise MalformedDatagram(f"op {header.op} of worker {header.worker:#x} is no CONTROL")
    if len(datagram) < HEADER_BYTES + _BODY.size:
        raise MalformedDatagram(f"{len(datagram)} bytes, too short for a CONTROL")
    code, status, zero, n = _BODY.unpack_from(datagram, HEADER_BYTES)
    is_answer = bool(header.flags & RESPONSE)
    try:
        command, status = Command(code), Status(status)
    except ValueError as error:
        raise MalformedDatagram(f"CONTROL: {error}") from None
    limit = {
        Command.HELLO: 0,
        Command.RENEW: 1,
        **dict.fromkeys(WITH_VALUES, MAX_VALUES_KEYS),
    }.get(command, MAX_KEYS)
    if n > limit or zero or (status and not is_answer):
        raise MalformedDatagram(f"{command.name} with {n} keys (at most {limit}), status {status.value}")
    needed = {Command.RENEW: 1, Command.BUSIEST: 2}.get(command, n)
    if n != needed and not is_answer:
        raise MalformedDatagram(f"{command.name} with {n} keys, not {needed}")
    has_values = is_answer and command in WITH_VALUES and status is Status.OK
    has_keys = not is_answer or has_values
    length = HEADER_BYTES + _BODY.size + n * (KEY_BYTES * has_keys + VALUE_BYTES * has_values)
    if len(datagram) != length:
        raise MalformedDatagram(f"{len(datagram)} bytes, not {length} for a {command.name} of {n} keys")
    keys, values = _NO_KEYS, None
    at = HEADER_BYTES + _BODY.size
    if has_keys:
        keys = np.frombuffer(datagram, ">u8", n, at).astype(np.uint64)
    if command is Command.RENEW and has_keys and keys[0] > MAX_U32:
        raise MalformedDatagram(f"RENEW of the epoch {keys[0]}, which is no number of 32 bits")
    if has_values:
        values = np.frombuffer(datagram, ">u4", n, at + n * KEY_BYTES).astype(np.uint32)
    return Control(command, header.job, header.ps, header.epoch, header.seq, keys, is_answer, status, values)
