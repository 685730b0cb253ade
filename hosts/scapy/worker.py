"""A worker: it pulls and pushes parameters by RPCs to parameter servers (PSs), through the switch.

The worker is a state machine: `pull`, `push`, `handle` and `wake` take packets and the time, and return the
packets to be sent. It has no socket and no clock. One operation runs at a time, until `idle`.

The worker remembers as *hints* which keys it takes for hot, and corrects them by the answers, so a wrong hint
costs time and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from scapy.packet import Packet

from foundation.protocol.codec import Caller
from foundation.protocol.hashing import ps_of
from foundation.protocol.rows import ONE_VALUE, RowRanges
from hosts.scapy.packets import WINDOW, Address, Hotline, Op, address, fault_of, length_of
from hosts.scapy.packing import PlannedRpc, encode, pack, pack_hashed
from hosts.scapy.rows import Row
from hosts.scapy.window import Window

FIRST_BACKOFF_NS = 250_000
MAX_DOUBLINGS = 7
MISSED = 0  # in place of a number of refusals: a PS refused a key of another share, as the switch lacked it


@dataclass(slots=True)
class AnsweredRpc:
    """An answered RPC, for the log: times in ns, sizes of datagrams in bytes."""

    op: int
    ps: int
    iteration: int
    t0: int  # when the request was sent for the first time
    arrival: int  # when the kernel received the answer
    w_queue: int  # from then until the worker read it
    ps_proc: int
    ps_queue: int
    residence_us: int  # in the switch, in µs
    request_bytes: int
    response_bytes: int
    lanes: int
    served: int  # number of lanes that the switch served
    attempts: int  # number of transmissions
    w_proc: int = 0  # the loop measures it


class _Refused(NamedTuple):
    due: int  # when the keys are sent again, in ns
    keys: list[int]


class AnsweredKeys(Protocol):
    """A set, or a ledger's push, to which a worker adds each key whose push is acknowledged."""

    def add(self, key: int, /) -> None: ...


class ScapyWorker:
    """Worker `number` of one job; `services` are the addresses of all PSs for workers, in their order.

    `ranges` has the dims of the rows by their keys.
    """

    def __init__(
        self,
        job: int,
        number: int,
        epoch: int,
        own_address: Address,
        services: Sequence[Address],
        window: int = WINDOW,
        ranges: RowRanges = ONE_VALUE,
    ) -> None:
        self._caller, self._ranges = Caller(job, number, epoch), ranges
        self._address, self._services = own_address, services
        self._window: Window[PlannedRpc] = Window(window)
        self._op, self._iteration = Op.EMPTY, 0
        self._deltas: Mapping[int, Row] = {}
        self._answered: AnsweredKeys = set()
        self._pending = 0  # number of keys of the operation without an answer; 1 for an empty RPC
        self._unsent: deque[PlannedRpc] = deque()
        self._refused: dict[int, _Refused] = {}  # number of refusals, or MISSED -> keys
        self.hints: set[int] = set()
        self.values: dict[int, Row] = {}
        """Rows of the last pull."""
        self.rpcs_of_operation = 0
        self.log: list[AnsweredRpc] = []
        self.malformed = 0
        self.unexpected = 0  # number of well-formed packets that answer no outstanding RPC

    @property
    def idle(self) -> bool:
        return not self._pending

    @property
    def retransmissions(self) -> int:
        return self._window.retransmissions

    # -- operations

    def pull(self, iteration: int, keys: Iterable[int], now: int) -> list[Packet]:
        """Begin to get the rows of distinct keys; the worker must be idle."""
        self.values = {}
        return self._start(Op.PULL, iteration, list(keys), now)

    def push(
        self, iteration: int, deltas: Mapping[int, Row], answered: AnsweredKeys, now: int
    ) -> list[Packet]:
        """Begin to add rows of deltas (mod 2^32) by key; acknowledged keys are added to `answered`."""
        self._deltas, self._answered = deltas, answered
        return self._start(Op.PUSH, iteration, list(deltas), now)

    def send_empty_rpc(self, ps: int, now: int) -> list[Packet]:
        """Begin an RPC without keys, which measures the network alone (Pan et al. Fig. 9)."""
        self._window.check_numbers()
        self._op, self._iteration, self._pending, self.rpcs_of_operation = Op.EMPTY, 0, 1, 0
        self._queue([PlannedRpc(ps)])
        return self._send(now)

    def _start(self, op: Op, iteration: int, keys: list[int], now: int) -> list[Packet]:
        self._window.check_numbers()
        self._op, self._iteration, self._pending, self.rpcs_of_operation = op, iteration, len(keys), 0
        self._queue(pack(keys, self.hints, len(self._services), self._ranges))
        return self._send(now)

    def _queue(self, calls: Sequence[PlannedRpc]) -> None:
        self._unsent += calls
        self.rpcs_of_operation += len(calls)

    def _send(self, now: int) -> list[Packet]:
        """Encode and number queued calls while slots of the window are free."""
        packets = []
        while self._unsent and self._window.has_room:
            call = self._unsent.popleft()
            rpc = encode(self._caller, self._op, call, self._deltas, self._iteration)
            packet = address(rpc, self._address, self._services[call.ps])
            packets.append(self._window.send(packet, call, now))
        return packets

    # -- answers

    def handle(self, packet: Packet, now: int) -> list[Packet]:
        """Handle a packet read `now`, which arrived at `packet.time` (ns); return the packets to be sent."""
        if fault_of(packet) is not None:
            self.malformed += 1
            return []
        outstanding = self._window.take_answered(packet, now)
        if outstanding is None:
            self.unexpected += 1
            return []
        answer = packet[Hotline]
        self.log.append(
            AnsweredRpc(
                op=answer.op, ps=answer.ps, iteration=self._iteration, t0=outstanding.t0,
                arrival=int(packet.time), w_queue=now - int(packet.time), ps_proc=answer.ps_proc,
                ps_queue=answer.ps_queue, residence_us=answer.residence,
                request_bytes=length_of(outstanding.packet[Hotline]), response_bytes=length_of(answer),
                lanes=answer.live.bit_count(), served=answer.served.bit_count(),
                attempts=outstanding.attempts,
            )
        )  # fmt: skip
        if answer.op == Op.EMPTY:
            self._pending = 0
        else:
            self._apply(outstanding.call, answer, now)
        return self._send(now)

    def _apply(self, call: PlannedRpc, answer: Packet, now: int) -> None:
        for lane, key in call.keys.items():
            is_served, is_hashed = bool(answer.served >> lane & 1), bool(call.hashed >> lane & 1)
            if answer.refused >> lane & 1:
                self._retry(key, call, now)
                continue
            if answer.op == Op.PULL:
                self.values[key] = tuple(answer.values[lane * answer.dim : (lane + 1) * answer.dim])
            else:
                self._answered.add(key)
            self._pending -= 1
            if is_served and not is_hashed:
                self.hints.add(key)
            elif is_hashed and not is_served:
                self.hints.discard(key)

    def _retry(self, key: int, call: PlannedRpc, now: int) -> None:
        """Send a refused key again."""
        if ps_of(key, len(self._services)) == call.ps:
            # Its PS has given the key away: the switch has it, or will have it soon.
            self.hints.add(key)
            refusals = call.refusals + 1
            delay_ns = FIRST_BACKOFF_NS << min(call.refusals, MAX_DOUBLINGS)
        else:
            # The key travelled to another PS, as the worker took it for hot, and it was not.
            self.hints.discard(key)
            refusals, delay_ns = MISSED, 0
        self._refused.setdefault(refusals, _Refused(now + delay_ns, [])).keys.append(key)

    # -- time

    def deadline(self) -> int | None:
        """Return when `wake` is due, in ns; None if there is nothing to wait for but answers."""
        dues = [refused.due for refused in self._refused.values()]
        retransmission = self._window.deadline()
        return min([*dues, retransmission] if retransmission is not None else dues, default=None)

    def wake(self, now: int) -> list[Packet]:
        """Send again what is overdue, and keys that were refused."""
        packets = self._window.overdue(now)
        for refusals in [each for each, (due, _) in self._refused.items() if due <= now]:
            keys, n_ps = self._refused.pop(refusals).keys, len(self._services)
            self._queue(
                pack(keys, (), n_ps, self._ranges)
                if refusals == MISSED
                else pack_hashed(keys, n_ps, self._ranges, refusals)
            )
        return packets + self._send(now)
