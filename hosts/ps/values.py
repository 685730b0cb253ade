"""Values and owners of a server's share, and the pulls and pushes on them."""

from __future__ import annotations

from typing import Annotated, Protocol

import numpy as np

from foundation.protocol.codec import MAX_U32
from foundation.protocol.header import FIRST, LANES, SET, STATE, VALUES, Header
from foundation.protocol.rpc import Key, Rpc
from hosts.ps.optimise import (
    ADD,
    IS_FTRL,
    Batch,
    OptimiserRule,
    apply_gradients,
    initial_state_word,
    last_key_of,
    rule_index_of,
    width_of,
)
from hosts.ps.rpcs import PsHeader, PsState
from hosts.ps.share import Share, locate, places_and_keys
from nativekit.bits import popcount, swap32, swap64
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Records, RecordTable, UInt32, check_field_names, records

NOT_OWNED = 1 << 31
"""Bit of a cell's `updates`: the switch owns the key. Zeroed cells belong to the PS, and take no memory."""
UPDATE_COUNT_MASK = NOT_OWNED - 1
"""Mask of the number of updates in a cell's `updates`."""
_SIGN = 1 << 31


class ValuesHeader(PsHeader):
    cell_indices: Annotated[Ints, LANES]  # cells of the keys of the current RPC
    width: int  # number of cells of a parameter


class Cell:
    value: UInt32  # in fixed point, or the bits of `number`
    updates: UInt32  # number of updates mod 2^31; with the bit NOT_OWNED if the switch owns the key
    number: np.float32  # the same word as `value`: the value with an optimiser, and words of state
    applied: UInt32
    """The same word as `updates`: in the first word of state, the sum of the updates in units, mod 2^32."""


CELL = check_field_names(
    np.dtype(
        {
            "names": list(Cell.__annotations__),
            "formats": ["u4", "u4", "f4", "u4"],
            "offsets": [0, 4, 0, 4],
            "itemsize": 8,
        }
    )
)
_NO_RULES = records(0, OptimiserRule)


class ValuesState(PsState, Protocol):
    @property
    def header(self) -> ValuesHeader: ...

    @property
    def cells(self) -> RecordTable[Cell]:
        """Cell[jobs, (places + 1) * width]: `width` cells a parameter; the first has its value.

        The other cells are words of its optimiser's state (`hosts.ps.optimise`). The last parameter stands
        for keys of other shares.
        """

    @property
    def share(self) -> Share: ...

    @property
    def rules(self) -> Records[OptimiserRule]:
        """The rules of tables in the order of their keys; empty if no table has an optimiser."""

    @property
    def batch(self) -> Batch: ...


def make_cells(jobs: int, share: Share, rules: Records[OptimiserRule] = _NO_RULES) -> RecordTable[Cell]:
    """Make the cells of a share, all owned and 0; the last parameter stands for keys of other shares."""
    width = width_of(rules)
    cells: RecordTable[Cell] = records((jobs, (share.header.places + 1) * width), CELL)
    cells["updates"][:, -width] = NOT_OWNED
    if len(rules) and rules["initial"].any():
        places, keys = places_and_keys(share)
        rule_indices = np.searchsorted(rules["first_key"], keys, side="right") - 1
        cells["number"][:, places * width + 1] = rules["initial"][rule_indices]
    return cells


@compiled
def lanes_to_serve(h: Header) -> int:
    return h.live & ~h.served


@compiled
def locate_lanes(server: ValuesState, rpc: Rpc, count: int, lanes: int) -> None:
    """Write the cell indices of a bitmap of lanes to the header, in one loop so that cache misses overlap."""
    # Other lanes, and keys of other shares, get the place after the share, which is never owned: a PS
    # refuses them.
    cell_indices, width = server.header.cell_indices, int64(server.header.width)
    outside_place = int64(server.share.header.places)
    for lane in range(count):
        place = locate(server.share, swap64(rpc.keys[lane])) if lanes >> lane & 1 else outside_place
        cell_indices[lane] = place
    # Skipped without optimisers, because a multiplication for each lane takes 4 % of a pull.
    for lane in range(count if width > 1 else 0):
        cell_indices[lane] *= width


@compiled
def pull(server: ValuesState, j: int, h: Header, rpc: Rpc, answer: Rpc) -> int:
    """Write the values of all lanes, including the switch's values; return the bitmap of refused lanes."""
    switch_lanes = h.served if h.flags & VALUES else int64(0)
    refused_lanes, cells, cell_indices = int64(0), server.cells[j], server.header.cell_indices
    locate_lanes(server, rpc, h.count, ~switch_lanes)
    for lane in range(h.count):
        if switch_lanes >> lane & 1:
            # The switch writes its values after `count` keys of two words.
            answer.words[lane] = rpc.words[2 * h.count + lane]
        else:
            cell = cells[cell_indices[lane]]
            answer.words[lane] = swap32(cell.value)
            if cell.updates >= NOT_OWNED:
                refused_lanes |= 1 << lane
    if h.flags & STATE:
        _pull_state(server, j, h, answer)
    return refused_lanes & lanes_to_serve(h)


@compiled
def _pull_state(server: ValuesState, j: int, h: Header, answer: Rpc) -> None:
    """Write a word of the optimiser's state of each lane; 0 without an optimiser."""
    for lane in range(h.count):
        answer.words[lane] = 0
        word = 1 if h.flags & FIRST else 2  # the first or the second one after the value
        if word < server.header.width:
            answer.words[lane] = swap32(server.cells[j, server.header.cell_indices[lane] + word].value)


@compiled
def push(server: ValuesState, j: int, h: Header, rpc: Rpc) -> int:
    """Add the deltas of keys that this PS owns; return the bitmap of added lanes."""
    lanes, added_lanes, overflow_bits = lanes_to_serve(h), int64(0), int64(0)
    locate_lanes(server, rpc, h.count, lanes)
    if h.flags & SET:
        return _set_words(server, j, h, rpc)
    if len(server.rules):
        return _apply_optimisers(server, j, h, rpc)
    cells, cell_indices = server.cells[j], server.header.cell_indices
    for lane in range(h.count):
        cell = cells[cell_indices[lane]]
        if cell.updates < NOT_OWNED:
            # The deltas follow `count` keys of two words.
            overflow_bits |= _add_delta(cell, swap32(rpc.words[2 * h.count + lane]))
            added_lanes |= 1 << lane
    server.jobs[j].applied_lanes += popcount(added_lanes)
    server.jobs[j].overflows += overflow_bits >> 31
    return added_lanes


@compiled
def _add_delta(cell: Cell, delta: int) -> int:
    """Add a delta to a value; bit 31 of the result tells whether the sum has overflowed."""
    previous_value = int64(cell.value)
    new_value = previous_value + delta & MAX_U32
    cell.value = new_value
    cell.updates = int64(cell.updates) + 1 & UPDATE_COUNT_MASK
    return (previous_value ^ new_value) & (delta ^ new_value)


@compiled
def _apply_optimisers(server: ValuesState, j: int, h: Header, rpc: Rpc) -> int:
    applied_lanes, remaining_lanes = int64(0), lanes_to_serve(h)
    while remaining_lanes:
        newly_applied_lanes = _apply_table_optimiser(server, j, h, rpc, remaining_lanes)
        applied_lanes |= newly_applied_lanes
        remaining_lanes &= ~newly_applied_lanes
        for lane in range(h.count if remaining_lanes else 0):
            if server.cells[j, server.header.cell_indices[lane]].updates >= NOT_OWNED:
                remaining_lanes &= ~(1 << lane)
    server.jobs[j].applied_lanes += popcount(applied_lanes)
    return applied_lanes


@compiled
def _apply_table_optimiser(server: ValuesState, j: int, h: Header, rpc: Rpc, remaining_lanes: int) -> int:
    """Apply gradients of the first remaining lane's table, each key once; return the applied lanes."""
    # The number of 0 bits below the first 1 is the first lane.
    batch, first_lane = server.batch, popcount((remaining_lanes & -remaining_lanes) - 1)
    rule_index = rule_index_of(server.rules, swap64(rpc.keys[first_lane]))
    rule = server.rules[rule_index]
    first_key, last_key = rule.first_key, last_key_of(server.rules, rule_index)
    kind, cells, cell_indices = int64(rule.kind), server.cells[j], server.header.cell_indices
    n, applied_lanes, overflow_bits = int64(0), int64(0), int64(0)
    for lane in range(h.count):
        key, cell_index = swap64(rpc.keys[lane]), int64(cell_indices[lane])
        cell = cells[cell_index]
        # A cell of this batch has the bit NOT_OWNED until it is written back.
        if remaining_lanes >> lane & 1 and first_key <= key and key <= last_key and cell.updates < NOT_OWNED:
            applied_lanes |= 1 << lane
            units = swap32(rpc.words[2 * h.count + lane])
            cells[cell_index + 1].applied += units
            if kind == ADD:
                overflow_bits |= _add_delta(cell, units)
            else:
                cell.updates |= NOT_OWNED
                batch.cell_indices[n] = cell_index
                batch.gradient_units[n] = (units ^ _SIGN) - _SIGN  # as a signed integer
                batch.value[n] = cell.number
                batch.first_word[n] = cells[cell_index + 1].number
                if kind >= IS_FTRL:  # FTRL or Adam
                    batch.second_word[n] = cells[cell_index + 2].number
                n += 1
    server.jobs[j].overflows += overflow_bits >> 31
    apply_gradients(rule, h.iteration + 1, batch, n)
    for k in range(n):
        cell_index = int64(batch.cell_indices[k])
        cell = cells[cell_index]
        cell.updates = int64(cell.updates) + 1 & UPDATE_COUNT_MASK
        cell.number = batch.value[k]
        cells[cell_index + 1].number = batch.first_word[k]
        if kind >= IS_FTRL:
            cells[cell_index + 2].number = batch.second_word[k]
    return applied_lanes


@compiled
def _set_words(server: ValuesState, j: int, h: Header, rpc: Rpc) -> int:
    applied_lanes = int64(0)
    for lane in range(h.count):
        cell_index = server.header.cell_indices[lane]
        cell = server.cells[j, cell_index]
        if cell.updates < NOT_OWNED:
            key, bits = swap64(rpc.keys[lane]), swap32(rpc.words[2 * h.count + lane])
            _set_word(server, j, int64(cell_index), h.flags & STATE, key, bits)
            applied_lanes |= 1 << lane
    return applied_lanes


@compiled
def _set_word(server: ValuesState, j: int, cell_index: int, word: int, key: Key, bits: int) -> None:
    if word == 0:  # the value; otherwise `FIRST` or `SECOND`, a word of state
        server.cells[j, cell_index].value = bits
    if server.header.width == 1:
        return
    if word == 0:
        rule = server.rules[rule_index_of(server.rules, key)]
        server.cells[j, cell_index + 1].number = initial_state_word(rule, server.cells[j, cell_index].number)
        if server.header.width > 2:  # the optimiser has a second word of state
            server.cells[j, cell_index + 2].value = 0
    elif word == FIRST:
        server.cells[j, cell_index + 1].value = bits
    elif server.header.width > 2:
        server.cells[j, cell_index + 2].value = bits
