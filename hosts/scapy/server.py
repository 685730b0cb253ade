"""A parameter server (PS): it holds the values of its share of the parameters, and answers pulls and pushes.

The server is a state machine: `handle` and `wake` take packets and the time, and return the packets to be
sent. It has no socket and no clock. Commands of the controller, which move keys into the switch and back, are
in `moves.py`.

A push is not idempotent, so the server adds it *exactly once*: it remembers of each caller and slot the last
turn, and the lanes that it added then. A later turn is new. A copy of the last turn adds nothing, and gets
the same answer. Anything older is not answered.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scapy.layers.inet import UDP
from scapy.packet import Packet

from foundation.designs.combination import Combination
from foundation.protocol.hashing import ps_of
from foundation.protocol.header import MAX_EPOCHS
from foundation.protocol.rows import ONE_VALUE, RowRanges
from hosts.scapy.moves import Moves
from hosts.scapy.packets import (
    LANES,
    NO_KEY,
    PS_RPC_PORT,
    RESPONSE,
    VALUES,
    VERSION,
    WINDOW,
    Address,
    Hotline,
    Op,
    answer_to,
    fault_of,
    length_of,
    needs_optimiser,
)
from hosts.scapy.rows import MODULUS, Row, add, combine, dim_of, overflows, zeros

log = logging.getLogger(__name__)

_ALL_LANES = 2**LANES - 1


@dataclass(slots=True)
class JobCounters:
    """Costs of a job at this PS: bytes are UDP payloads, times in ns."""

    packets: int = 0
    bytes: int = 0
    rpcs: int = 0  # packets without copies and late ones
    proc_wall_ns: int = 0
    proc_cpu_ns: int = 0
    duplicates: int = 0
    stale: int = 0
    refused_lanes: int = 0
    applied_lanes: int = 0
    overflows: int = 0


class ScapyStore:
    """The rows of one job at PS `ps` of `n_ps`; a key of `space` is here or in the switch.

    `ranges` has the dims of the rows by their keys. Rows that are not in `values` are zeros.
    """

    def __init__(
        self, space: Container[int], ps: int, n_ps: int, ranges: RowRanges = ONE_VALUE,
        combination: Combination = Combination.ADD,
    ) -> None:  # fmt: skip
        self._space, self._ps, self._n_ps, self._ranges = space, ps, n_ps, ranges
        self._combination = combination
        self.values: dict[int, Row] = {}
        self.updates: dict[int, int] = defaultdict(int)  # number of pushes added here
        self.in_switch: dict[int, Row] = {}  # keys that the switch has -> row that it was given
        self._previous_updates: dict[int, int] = {}  # as of the last call of `busiest`

    def is_in_share(self, key: int) -> bool:
        return key != NO_KEY and ps_of(key, self._n_ps) == self._ps and key in self._space

    def is_owned(self, key: int) -> bool:
        return self.is_in_share(key) and key not in self.in_switch

    def dim_of(self, key: int) -> int:
        return dim_of(key, self._ranges)

    def row(self, key: int) -> Row:
        return self.values.get(key) or zeros(self.dim_of(key))

    def push(self, key: int, delta: Row) -> bool:
        """Add a delta to the row of an owned key, or combine both; return whether a sum has overflowed."""
        row = self.row(key)
        self.values[key] = total = combine(self._combination, row, delta)
        self.updates[key] += 1
        return not self._combination.code and overflows(row, delta, total)

    def give(self, key: int) -> Row:
        """Give an owned key to the switch; return its row."""
        self.in_switch[key] = row = self.row(key)
        self.values.pop(key, None)
        return row

    def take_back(self, key: int, row: Row) -> None:
        """Own a key again, to whose row the switch's is added."""
        self.values[key] = add(self.row(key), row)
        del self.in_switch[key]

    def restore(self) -> None:
        """Own all keys again after the loss of the switch, with the rows that it had been given."""
        for key, row in list(self.in_switch.items()):
            self.take_back(key, row)

    def busiest(self, limit: int) -> list[tuple[int, int]]:
        """Return (key, updates since the last call), most updates first, after (NO_KEY, their total)."""
        counts = {key: n - self._previous_updates.get(key, 0) for key, n in self.updates.items()}
        self._previous_updates = dict(self.updates)
        ranking = sorted(((n, key) for key, n in counts.items() if n), reverse=True)[:limit]
        total = min(sum(counts.values()), MODULUS - 1)
        return [(NO_KEY, total), *((key, n) for n, key in ranking)]


@dataclass(slots=True)
class _Slots:
    """A caller's last turn in each slot, and the bitmap of the lanes that it added."""

    turns: list[int] = field(default_factory=lambda: [0] * WINDOW)
    added: list[int] = field(default_factory=lambda: [0] * WINDOW)


class ArrivedRequest(NamedTuple):
    """A request that has arrived, for the log of connections."""

    arrival: int  # in ns
    worker: int
    job: int


class ScapyServer:
    """PS `ps` of `n_ps` with the keys of `space`. `epochs` maps each job to the PS's epoch as a caller.

    `own_address` receives requests, and `service` is where the switch takes the PS's own RPCs. `ranges` has
    the dims of the rows by their keys. Workers are numbered from 1 to `n_workers`, or to any number if it
    is 0.
    """

    def __init__(
        self,
        ps: int,
        n_ps: int,
        space: Container[int],
        epochs: Mapping[int, int],
        own_address: Address,
        service: Address,
        ranges: RowRanges = ONE_VALUE,
        n_workers: int = 0,
        combination: Combination = Combination.ADD,
    ) -> None:
        self._ps, self._n_workers = ps, n_workers
        self.stores = {job: ScapyStore(space, ps, n_ps, ranges, combination) for job in epochs}
        own_rpcs = Address(own_address.ip, PS_RPC_PORT)
        self._moves = {
            job: Moves(job, ps, n_ps, epoch, self.stores[job], own_rpcs, service, ranges)
            for job, epoch in epochs.items()
        }
        self._callers: dict[tuple[int, int], dict[int, _Slots]] = defaultdict(dict)
        """(job, worker) -> epoch -> what the caller has done, of at most `MAX_EPOCHS` epochs."""
        self.counters = {job: JobCounters() for job in epochs}
        self.connections: list[ArrivedRequest] = []
        self.malformed = 0
        self.misdirected = 0  # number of packets for another PS, of an unknown job or worker, and of answers
        self._reported: set[str] = set()

    def handle(self, packet: Packet, now: int) -> list[Packet]:
        """Handle a packet that arrived at `packet.time` (ns); return answers and the PS's own RPCs.

        The loop stamps the two times into the answers to requests (`packets.stamp`).
        """
        if (fault := fault_of(packet)) is not None:
            self.malformed += 1
            if Hotline in packet and packet[Hotline].version != VERSION:
                self._report(f"a datagram is not answered: {fault}")
            return []
        rpc = packet[Hotline]
        is_own_answer = packet[UDP].dport == PS_RPC_PORT
        if rpc.job not in self.counters or rpc.ps != self._ps or bool(rpc.flags & RESPONSE) != is_own_answer:
            self.misdirected += 1
            return []
        if is_own_answer:
            return self._moves[rpc.job].handle_answer(packet, now)
        if rpc.op == Op.CONTROL:
            return self._moves[rpc.job].command(packet, now)
        if self._n_workers and not 1 <= rpc.worker <= self._n_workers:
            self.misdirected += 1
            return []
        if needs_optimiser(rpc):
            self.malformed += 1
            self._report(f"a {Op(rpc.op).name} with flags {rpc.flags} is not answered: this PS only adds")
            return []
        return self._serve(packet)

    def deadline(self) -> int | None:
        """Return when `wake` is due, in ns, or None."""
        dues = (moves.deadline() for moves in self._moves.values())
        return min((due for due in dues if due is not None), default=None)

    def wake(self, now: int) -> list[Packet]:
        return [packet for moves in self._moves.values() for packet in moves.wake(now)]

    def _serve(self, packet: Packet) -> list[Packet]:
        rpc = packet[Hotline]
        counters, slots = self.counters[rpc.job], self._find_slots(rpc, rpc.epoch)
        counters.packets += 1
        counters.bytes += length_of(rpc)
        self.connections.append(ArrivedRequest(int(packet.time), rpc.worker, rpc.job))
        turn, slot = divmod(rpc.seq, WINDOW)
        if slots is None or turn < slots.turns[slot] or turn == 0:  # turns count from 1
            counters.stale += 1
            return []
        is_new = turn > slots.turns[slot]
        if is_new:
            counters.rpcs += 1
        else:
            counters.duplicates += 1
        values, added, refused = None, 0, 0
        if rpc.op == Op.PULL:
            values, refused = self._pull(rpc)
        elif rpc.op == Op.PUSH:
            added = self._push(rpc) if is_new else slots.added[slot]
            refused = rpc.live & ~rpc.served & ~added
        elif rpc.iteration:
            earlier = self._find_slots(rpc, rpc.t0) if rpc.t0 < rpc.epoch else None
            if earlier is None:
                counters.stale += 1
                return []
            refused = _ALL_LANES & ~self._close_turn(rpc, earlier)
        if is_new:
            slots.turns[slot], slots.added[slot] = turn, added
            counters.refused_lanes += (refused & rpc.live).bit_count()
        fields = {"flags": RESPONSE} if values is None else {"flags": RESPONSE | VALUES, "values": values}
        return [answer_to(packet, refused=refused, **fields)]

    def _find_slots(self, rpc: Packet, epoch: int) -> _Slots | None:
        """Return the slots of an epoch of the caller of an RPC; None for one that is not remembered.

        A worker's largest epochs are remembered, and the smallest makes room for a larger one.
        """
        epochs = self._callers[rpc.job, rpc.worker]
        if epoch not in epochs:
            if len(epochs) == MAX_EPOCHS:
                if epoch < min(epochs):
                    return None
                del epochs[min(epochs)]
            epochs[epoch] = _Slots()
        return epochs[epoch]

    def _pull(self, rpc: Packet) -> tuple[list[int], int]:
        """Return the rows of all lanes, those that the switch has served included, and refused lanes."""
        store, refused, no_row = self.stores[rpc.job], 0, zeros(rpc.dim)
        # Without values the switch has served no lane.
        values = list(rpc.values or [0] * (rpc.count * rpc.dim))
        for lane, key in enumerate(rpc.keys):
            if rpc.values and rpc.served >> lane & 1:
                continue
            is_owned = store.is_owned(key) and store.dim_of(key) == rpc.dim
            values[lane * rpc.dim : (lane + 1) * rpc.dim] = store.row(key) if is_owned else no_row
            if rpc.live >> lane & 1 and not is_owned:
                refused |= 1 << lane
        return values, refused & ~rpc.served

    def _push(self, rpc: Packet) -> int:
        """Add the rows of all owned keys that the switch has not served; return the bitmap of lanes."""
        store, added, has_overflow = self.stores[rpc.job], 0, False
        for lane, key in enumerate(rpc.keys):
            is_owned = store.is_owned(key) and store.dim_of(key) == rpc.dim
            if (rpc.live & ~rpc.served) >> lane & 1 and is_owned:
                delta = tuple(rpc.values[lane * rpc.dim : (lane + 1) * rpc.dim])
                has_overflow |= store.push(key, delta)
                added |= 1 << lane
        counters = self.counters[rpc.job]
        counters.applied_lanes += added.bit_count()
        counters.overflows += has_overflow
        return added

    def _close_turn(self, rpc: Packet, slots: _Slots) -> int:
        """Return the lanes that an earlier push has added; from now on it adds no more.

        A caller whose switch was lost asks this with a later epoch: `iteration` is the `seq` of the push, and
        `t0` its epoch, of which `slots` are.
        """
        turn, slot = divmod(rpc.iteration, WINDOW)
        if slots.turns[slot] < turn:  # if the push comes later, it is a copy, and adds nothing
            slots.turns[slot], slots.added[slot] = turn, 0
        return slots.added[slot] if slots.turns[slot] == turn else 0

    def contents(self, job: int, keys: Sequence[int]) -> list[tuple[int, Row, bool, int]]:
        """Return key, row, whether it is here, and number of updates, of those keys in this share."""
        store = self.stores[job]
        return [
            (key, store.row(key), store.is_owned(key), store.updates.get(key, 0))
            for key in keys
            if store.is_in_share(key)
        ]

    def _report(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            log.error("%s", text)
