"""The model of `hotline_agents.hotset.worker.client`: the same state machine in classes, queues and numpy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.errors import MalformedDatagram
from foundation.protocol import codec
from foundation.protocol.codec import Caller, Keys, Message, Values
from foundation.protocol.hashing import lanes_of, ps_ids_of
from foundation.protocol.header import WINDOW, Header, Op
from foundation.protocol.register_packing import Packing, pack_hashed
from hosts.keys import KeySpace
from tests.harness.packing import Packed, pack
from tests.harness.window import Window
from tests.harness.wire import answers, lanes_in, requests

_FIRST_BACKOFF_NS = 250_000
_MAX_DOUBLINGS = 7
_NO_KEYS = np.empty(0, dtype=np.int32)


@dataclass(eq=False, slots=True)
class _Call:
    request: Message
    keys_at: NDArray[np.int32]
    """Index of each lane's key in the operation; the operation's size if the lane is not live."""
    hashed: int
    """Bitmap of the lanes whose keys are there by their hash."""
    refusals: int
    """Number of refusals of its keys."""
    datagram: bytes = b""


class _Keys(NamedTuple):
    """Keys of one step. Pull and push share them and, while no hint changes, their packing."""

    positions: NDArray[np.integer]
    keys: Keys
    ps: NDArray[np.uint16]
    lane: NDArray[np.uint8]


class ModelClient:
    """One worker's calls for one job. `clock` is monotonic, ns; it times the processing of answers."""

    def __init__(
        self, caller: Caller, n_ps: int, space: KeySpace, clock: Callable[[], int], window: int = WINDOW
    ) -> None:
        self._caller = caller
        self._n_ps = n_ps
        self._space = space
        self._clock = clock
        self._window: Window[_Call] = Window(window)
        self._unsent: deque[_Call] = deque()
        self._again: deque[_Call] = deque()
        self._refused: dict[int, tuple[int, list[int]]] = {}  # by number of refusals: when due, which keys
        self._op = Op.EMPTY
        self._iteration = 0
        self._step: _Keys | None = None
        self._packing: Packed | None = None
        self._deltas: Values | None = None
        self._answered: NDArray[np.bool_] | None = None
        self._pulled: Values = np.zeros(1, dtype=np.uint32)
        self.hinted = np.zeros(space.size + 1, dtype=np.bool_)
        """By position in the key space: whether it goes to its hash lane."""
        self.rpcs_of_operation = 0
        """RPCs of the running or last operation, those for refused lanes included."""
        self.records: list[dict[str, int]] = []
        """Log rows of answered RPCs, with times in ns, and sizes of the UDP payload in bytes."""
        self.malformed = 0
        self.unexpected = 0
        """Well-formed datagrams that answer no outstanding RPC."""

    @property
    def idle(self) -> bool:
        return not (len(self._window) or self._unsent or self._refused)

    @property
    def values(self) -> Values:
        return self._pulled[:-1]

    def hint(self, keys: Keys | None) -> None:
        """Replace all hints by these keys; unknown keys are ignored."""
        self.hinted[:] = False
        if keys is not None:
            self.hinted[self._space.positions(keys)] = True
            self.hinted[-1] = False
        self._packing = None

    def pull(self, iteration: int, positions: NDArray[np.integer]) -> None:
        """Start to fetch the values of these distinct parameters [size]; the client must be idle."""
        self._take_keys(positions)
        self._pulled = np.zeros(len(positions) + 1, dtype=np.uint32)
        self._deltas = self._answered = None
        self._start(Op.PULL, iteration)

    def push(
        self, iteration: int, positions: NDArray[np.integer], deltas: Values, answered: NDArray[np.bool_]
    ) -> None:
        """Start to add `deltas` [size]; `answered` [size + 1, the last is scratch] marks applied ones."""
        self._take_keys(positions)
        self._deltas, self._answered = deltas, answered
        self._start(Op.PUSH, iteration)

    def start_empty_rpc(self, ps: int) -> None:
        job, worker, epoch = self._caller
        header = Header(op=Op.EMPTY, job=job, worker=worker, epoch=epoch, ps=ps)
        self._op = Op.EMPTY
        self._unsent.append(_Call(Message(header), _NO_KEYS, 0, 0))

    def transmit(self) -> tuple[bytes, int] | None:
        while self._again:
            call = self._again.popleft()
            if self._window.waits_for(call):
                return call.datagram, call.request.header.ps
        if not (self._unsent and self._window.is_open):
            return None
        call = self._unsent.popleft()
        now = self._clock()
        header = call.request.header._replace(seq=self._window.issue(call, now), t0=now)
        call.request = call.request._replace(header=header)
        call.datagram = codec.build(call.request)
        return call.datagram, header.ps

    def receive(self, datagram: bytes | memoryview, arrival: int, read: int) -> None:
        try:
            header, _, values = codec.parse(datagram)
        except MalformedDatagram:
            self.malformed += 1
            return
        rpc = self._window.find(header.seq)
        if rpc is None or not answers(header, rpc.call.request.header):
            self.unexpected += 1
            return
        self._window.close(header.seq, read)
        call = rpc.call
        if values is not None:
            self._pulled[call.keys_at] = values
        elif self._answered is not None:
            self._answered[call.keys_at] = True
        if header.op != Op.EMPTY and (header.refused or header.served != call.hashed):
            self._learn(call, header, read)
        self.records.append(
            {
                "ps": header.ps,
                "iteration": header.iteration,
                "op": header.op,
                "t0": rpc.t0,
                "arrival": arrival,
                "request_bytes": len(call.datagram),
                "response_bytes": len(datagram),
                "w_proc": self._clock() - read,
                "w_queue": read - arrival,
                "ps_proc": header.ps_proc,
                "ps_queue": header.ps_queue,
                "residence_us": header.residence,
                "lanes": header.live.bit_count(),
                "served": header.served.bit_count(),
                "attempts": rpc.attempts,
            }
        )

    def deadline(self) -> int | None:
        dues = [due for due, _ in self._refused.values()]
        retransmission = self._window.deadline()
        if retransmission is not None:
            dues.append(retransmission)
        return min(dues, default=None)

    def wake(self, now: int) -> None:
        again = [id(call) for call in self._again]
        self._again.extend(call for call in self._window.overdue(now) if id(call) not in again)
        for refusals in [refusals for refusals, (due, _) in self._refused.items() if due <= now]:
            self._resend(self._refused.pop(refusals)[1], refusals)

    def _take_keys(self, positions: NDArray[np.integer]) -> None:
        if self._step is None or self._step.positions is not positions:
            keys = self._space.keys(positions)
            self._step = _Keys(positions, keys, ps_ids_of(keys, self._n_ps), lanes_of(keys))
            self._packing = None

    def _start(self, op: Op, iteration: int) -> None:
        assert self._step is not None
        self._op, self._iteration = op, iteration
        self.rpcs_of_operation = 0
        step = self._step
        if self._packing is None:
            self._packing = pack(step.ps, step.lane, self.hinted[step.positions])
        self._enqueue(*self._packing, step.keys, self._deltas, None, 0)

    def _enqueue(
        self,
        packing: Packing,
        hashed: Sequence[int],
        keys: Keys,
        deltas: Values | None,
        part: NDArray[np.intp] | None,
        refusals: int,
    ) -> None:
        """Queue the RPCs of a packing of all keys, or of those in `part`."""
        calls = requests(self._op, self._caller, self._iteration, packing, keys, deltas)
        position = packing.position
        if part is not None:
            assert self._step is not None
            position = np.append(part, len(self._step.keys)).astype(np.int32)[position]
        keys_at = (row[:count] for row, count in zip(position, packing.count.tolist(), strict=True))
        self.rpcs_of_operation += len(calls)
        self._unsent.extend(_Call(*call, refusals) for call in zip(calls, keys_at, hashed, strict=True))

    def _learn(self, call: _Call, header: Header, now: int) -> None:
        """Update the hints by an answer that disagrees with them; queue the refused lanes."""
        assert self._step is not None
        live = call.keys_at != len(self._step.keys)
        refused = lanes_in(header.refused, header.count)
        served = lanes_in(header.served, header.count)
        positions = self._step.positions
        hashed = lanes_in(call.hashed, header.count)
        own = np.append(self._step.ps, header.ps)[call.keys_at] == header.ps
        self.hinted[positions[call.keys_at[served & ~hashed | refused & own]]] = True
        self.hinted[positions[call.keys_at[live & hashed & ~served & ~(refused & own)]]] = False
        self._packing = None
        if self._answered is not None:
            self._answered[call.keys_at[refused]] = False
        for at, is_own in zip(call.keys_at[refused].tolist(), own[refused].tolist(), strict=True):
            times = call.refusals + 1 if is_own else 0
            wait = _FIRST_BACKOFF_NS << min(call.refusals, _MAX_DOUBLINGS) if is_own else 0
            self._refused.setdefault(times, (now + wait, []))[1].append(at)

    def _resend(self, part: list[int], refusals: int) -> None:
        """Queue these keys again: in their hash lanes if a PS has refused them."""
        assert self._step is not None
        # Those that were missed are packed anew, the last of them first.
        step, which = self._step, np.array(part if refusals else part[::-1], dtype=np.intp)
        ps, lane = step.ps[which], step.lane[which]
        if refusals:
            packing = pack_hashed(ps, lane)
            hashed = packing.live.tolist()
        else:
            packing, hashed = pack(ps, lane, np.zeros(len(which), np.bool_))
        deltas = None if self._deltas is None else self._deltas[which]
        self._enqueue(packing, hashed, step.keys[which], deltas, which, refusals)
