"""Packing: which key of an operation travels in which lane of which RPC.

The switch serves a *hot* key in one lane only, which a hash of the key determines, but in an RPC to any PS.
All other keys must go to the PS of their share, in any lane. An RPC has rows of one dim, which decides how
many lanes it has.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from scapy.packet import Packet

from foundation.protocol.codec import Caller
from foundation.protocol.hashing import lane_of, ps_of
from foundation.protocol.header import lanes_of_dim
from foundation.protocol.rows import ONE_VALUE, RowRanges
from hosts.scapy.packets import KEYS, NO_KEY, VALUES, Hotline, Op
from hosts.scapy.rows import Row, by_dim, zeros


@dataclass(slots=True)
class PlannedRpc:
    """One RPC of an operation before it is encoded."""

    ps: int
    dim: int = 1  # of the keys' rows
    keys: dict[int, int] = field(default_factory=dict)  # lane -> key
    hashed: int = 0  # bitmap of the lanes whose keys are there by their hash, for the switch to serve
    refusals: int = 0  # number of times that the PS has refused its keys

    def place(self, key: int, lane: int, is_hashed: bool) -> None:
        self.keys[lane] = key
        self.hashed |= is_hashed << lane

    @property
    def live(self) -> int:
        return sum(1 << lane for lane in self.keys)


def pack(
    keys: Iterable[int], hints: Container[int], n_ps: int, ranges: RowRanges = ONE_VALUE
) -> list[PlannedRpc]:
    """Return the calls for the keys of an operation, whose rows have the dims of `ranges`."""
    groups = by_dim(keys, ranges)
    return [call for dim, of_dim in groups for call in _pack_rows(of_dim, hints, n_ps, dim)]


def _pack_rows(keys: Iterable[int], hints: Container[int], n_ps: int, dim: int) -> list[PlannedRpc]:
    """Return the calls for keys whose rows have one dim, those that reach a PS first.

    Cold keys take as few RPCs to their PS as possible. Each hot key goes to its hash lane, in the first RPC
    where this lane is free; the others travel in RPCs with hot keys only, which the switch answers alone.
    """
    lanes = lanes_of_dim(dim)
    cold_keys: list[list[int]] = [[] for _ in range(n_ps)]
    hot_keys = []
    for key in keys:
        if key in hints:
            hot_keys.append(key)
        else:
            cold_keys[ps_of(key, n_ps)].append(key)
    chunks = sorted(  # the PSs take turns, as they work at the same time
        (first, ps, of_ps[first : first + lanes])
        for ps, of_ps in enumerate(cold_keys)
        for first in range(0, len(of_ps), lanes)
    )
    calls = [PlannedRpc(ps, dim) for _, ps, _ in chunks]
    room = [lanes - len(chunk) for *_, chunk in chunks]  # lanes that the cold keys leave free
    for key in hot_keys:
        lane = lane_of(key, lanes)
        for k, call in enumerate(calls):
            if lane not in call.keys and len(call.keys) < room[k]:
                break
        else:
            calls.append(call := PlannedRpc(ps_of(key, n_ps), dim))
            room.append(lanes)
        call.place(key, lane, is_hashed=True)
    for call, (*_, chunk) in zip(calls, chunks, strict=False):
        free_lanes = (lane for lane in range(lanes) if lane not in call.keys)
        for key, lane in zip(chunk, free_lanes, strict=False):
            call.place(key, lane, is_hashed=False)
    return calls


def pack_hashed(
    keys: Iterable[int], n_ps: int, ranges: RowRanges = ONE_VALUE, refusals: int = 0
) -> list[PlannedRpc]:
    """Return calls to the keys' own PSs with each key in its hash lane."""
    calls: list[PlannedRpc] = []
    for dim, of_dim in by_dim(keys, ranges):
        calls_of_dim: list[PlannedRpc] = []
        for key in of_dim:
            ps, lane = ps_of(key, n_ps), lane_of(key, lanes_of_dim(dim))
            call = next((each for each in calls_of_dim if each.ps == ps and lane not in each.keys), None)
            if call is None:
                calls_of_dim.append(call := PlannedRpc(ps, dim, refusals=refusals))
            call.place(key, lane, is_hashed=True)
        calls += calls_of_dim
    return calls


def encode(caller: Caller, op: Op, call: PlannedRpc, deltas: Mapping[int, Row], iteration: int = 0) -> Packet:
    """Return the request for a call, which the window numbers; only a push has `deltas`, rows by key."""
    count = max(call.keys, default=-1) + 1
    rpc = Hotline(
        op=int(op), ps=call.ps, count=count, dim=call.dim, live=call.live, iteration=iteration,
        **caller._asdict(),
    )  # fmt: skip
    if call.keys:
        rpc.flags = KEYS
        rpc.keys = [call.keys.get(lane, NO_KEY) for lane in range(count)]
    if op == Op.PUSH:
        rpc.flags = KEYS | VALUES
        no_row = zeros(call.dim)
        rows = (deltas[call.keys[lane]] if lane in call.keys else no_row for lane in range(count))
        rpc.values = [value for row in rows for value in row]
    return rpc
