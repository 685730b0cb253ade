"""CONTROL: the controller's commands to a PS, in-band by packet-out and packet-in.

After the header: command (1 B), status (1 B, 0 in a request), zero (2 B), n (4 B), n keys of 8 B, and in the
answer to VALUES n rows of the header's dim, or in that to BUSIEST n counts, of 4 B a number. The header's job
and ps identify the keys' owner; its seq is the number of the command. A command is idempotent: the controller
repeats it until an answer with the same seq comes. The seq is turn * SLOTS + slot. A slot sends its next
command only after its previous one is answered, so a seq below the slot's latest is a late copy.

The header's epoch orders the controllers of a PS. The PS issues epochs, each later than all before. A
controller sends its first command with a random epoch. If the PS has had another controller, it answers STALE
with an issued epoch, and the controller sends the command again with that one. From the first command with an
issued epoch on, those with earlier epochs are stale (`CommandOrder`). No clock takes part.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from foundation.errors import MalformedDatagram
from foundation.protocol.codec import MAX_U32, Keys, Values
from foundation.protocol.header import (
    CONTROLLER_CALLER,
    DIMS,
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
    SEED = 1
    """Move the values of the keys into the switch."""
    COLLECT = 2
    """Move the values of the keys out of the switch."""
    VALUES = 3
    """Return the rows that the PS holds (0 for a key whose row is in the switch), all of the header's dim."""
    HELLO = 4
    """Check that the PS is running."""
    RENEW = 5
    """Tell the PS the epoch of its own RPCs to the current switch, by the command's only key. If it differs
    from the PS's, the switch of the old epoch is lost, and the PS reclaims that switch's values."""
    BUSIEST = 6
    """Return the most updated keys, most updates first, with their updates since the previous ranking.

    The command's two keys are the first rank to return, and the number of keys to be ranked. The answer has
    as many ranks as a datagram takes. Rank 0 has key NO_KEY, and as its count the sum over all keys. A
    request of rank 0 makes a new ranking; requests of other ranks read the last one."""
    PUBLISH = 7
    """Collect all gradients that the switch has added so far, and publish the values, in design `collect`."""
    HOLD = 8
    """Collect nothing until a SEED, COLLECT, PUBLISH or RENEW; answered when no collection is under way."""
    SETTLE = 9
    """Apply the replayed updates of lost switches. Sent once all workers have replayed. The only key is the
    PS's epoch in the switch that replaced them; a SETTLE with another epoch changes nothing."""


class Status(IntEnum):
    OK = 0
    NOT_OWNED = 1
    """A key is not in this PS's share, its row has another dim, or another switch has it. Nothing was
    changed."""
    NO_ENTRY = 2
    """A key has no entry in the switch, and was not moved; the command's other keys were."""
    STALE = 3
    """The command's epoch is not that of the PS's newest controller; nothing was changed. The only key of the
    answer is an epoch that the PS issues to the controller."""


SLOTS = 4
"""Maximum number of concurrent commands to a PS for one job."""
MAX_KEYS = 128
"""Maximum number of keys of one SEED or COLLECT."""
_MAX_ANSWER_BYTES = 1356
"""Maximum size of keys and values in an answer, which must not be fragmented at an MTU of 1500 B less the
50 B of VXLAN."""


def max_values_keys(dim: int) -> int:
    """Return the maximum number of keys of an answer with rows of `dim` values."""
    return _MAX_ANSWER_BYTES // (KEY_BYTES + VALUE_BYTES * dim)


MAX_VALUES_KEYS = max_values_keys(1)
"""Maximum number of keys of an answer with values of one number each."""

_BODY = struct.Struct("!BBHI")  # command, status, zero, n
_NO_KEYS = np.empty(0, dtype=np.uint64)
WITHOUT_KEYS = (Command.HELLO, Command.PUBLISH, Command.HOLD)
WITH_EPOCH = (Command.RENEW, Command.SETTLE)
WITH_VALUES = (Command.VALUES, Command.BUSIEST)


@dataclass(frozen=True, slots=True)
class Control:
    """A CONTROL datagram. `keys` has shape [n].

    `values` has shape [n · dim] in an answer to VALUES, [n] in one to BUSIEST, and is else None. Only VALUES
    has a `dim` other than 1.
    """

    command: Command
    job: int
    ps: int
    epoch: int
    seq: int
    keys: Keys
    is_answer: bool = False
    status: Status = Status.OK
    values: Values | None = None
    dim: int = 1

    @property
    def identity(self) -> tuple[int, int]:
        """Epoch and seq, which are equal in all copies of a command and in its answers."""
        return self.epoch, self.seq

    def answer(self, status: Status, values: Values | None = None) -> Control:
        """Return the PS's answer; only an answer with values repeats the keys."""
        return replace(self, is_answer=True, status=status, values=values)

    def answer_stale(self, issued_epoch: int) -> Control:
        keys = np.array([issued_epoch], np.uint64)
        return replace(self, keys=keys, is_answer=True, status=Status.STALE)

    def answer_busiest(self, keys: Keys, counts: Values) -> Control:
        """Return the answer to BUSIEST: the ranks from the requested one on that fit into a datagram."""
        first_rank = int(self.keys[0])
        ranks = slice(first_rank, first_rank + MAX_VALUES_KEYS)
        return replace(self, keys=keys[ranks], is_answer=True, values=counts[ranks])


def build(control: Control) -> bytes:
    header = Header(
        op=Op.CONTROL,
        flags=RESPONSE if control.is_answer else 0,
        job=control.job,
        worker=CONTROLLER_CALLER,
        epoch=control.epoch,
        ps=control.ps,
        dim=control.dim,
        seq=control.seq,
    )
    datagram = LAYOUT.pack(*header) + _BODY.pack(control.command, control.status, 0, len(control.keys))
    if not control.is_answer or control.values is not None or control.status is Status.STALE:
        datagram += control.keys.astype(">u8").tobytes()
    if control.values is not None:
        datagram += control.values.astype(">u4").tobytes()
    return datagram


def parse(datagram: bytes | memoryview) -> Control:
    """Decode a command or answer; raises `MalformedDatagram`. An answer without values has no keys."""
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
    if header.dim not in (DIMS if command is Command.VALUES else (1,)):
        raise MalformedDatagram(f"{command.name} with dim {header.dim}")
    if zero:
        raise MalformedDatagram(f"{command.name}: expected 0 in the field `zero`, got {zero}")
    is_stale = status is Status.STALE
    limits = {
        **dict.fromkeys(WITHOUT_KEYS, 0),
        **dict.fromkeys(WITH_EPOCH, 1),
        **dict.fromkeys(WITH_VALUES, max_values_keys(header.dim)),
    }
    limit = 1 if is_stale else limits.get(command, MAX_KEYS)
    if n > limit or (status and not is_answer):
        raise MalformedDatagram(f"{command.name} with {n} keys (at most {limit}), status {status.value}")
    # A BUSIEST has its first rank and the number of keys; other commands may have any number of keys.
    request_keys = {**dict.fromkeys(WITH_EPOCH, 1), Command.BUSIEST: 2}
    expected_keys = 1 if is_stale else n if is_answer else request_keys.get(command, n)
    if n != expected_keys:
        raise MalformedDatagram(f"{command.name} with {n} keys, not {expected_keys}")
    has_values = is_answer and command in WITH_VALUES and status is Status.OK
    has_keys = not is_answer or has_values or is_stale
    length = HEADER_BYTES + _BODY.size + n * (KEY_BYTES * has_keys + VALUE_BYTES * header.dim * has_values)
    if len(datagram) != length:
        raise MalformedDatagram(f"{len(datagram)} bytes, not {length} for a {command.name} of {n} keys")
    keys, values = _NO_KEYS, None
    offset = HEADER_BYTES + _BODY.size
    if has_keys:
        keys = np.frombuffer(datagram, ">u8", n, offset).astype(np.uint64)
    if (command in WITH_EPOCH or is_stale) and has_keys and keys[0] > MAX_U32:
        raise MalformedDatagram(f"{command.name} of the epoch {keys[0]}, which is no number of 32 bits")
    if has_values:
        values = np.frombuffer(datagram, ">u4", n * header.dim, offset + n * KEY_BYTES).astype(np.uint32)
    return Control(
        command, header.job, header.ps, header.epoch, header.seq, keys, is_answer, status, values, header.dim
    )
