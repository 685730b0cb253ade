"""The model of the compiled parameter server, in dictionaries and whole-array numpy."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.errors import MalformedDatagram
from foundation.protocol import codec
from foundation.protocol.codec import MAX_U32, Keys, Values
from foundation.protocol.hashing import ps_ids_of
from foundation.protocol.header import (
    MAX_EPOCHS,
    RESPONSE,
    SET,
    SLOT_MASK,
    STATE,
    WINDOW,
    WINDOW_BITS,
    Header,
    Op,
)
from hosts.keys import KeySpace
from tests.harness.wire import MODULUS, bitmap_of, lanes_in, reply

_SIGN = 1 << 31
Positions = NDArray[np.int64]


class ModelStore:
    """Values, owners and update counts by position in the key space; the last element is scratch."""

    def __init__(self, space: KeySpace, ps: int, n_ps: int) -> None:
        self.space = space
        self.in_share = np.append(ps_ids_of(space.all(), n_ps) == ps, np.False_)
        """[size + 1]: in this PS's share, wherever it is now."""
        self.owned = self.in_share.copy()
        """[size + 1]: held here."""
        self.values: Values = np.zeros(space.size + 1, dtype=np.uint32)
        """[size + 1]: 0 where not owned."""
        self.updates = np.zeros(space.size + 1, dtype=np.uint32)
        """[size + 1]: pushed lanes applied."""
        self.overflows = 0
        """RPCs with an addition whose result has the wrong sign."""

    def locate(self, keys: Keys) -> Positions:
        return self.space.positions(keys)

    def add(self, at: Positions, deltas: Values) -> None:
        """Add pushed deltas; a position may occur more than once."""
        overflow = False
        for position, delta in zip(at.tolist(), deltas.tolist(), strict=True):
            held = int(self.values[position])
            total = (held + delta) % MODULUS
            overflow |= (held ^ total) & (delta ^ total) >= _SIGN
            self.values[position] = total
            self.updates[position] += 1
        self.overflows += overflow


@dataclass(slots=True)
class JobCounters:
    """Costs of one job at this PS. Bytes are UDP payloads received; times are ns from reading to sending."""

    packets: int = 0
    bytes: int = 0
    rpcs: int = 0
    """New RPCs: packets without duplicates and stale ones."""
    proc_wall_ns: int = 0
    proc_cpu_ns: int = 0
    duplicates: int = 0
    stale: int = 0
    refused_lanes: int = 0
    applied_lanes: int = 0
    overflows: int = 0


class _CallerSlots:
    __slots__ = ("added", "turns")

    def __init__(self) -> None:
        self.turns = [0] * WINDOW
        self.added = [0] * WINDOW


class ModelServer:
    def __init__(self, ps: int, stores: Mapping[int, ModelStore], clock: Callable[[], int]) -> None:
        self._ps = ps
        self._stores = stores
        self._clock = clock
        self.rows: dict[tuple[int, int, int], _CallerSlots] = {}
        """What callers have done, by job, worker and epoch, also those that are no longer remembered."""
        self.counters = {job: JobCounters() for job in stores}
        self.connection_records = array("q")
        """The connection log: arrival (ns), worker and job of each request; the owner takes it away."""
        self.malformed = 0
        self.misdirected = 0
        """Well-formed RPCs of an unknown job or for another PS, and answers."""

    def handle(self, datagram: bytes | memoryview, arrival: int, read: int) -> tuple[int, bytes] | None:
        """Return the job and the answer of a datagram, or None; `arrival` and `read` are in ns."""
        try:
            header, keys, values = codec.parse(datagram)
        except MalformedDatagram:
            self.malformed += 1
            return None
        job, counters = header.job, self.counters.get(header.job)
        if counters is None or header.ps != self._ps or header.flags & RESPONSE or header.op == Op.CONTROL:
            self.misdirected += 1
            return None
        counters.packets += 1
        counters.bytes += len(datagram)
        self.connection_records.extend((arrival, header.worker, job))
        slot, turn = header.seq & SLOT_MASK, header.seq >> WINDOW_BITS
        row = self._find_row(job, header.worker, header.epoch)
        last = 0 if row is None else row.turns[slot]
        if row is None or turn < last or turn == 0:
            counters.stale += 1
            return None
        is_new = turn > last
        if is_new:
            counters.rpcs += 1
        else:
            counters.duplicates += 1

        refused, added, pulled = 0, 0, None
        if header.op == Op.PULL:
            refused, pulled = self._pull(job, header, keys, values)
        elif header.op == Op.PUSH:
            added = self._push(job, header, keys, values) if is_new else row.added[slot]
            refused = header.live & ~header.served & ~added
        elif header.iteration:
            earlier = self._find_row(job, header.worker, header.t0) if header.t0 < header.epoch else None
            if earlier is None:
                counters.stale += 1
                return None
            refused = ~self._close(header, earlier) & 0xFFFFFFFF
        if is_new:
            row.turns[slot] = turn
            row.added[slot] = added
            counters.refused_lanes += (refused & header.live).bit_count()
        wall = self._clock() - read
        counters.proc_wall_ns += wall
        took = {"ps_proc": min(wall, MAX_U32), "ps_queue": min(max(0, read - arrival), MAX_U32)}
        return job, reply(header, 0 if pulled is None else pulled, refused=refused, **took)

    def _find_row(self, job: int, worker: int, epoch: int) -> _CallerSlots | None:
        """Return the row of a caller, or None if the worker has used `MAX_EPOCHS` larger epochs."""
        if len([each for each in self.epochs(job, worker) if each > epoch]) >= MAX_EPOCHS:
            return None
        return self.rows.setdefault((job, worker, epoch), _CallerSlots())

    def epochs(self, job: int, worker: int) -> list[int]:
        return [row[2] for row in self.rows if row[:2] == (job, worker)]

    def _pull(
        self, job: int, header: Header, keys: Keys | None, carried: Values | None
    ) -> tuple[int, Values]:
        """Return the refused lanes and all values: the switch's for the lanes that it served."""
        assert keys is not None
        store = self._stores[job]
        at = store.locate(keys)
        values = store.values[at]
        if header.flags & STATE:  # there is no optimiser
            values = np.zeros(len(at), np.uint32)
        if header.served and carried is not None:
            values = np.where(lanes_in(header.served, header.count), carried, values)
        return header.live & ~header.served & ~bitmap_of(store.owned[at]), values

    def _close(self, header: Header, row: _CallerSlots) -> int:
        """Return the added lanes of the push asked about; the others will never be added."""
        slot, turn = header.iteration & SLOT_MASK, header.iteration >> WINDOW_BITS
        if row.turns[slot] < turn:
            row.turns[slot], row.added[slot] = turn, 0
        return row.added[slot] if row.turns[slot] == turn else 0

    def _push(self, job: int, header: Header, keys: Keys | None, deltas: Values | None) -> int:
        """Add the lanes whose keys this PS owns; return their bitmap."""
        assert keys is not None and deltas is not None
        store = self._stores[job]
        at = store.locate(keys)
        wanted = header.live & ~header.served
        added = wanted & bitmap_of(store.owned[at])
        if added != (1 << header.count) - 1:
            lanes = lanes_in(added, header.count)
            at, deltas = at[lanes], deltas[lanes]
        if header.flags & SET:
            if not header.flags & STATE:
                store.values[at] = deltas
            return added
        store.add(at, deltas)
        self.counters[job].applied_lanes += added.bit_count()
        return added
