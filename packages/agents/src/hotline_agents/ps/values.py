"""Rows and owners of a server's share, and the pulls and pushes on them.

A row of `dim` values is consecutive cells: the number of its updates with its owner, the values, and with an
optimiser the sums of the updates and one or two words of state for each value. A server handles one RPC at a
time, and serves or refuses a lane as a whole, so pulls and pushes of a row are atomic.
"""

from __future__ import annotations

from typing import Annotated, Protocol

import numpy as np

from foundation.designs.compiled_combination import combine
from foundation.protocol.codec import MAX_U32
from foundation.protocol.header import FIRST, LANES, SET, STATE, VALUES, Header
from foundation.protocol.rpc import Key, Rpc
from hotline_agents.ps.optimise import (
    ADD,
    IS_FTRL,
    Batch,
    OptimiserRule,
    apply_gradients,
    initial_state_word,
    last_key_of,
    rule_index_of,
    state_words_of,
)
from hotline_agents.ps.row_words import add_swapped, copy_swapped
from hotline_agents.ps.rpcs import PsHeader, PsState
from hotline_agents.ps.share import (
    HEAD_CELLS,
    Share,
    cells_of_share,
    locate,
    locate_row,
    places_and_keys,
    rows_at,
)
from nativekit.bits import popcount, swap32, swap64
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Records, RecordTable, UInt32, check_field_names, records

NOT_OWNED = 1 << 31
"""Bit of a row's first cell: the switch owns the key. Zeroed cells belong to the PS, and take no memory."""
UPDATE_COUNT_MASK = NOT_OWNED - 1
"""Mask of the number of updates in a row's first cell."""
_SIGN = 1 << 31
_HEAD_CELLS_U64 = np.uint64(HEAD_CELLS)
"""Indices without a sign need no check whether they count from the end."""


class ValuesHeader(PsHeader):
    cell_indices: Annotated[Ints, LANES]  # first cells of the rows of the current RPC
    state_words: int  # words of state of each value; 0 if no table has an optimiser


class Cell:
    word: UInt32  # updates and owner, a value in fixed point, a sum of updates, or the bits of `number`
    number: np.float32  # the same word: a value with an optimiser, or a word of its state


CELL = check_field_names(
    np.dtype({"names": list(Cell.__annotations__), "formats": ["u4", "f4"], "offsets": [0, 0], "itemsize": 4})
)
CELL_BYTES = CELL.itemsize
_NO_RULES = records(0, OptimiserRule)


class ValuesState(PsState, Protocol):
    @property
    def header(self) -> ValuesHeader: ...

    @property
    def cells(self) -> RecordTable[Cell]:
        """Cell[jobs, n]: the rows of each job in the order of `Share.ranges`.

        The last row, as long as the longest, stands for keys of other shares.
        """

    @property
    def share(self) -> Share: ...

    @property
    def rules(self) -> Records[OptimiserRule]:
        """The rules of tables in the order of their keys; empty if no table has an optimiser."""

    @property
    def batch(self) -> Batch: ...


def words_of_value(rules: Records[OptimiserRule]) -> int:
    """Return the number of cells of a value: itself, and with optimisers its updates' sum, and its state."""
    return 2 + state_words_of(rules) if len(rules) else 1


def make_cells(jobs: int, share: Share, rules: Records[OptimiserRule] = _NO_RULES) -> RecordTable[Cell]:
    """Make the cells of a share, all owned and 0, except the row of keys of other shares."""
    cells: RecordTable[Cell] = records((jobs, cells_of_share(share)), CELL)
    cells["word"][:, share.header.outside_cell] = NOT_OWNED
    if len(rules) and rules["initial"].any():
        places, keys = places_and_keys(share)
        first, dims = rows_at(share, places)
        initial = rules["initial"][np.searchsorted(rules["first_key"], keys, side="right") - 1]
        for dim in np.unique(dims):
            rows = first[dims == dim]
            state = rows[:, np.newaxis] + HEAD_CELLS + 2 * dim + np.arange(dim)
            cells["number"][:, state] = initial[dims == dim][:, np.newaxis]
    return cells


@compiled
def lanes_to_serve(h: Header) -> int:
    return h.live & ~h.served


@compiled
def locate_lanes(server: ValuesState, h: Header, rpc: Rpc, lanes: int) -> None:
    """Write the first cells of the rows in a bitmap of lanes to the header.

    Other lanes, keys of other shares, and rows of another dim get the row that the PS never owns.
    """
    share, cell_indices = server.share, server.header.cell_indices
    outside_cell = share.header.outside_cell
    if share.header.dim != h.dim:  # rows of several dims, or none of this one
        for lane in range(h.count):
            is_wanted = lanes >> lane & 1
            cell_indices[lane] = (
                locate_row(share, swap64(rpc.keys[lane]), h.dim) if is_wanted else outside_cell
            )
        return
    # In one loop, so that cache misses overlap.
    outside_place = share.header.places
    if h.dim == 1:  # a multiplication for each lane takes 4 % of a pull
        shift = share.header.log2_stride
        for lane in range(h.count):
            place = locate(share, swap64(rpc.keys[lane])) if lanes >> lane & 1 else outside_place
            cell_indices[lane] = place << shift
        return
    stride = share.ranges[0].stride
    for lane in range(h.count):
        place = locate(share, swap64(rpc.keys[lane])) if lanes >> lane & 1 else outside_place
        cell_indices[lane] = place * stride


@compiled
def pull(server: ValuesState, j: int, h: Header, rpc: Rpc, answer: Rpc) -> int:
    """Write the rows of all lanes, including the switch's; return the bitmap of refused lanes."""
    switch_lanes = h.served if h.flags & VALUES else 0
    refused_lanes, cells, cell_indices, dim = 0, server.cells[j], server.header.cell_indices, h.dim
    locate_lanes(server, h, rpc, ~switch_lanes)
    if dim == 1 and not switch_lanes:  # without loops over a row, which double the time of a lane
        for lane in range(h.count):
            head = np.uint64(cell_indices[lane])
            answer.words[lane] = swap32(cells[head + _HEAD_CELLS_U64].word)
            refused_lanes |= int64(cells[head].word >= NOT_OWNED) << lane
    elif dim == 1:
        for lane in range(h.count):
            if switch_lanes >> lane & 1:
                answer.words[lane] = rpc.words[2 * h.count + lane]
            else:
                head = np.uint64(cell_indices[lane])
                answer.words[lane] = swap32(cells[head + _HEAD_CELLS_U64].word)
                refused_lanes |= int64(cells[head].word >= NOT_OWNED) << lane
    first_cell, answer_words = int64(cells.ctypes.data), int64(answer.words.ctypes.data)
    for lane in range(h.count if dim > 1 else 0):
        target, row = lane * dim, int64(cell_indices[lane])
        if switch_lanes >> lane & 1:
            # The switch writes its rows after `count` keys of two words.
            for v in range(dim):
                answer.words[target + v] = rpc.words[2 * h.count + target + v]
        else:
            values = first_cell + (row + HEAD_CELLS) * CELL_BYTES
            copy_swapped(answer_words + target * CELL_BYTES, values, dim)
            if cells[row].word >= NOT_OWNED:
                refused_lanes |= 1 << lane
    if h.flags & STATE:
        _pull_state(server, j, h, answer)
    return refused_lanes & lanes_to_serve(h)


@compiled
def _pull_state(server: ValuesState, j: int, h: Header, answer: Rpc) -> None:
    """Write a word of the optimiser's state of each value; 0 without an optimiser."""
    cells, dim, word = server.cells[j], h.dim, 0 if h.flags & FIRST else 1
    has_word = word < server.header.state_words
    for lane in range(h.count):
        row = int64(server.header.cell_indices[lane])
        first = row + HEAD_CELLS + (2 + word) * dim  # after the values and the sums of their updates
        for v in range(dim):
            answer.words[lane * dim + v] = swap32(cells[first + v].word) if has_word else 0


@compiled
def push(server: ValuesState, j: int, h: Header, rpc: Rpc) -> int:
    """Add the deltas of rows that this PS owns; return the bitmap of added lanes."""
    lanes, added_lanes, overflow_bits = lanes_to_serve(h), 0, 0
    locate_lanes(server, h, rpc, lanes)
    if h.flags & SET:
        return _set_words(server, j, h, rpc)
    if server.header.combination != ADD:
        return _combine_lanes(server, j, h, rpc, lanes)
    if len(server.rules):
        return _apply_optimisers(server, j, h, rpc)
    cells, cell_indices = server.cells[j], server.header.cell_indices
    # The deltas follow `count` keys of two words.
    for lane in range(h.count if h.dim == 1 else 0):
        head = np.uint64(cell_indices[lane])
        if cells[head].word < NOT_OWNED:
            overflow_bits |= _add_delta(cells[head + _HEAD_CELLS_U64], swap32(rpc.words[2 * h.count + lane]))
            cells[head].word = int64(cells[head].word) + 1 & UPDATE_COUNT_MASK
            added_lanes |= 1 << lane
    for lane in range(h.count if h.dim > 1 else 0):
        row = int64(cell_indices[lane])
        if cells[row].word < NOT_OWNED:
            overflow_bits |= _add_deltas(cells, row, h.dim, rpc, 2 * h.count + lane * h.dim)
            added_lanes |= 1 << lane
    server.jobs[j].applied_lanes += popcount(added_lanes)
    server.jobs[j].overflows += overflow_bits >> 31
    return added_lanes


@compiled
def _combine_lanes(server: ValuesState, j: int, h: Header, rpc: Rpc, lanes: int) -> int:
    """Combine pushed values with the rows that this PS owns; return the bitmap of these lanes."""
    cells, code, combined_lanes = server.cells[j], server.header.combination, 0
    for lane in range(h.count):
        row = int64(server.header.cell_indices[lane])
        if lanes >> lane & 1 and cells[row].word < NOT_OWNED:
            for v in range(h.dim):
                pushed = swap32(rpc.words[2 * h.count + lane * h.dim + v])
                cell = cells[row + HEAD_CELLS + v]
                cell.word = combine(code, int64(cell.word), pushed)
            cells[row].word = int64(cells[row].word) + 1 & UPDATE_COUNT_MASK
            combined_lanes |= 1 << lane
    server.jobs[j].applied_lanes += popcount(combined_lanes)
    return combined_lanes


@compiled
def _add_deltas(cells: Records[Cell], row: int, dim: int, rpc: Rpc, word: int) -> int:
    """Add a row's deltas, from `word` of the RPC on; bit 31 of the result tells whether a sum overflowed."""
    cells[row].word = int64(cells[row].word) + 1 & UPDATE_COUNT_MASK
    if dim == 1:
        return _add_delta(cells[row + HEAD_CELLS], swap32(rpc.words[word]))
    values = int64(cells.ctypes.data) + (row + HEAD_CELLS) * CELL_BYTES
    return add_swapped(values, int64(rpc.words.ctypes.data) + word * CELL_BYTES, dim)


@compiled
def _add_delta(cell: Cell, delta: int) -> int:
    """Add a delta to a value; bit 31 of the result tells whether the sum has overflowed."""
    previous_value = int64(cell.word)
    new_value = previous_value + delta & MAX_U32
    cell.word = new_value
    return (previous_value ^ new_value) & (delta ^ new_value)


@compiled
def _apply_optimisers(server: ValuesState, j: int, h: Header, rpc: Rpc) -> int:
    applied_lanes, remaining_lanes, cells = 0, lanes_to_serve(h), server.cells[j]
    while remaining_lanes:
        newly_applied_lanes = _apply_table_optimiser(server, j, h, rpc, remaining_lanes)
        applied_lanes |= newly_applied_lanes
        remaining_lanes &= ~newly_applied_lanes
        for lane in range(h.count if remaining_lanes else 0):
            if cells[server.header.cell_indices[lane]].word >= NOT_OWNED:
                remaining_lanes &= ~(1 << lane)
    server.jobs[j].applied_lanes += popcount(applied_lanes)
    return applied_lanes


@compiled
def _apply_table_optimiser(server: ValuesState, j: int, h: Header, rpc: Rpc, remaining_lanes: int) -> int:
    """Apply gradients of the first remaining lane's table, each row once; return the applied lanes."""
    # The number of 0 bits below the first 1 is the first lane.
    batch, first_lane = server.batch, popcount((remaining_lanes & -remaining_lanes) - 1)
    rule_index = rule_index_of(server.rules, swap64(rpc.keys[first_lane]))
    rule = server.rules[rule_index]
    first_key, last_key = rule.first_key, last_key_of(server.rules, rule_index)
    cells, cell_indices, dim = server.cells[j], server.header.cell_indices, h.dim
    n, applied_lanes, overflow_bits = int64(0), int64(0), int64(0)
    for lane in range(h.count):
        key, row = swap64(rpc.keys[lane]), int64(cell_indices[lane])
        # A row of this batch has the bit NOT_OWNED until it is written back.
        if (
            remaining_lanes >> lane & 1
            and first_key <= key
            and key <= last_key
            and cells[row].word < NOT_OWNED
        ):
            applied_lanes |= 1 << lane
            word = 2 * h.count + lane * dim
            _count_units(cells, row, dim, rpc, word)
            if rule.kind == ADD:
                overflow_bits |= _add_deltas(cells, row, dim, rpc, word)
            else:
                cells[row].word = int64(cells[row].word) | NOT_OWNED
                batch.rows[n] = row
                _read_row(rule, batch, n, cells, row, dim, rpc, word)
                n += 1
    server.jobs[j].overflows += overflow_bits >> 31
    apply_gradients(rule, h.iteration + 1, batch, n, dim)
    for k in range(n):
        _write_row(rule, batch, k, cells, int64(batch.rows[k]), dim)
    return applied_lanes


@compiled
def _count_units(cells: Records[Cell], row: int, dim: int, rpc: Rpc, word: int) -> None:
    """Add a row's units to the sums of its updates, with which runs are accounted for."""
    sums = row + HEAD_CELLS + dim
    for v in range(dim):
        cells[sums + v].word = int64(cells[sums + v].word) + swap32(rpc.words[word + v]) & MAX_U32


@compiled
def _read_row(
    rule: OptimiserRule, batch: Batch, k: int, cells: Records[Cell], row: int, dim: int, rpc: Rpc, word: int
) -> None:
    """Copy row number `k` of a batch, and its gradients, to the batch."""
    values, first_state, target = row + HEAD_CELLS, row + HEAD_CELLS + 2 * dim, k * dim
    for v in range(dim):
        units = swap32(rpc.words[word + v])
        batch.gradient_units[target + v] = (units ^ _SIGN) - _SIGN  # as a signed integer
        batch.value[target + v] = cells[values + v].number
        batch.first_word[target + v] = cells[first_state + v].number
    if rule.kind >= IS_FTRL:  # FTRL or Adam
        for v in range(dim):
            batch.second_word[target + v] = cells[first_state + dim + v].number


@compiled
def _write_row(rule: OptimiserRule, batch: Batch, k: int, cells: Records[Cell], row: int, dim: int) -> None:
    values, first_state, source = row + HEAD_CELLS, row + HEAD_CELLS + 2 * dim, k * dim
    cells[row].word = int64(cells[row].word) + 1 & UPDATE_COUNT_MASK
    for v in range(dim):
        cells[values + v].number = batch.value[source + v]
        cells[first_state + v].number = batch.first_word[source + v]
    if rule.kind >= IS_FTRL:
        for v in range(dim):
            cells[first_state + dim + v].number = batch.second_word[source + v]


@compiled
def _set_words(server: ValuesState, j: int, h: Header, rpc: Rpc) -> int:
    applied_lanes, cells = 0, server.cells[j]
    for lane in range(h.count):
        row = int64(server.header.cell_indices[lane])
        if cells[row].word < NOT_OWNED:
            key = swap64(rpc.keys[lane])
            for v in range(h.dim):
                bits = swap32(rpc.words[2 * h.count + lane * h.dim + v])
                _set_word(server, cells, row + HEAD_CELLS + v, h.dim, h.flags & STATE, key, bits)
            applied_lanes |= 1 << lane
    return applied_lanes


@compiled
def _set_word(
    server: ValuesState, cells: Records[Cell], value: int, dim: int, word: int, key: Key, bits: int
) -> None:
    """Set the value in cell `value`, whose initial state follows, or a word of its state (`word`)."""
    state_words, first_state = server.header.state_words, value + 2 * dim
    if word == 0:
        cells[value].word = bits
        if state_words:
            rule = server.rules[rule_index_of(server.rules, key)]
            cells[first_state].number = initial_state_word(rule, cells[value].number)
        if state_words > 1:
            cells[first_state + dim].word = 0
    elif word == FIRST and state_words:
        cells[first_state].word = bits
    elif word != FIRST and state_words > 1:
        cells[first_state + dim].word = bits
