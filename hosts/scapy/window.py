"""The window of a caller: numbered RPCs, retransmission, and which packet answers which request.

A caller has up to 64 *slots*, and one RPC at a time in each. The `seq` of an RPC is slot + 64 * turn, where
the turns of a slot count from 1. A slot gets its next turn after its RPC is answered. So switch and servers
recognise a copy by its turn, and need to remember only the last turn of each slot.

The retransmission timeout is that of RFC 6298. Times are ns of one clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from scapy.packet import Packet

from foundation.errors import HotlineError
from hosts.scapy.packets import RESPONSE, WINDOW, Hotline

MS = 1_000_000  # a millisecond, in ns
MIN_TIMEOUT_NS, MAX_TIMEOUT_NS, FIRST_TIMEOUT_NS = 20 * MS, 1_000 * MS, 100 * MS
"""Bounds of the timeout, and the timeout before the first round trip is measured."""
MAX_SEQ = 2**32 - 1
RESERVED_NUMBERS = 1 << 22
"""Sequence numbers that are left for an operation that has begun: more than any operation takes."""
_ECHOED = ("op", "job", "worker", "epoch", "ps", "count", "dim", "seq", "live", "iteration", "t0")
"""Fields that an answer repeats."""
C = TypeVar("C")  # what the caller wants to know again when the answer comes


class NoNumbersLeft(HotlineError):
    """A caller has used the sequence numbers of its epoch."""


@dataclass(slots=True)
class Outstanding(Generic[C]):
    """An RPC that is not answered yet."""

    packet: Packet
    call: C
    t0: int  # time of the first transmission
    last_sent: int  # time of the last transmission
    deadline: int  # time of the next one
    attempts: int = 1  # number of transmissions


class Window(Generic[C]):
    """The slots of one caller, of which `size` are in use."""

    def __init__(self, size: int = WINDOW) -> None:
        self._free = [WINDOW + slot for slot in reversed(range(size))]
        """The next sequence number of each free slot; the last one is used first."""
        self._outstanding: dict[int, Outstanding[C]] = {}  # seq -> RPC, in the order of first transmissions
        self._sent = 0  # number of RPCs sent
        self._max_sent = size * (MAX_SEQ // WINDOW) - RESERVED_NUMBERS
        self._timeout = FIRST_TIMEOUT_NS
        self._smoothed_ns = self._variation_ns = 0.0  # SRTT and RTTVAR of RFC 6298; 0 before the first sample
        self._backed_off_at = 0
        self.retransmissions = 0

    def __len__(self) -> int:
        return len(self._outstanding)

    @property
    def has_room(self) -> bool:
        return bool(self._free)

    def check_numbers(self) -> None:
        """Raise `NoNumbersLeft` unless there are enough numbers for another operation."""
        if self._sent >= self._max_sent:
            raise NoNumbersLeft(
                f"no sequence numbers of 32 bits are left after {self._sent:,} RPCs: end this run, and start "
                "another"
            )

    def send(self, packet: Packet, call: C, now: int) -> Packet:
        """Give a request the number of a free slot, which must exist; return the packet to be sent."""
        rpc = packet[Hotline]
        rpc.seq, rpc.t0 = self._free.pop(), now
        self._outstanding[rpc.seq] = Outstanding(packet, call, now, now, now + self._timeout)
        self._sent += 1
        return packet

    def take_answered(self, answer: Packet, now: int) -> Outstanding[C] | None:
        """Return the RPC that a well-formed packet answers, whose slot becomes free; None for a late copy."""
        rpc = answer[Hotline]
        found = self._outstanding.get(rpc.seq)
        if found is None or not rpc.flags & RESPONSE:
            return None
        request = found.packet[Hotline]
        if any(rpc.getfieldval(name) != request.getfieldval(name) for name in _ECHOED):
            return None
        del self._outstanding[rpc.seq]
        if rpc.seq + WINDOW <= MAX_SEQ:  # otherwise the slot has had its last turn
            self._free.append(rpc.seq + WINDOW)
        if found.attempts == 1:  # otherwise it is unknown which copy is answered (Karn's rule)
            self._time_round_trip(now - found.t0)
        return found

    def overdue(self, now: int) -> list[Packet]:
        """Return the requests that must be sent again, oldest first."""
        late = [each for each in self._outstanding.values() if each.deadline <= now]
        for rpc in late:
            # RPCs in flight together time out together, and count as one loss.
            if rpc.last_sent >= self._backed_off_at:
                self._backed_off_at = now
                self._timeout = min(2 * self._timeout, MAX_TIMEOUT_NS)
            rpc.last_sent = now
            rpc.attempts += 1
            self.retransmissions += 1
        for rpc in late:
            rpc.deadline = now + self._timeout
        return [rpc.packet for rpc in late]

    def deadline(self) -> int | None:
        """Return the time of the next retransmission."""
        return min((rpc.deadline for rpc in self._outstanding.values()), default=None)

    def _time_round_trip(self, ns: int) -> None:
        if self._smoothed_ns:
            self._variation_ns += (abs(self._smoothed_ns - ns) - self._variation_ns) / 4
            self._smoothed_ns += (ns - self._smoothed_ns) / 8
        else:
            self._smoothed_ns, self._variation_ns = ns, ns / 2
        timeout = int(self._smoothed_ns + 4 * self._variation_ns)
        self._timeout = min(max(timeout, MIN_TIMEOUT_NS), MAX_TIMEOUT_NS)
