"""The share of a PS: which keys belong to it, and the place of each key in arrays as long as the share.

Dense keys 0..size-1 have a rank index: a bit for each key of the space, and the number of keys of the share
before each word. With a single PS a key is its own place. Sparse keys lie in open-addressing tables, one for
each range of rows. So the rows of a range have consecutive places, and as their dim is the same, the place of
a row decides where its cells are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.protocol.codec import Keys
from foundation.protocol.hashing import MULTIPLIER
from foundation.protocol.rpc import NO_KEY_U64, Key, hash_of, ps_of
from hosts.keys import KeySpace, key_ranges
from nativekit.bits import popcount
from nativekit.compile import compiled, inlined, int64
from nativekit.records import Records, UInt32, dtype_of, one_record, records
from nativekit.reference import as_ref

Places = NDArray[np.int64]

_LOAD_FACTOR = 0.6  # load factor of the table: linear probing then takes about two probes for a stored key
_CHUNK_KEYS = 1 << 20  # number of keys read from the file at a time
_MULTIPLIER_U64, _HALF_HASH_BITS = np.uint64(MULTIPLIER), np.uint64(32)
LOG2_RANK_KEYS = 5
RANK_KEYS = 1 << LOG2_RANK_KEYS  # number of keys of an entry of the rank index


class ShareHeader:
    places: int
    keys: int  # size of a dense key space
    outside_cell: int  # first cell of the row that stands for keys of other shares
    dim: int  # of all rows, or 0 if dims differ
    log2_stride: int  # of the number of cells of a row, if all rows have one value


class ShareRange:
    """The rows of one range of the key space (`hosts.keys`) that are in the share."""

    first_key: np.uint64
    dim: int
    first_place: int
    places: int
    shift: int  # right shift of the table's hash, in bits
    first_cell: int
    stride: int  # number of cells of a row


class Rank:
    """An entry of the rank index, for 32 keys of a dense key space."""

    bits: UInt32  # bitmap of the share's keys among these 32
    n_before: UInt32  # number of keys of the share before these 32


RANK = dtype_of(Rank)


HEAD_CELLS = 1
"""Cells of a row before its values (`hotline_agents.ps.values`)."""


def cells_of_row(dim: int, words_of_value: int = 1) -> int:
    """Return the number of cells of a row; one of a single value is in one cache line."""
    cells = HEAD_CELLS + dim * words_of_value
    return cells if dim > 1 else 1 << (cells - 1).bit_length()


class Share(NamedTuple):
    """The keys of one PS. Places are 0..places-1; all keys of other shares have the place `places`."""

    header: ShareHeader
    ranges: Records[ShareRange]
    ranks: Records[Rank]  # [size / 32], or [0] if a key is its own place
    table: Keys  # uint64[places]: key of each place, NO_KEY_U64 for an empty one; [0] for dense keys


def make_share(space: KeySpace, ps: int, n_ps: int, words_of_value: int = 1) -> Share:
    """Return a PS's share of a key space, with `words_of_value` cells for each value of a row."""
    header, ranges = one_record(ShareHeader), records(len(space.ranges), ShareRange)
    share = Share(header, ranges, records(0, Rank), np.zeros(0, np.uint64))
    key_table = key_ranges(space)
    ranges.first_key, ranges.dim = key_table.first_key, key_table.dim
    ranges.stride = [cells_of_row(each.dim, words_of_value) for each in space.ranges]
    header.dim = space.dims[0] if len(space.dims) == 1 else 0
    if header.dim == 1:
        header.log2_stride = int(ranges.stride[0]).bit_length() - 1
    bounds = [*key_table.first.tolist(), space.size]
    if space.sparse is not None:
        share = _add_tables(share, space.sparse, bounds, ps, n_ps)
    else:
        header.keys = space.size
        share = _rank_rows(share, bounds, ps, n_ps)
    ranges.first_place = np.cumsum(ranges.places) - ranges.places
    cells = ranges.places * ranges.stride
    ranges.first_cell = np.cumsum(cells) - cells
    header.places, header.outside_cell = int(ranges.places.sum()), int(cells.sum())
    if space.sparse is not None:
        for chunk in _chunks(space.sparse, 0, space.size):
            insert_share(share, chunk, ps, n_ps)
    return share


def cells_of_share(share: Share) -> int:
    """Return the number of cells of all rows, and of one more, which stands for keys of other shares."""
    return int(share.header.outside_cell) + int(share.ranges.stride.max())


def _rank_rows(share: Share, bounds: Sequence[int], ps: int, n_ps: int) -> Share:
    if n_ps == 1:
        share.ranges.places = np.diff(bounds)
        return share
    share = share._replace(ranks=records(-(-bounds[-1] // RANK_KEYS), Rank))
    n_places = fill_ranks(share, ps, n_ps)
    share.ranges.places = np.diff([*(_rank_of(share, first) for first in bounds[:-1]), n_places])
    return share


def _rank_of(share: Share, position: int) -> int:
    """Return the number of the share's keys below a position."""
    if position == share.header.keys:
        return int(share.ranks[-1].n_before) + int(share.ranks[-1].bits).bit_count()
    rank = share.ranks[position >> LOG2_RANK_KEYS]
    below = (1 << (position & RANK_KEYS - 1)) - 1
    return int(rank.n_before) + (int(rank.bits) & below).bit_count()


def _add_tables(share: Share, keys: Keys, bounds: Sequence[int], ps: int, n_ps: int) -> Share:
    for each, first, end in zip(share.ranges, bounds[:-1], bounds[1:], strict=True):
        n_keys = sum(count_share(chunk, ps, n_ps) for chunk in _chunks(keys, first, end))
        bits = table_bits(n_keys)
        each.places, each.shift = 1 << bits, 64 - bits
    return share._replace(table=np.full(int(share.ranges.places.sum()), NO_KEY_U64))


def _chunks(keys: Keys, first: int, end: int) -> Iterator[Keys]:
    # The keys are mapped from a file, which may be larger than memory.
    for start in range(first, end, _CHUNK_KEYS):
        yield np.array(keys[start : min(start + _CHUNK_KEYS, end)])


def table_bits(keys: int) -> int:
    return max(int(np.ceil(np.log2(max(keys, 1) / _LOAD_FACTOR))), 1)


def places_and_keys(share: Share) -> tuple[Places, Keys]:
    if len(share.table):
        # The simulator stacks shares, and each table is then as long as the longest.
        places = np.flatnonzero(share.table[: share.header.places] != NO_KEY_U64)
        return places, share.table[places]
    places = np.arange(share.header.places)
    if not len(share.ranks):
        return places, places.astype(np.uint64)
    bits = np.unpackbits(np.ascontiguousarray(share.ranks.bits).view(np.uint8), bitorder="little")
    return places, np.flatnonzero(bits).astype(np.uint64)


def places_of(share: Share, keys: Keys) -> Places:
    """Return the place of each key [n]; `places` for a key of another share."""
    places = np.empty(len(keys), np.int64)
    # Copied, because numba would compile the function once more for read-only, mapped keys.
    locate_all(share, np.array(keys, dtype=np.uint64), places)
    return places


def rows_at(share: Share, places: Places) -> tuple[Places, Places]:
    """Return the first cell and the dim of the row at each place [n]; `places` stands for other shares."""
    ranges = share.ranges
    index = np.searchsorted(ranges.first_place, places, side="right") - 1
    first: Places = ranges.first_cell[index] + (places - ranges.first_place[index]) * ranges.stride[index]
    dims: Places = ranges.dim[index]
    return first, dims


def keys_at(share: Share, places: Places) -> Keys:
    if len(share.table):
        keys: Keys = share.table[places]
        return keys
    if not len(share.ranks):
        return places.astype(np.uint64)
    words = np.searchsorted(share.ranks.n_before, places, side="right") - 1
    bits = np.unpackbits(share.ranks.bits[words].view(np.uint8), bitorder="little").reshape(-1, RANK_KEYS)
    # The bit of a word's key i, counted from 0, follows all bits whose running count is at most i.
    is_before = bits.cumsum(axis=1, dtype=np.uint8) <= (places - share.ranks.n_before[words])[:, np.newaxis]
    dense_keys: Keys = (RANK_KEYS * words + is_before.sum(axis=1)).astype(np.uint64)
    return dense_keys


@inlined
def range_of(share: Share, key: Key) -> ShareRange:
    """Return the range of rows that a key of this share is in."""
    low, high = 0, len(share.ranges) - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if share.ranges[middle].first_key <= key:
            low = middle
        else:
            high = middle - 1
    return share.ranges[low]


@compiled
def locate_row(share: Share, key: Key, dim: int) -> int:
    """Return the first cell of a key's row; that of another share's keys if the row has another dim."""
    place = locate(share, key)
    if place == share.header.places:
        return share.header.outside_cell
    rows = range_of(share, key)
    if rows.dim != dim:
        return share.header.outside_cell
    return rows.first_cell + (place - rows.first_place) * rows.stride


@inlined
def locate(share: Share, key: Key) -> int:
    """Return the place of a key; `places` for a key of another share."""
    outside_place = share.header.places
    if len(share.table):
        return _locate_in_table(share, key)
    if key >= np.uint64(share.header.keys):
        return outside_place
    place = int64(key)
    if len(share.ranks) == 0:
        return place
    rank, bit = share.ranks[place >> LOG2_RANK_KEYS], place & RANK_KEYS - 1
    if not int64(rank.bits) >> bit & 1:
        return outside_place
    return rank.n_before + popcount(int64(rank.bits) & (1 << bit) - 1)


@compiled
def _locate_in_table(share: Share, key: Key) -> int:
    outside_place = share.header.places
    if key == NO_KEY_U64:
        return outside_place
    rows = range_of(share, key)
    first_place, last = rows.first_place, rows.places - 1
    slot = first_slot_of(rows, key)
    while share.table[first_place + slot] != key:
        if share.table[first_place + slot] == NO_KEY_U64:
            return outside_place
        slot = (slot + 1) & last
    return first_place + slot


@compiled
def first_slot_of(rows: ShareRange, key: Key) -> int:
    """Return the first slot of a key in the table of its range."""
    # The key is hashed twice, because the hashes that chose the PS have some bits in common within a share.
    hash_ = hash_of(key)
    return int64((hash_ ^ (hash_ >> _HALF_HASH_BITS)) * _MULTIPLIER_U64 >> np.uint64(rows.shift))


@entry_point
def locate_all(share: Share, keys: Keys, places: Places) -> None:
    share = as_ref(share)
    for i in range(len(keys)):
        places[i] = locate(share, keys[i])


@entry_point
def fill_ranks(share: Share, ps: int, n_ps: int) -> int:
    share = as_ref(share)
    size, n_before = share.header.keys, 0
    for word in range(len(share.ranks)):
        bits = 0
        for bit in range(min(RANK_KEYS, size - RANK_KEYS * word)):
            if ps_of(np.uint64(RANK_KEYS * word + bit), n_ps) == ps:
                bits |= 1 << bit
        rank = share.ranks[word]
        rank.bits, rank.n_before = bits, n_before
        n_before += popcount(bits)
    return n_before


@entry_point
def count_share(keys: Keys, ps: int, n_ps: int) -> int:
    count = 0
    for i in range(len(keys)):
        count += ps_of(keys[i], n_ps) == ps
    return count


@entry_point
def insert_share(share: Share, keys: Keys, ps: int, n_ps: int) -> None:
    share = as_ref(share)
    for i in range(len(keys)):
        key = keys[i]
        if ps_of(key, n_ps) == ps and key != NO_KEY_U64:
            rows = range_of(share, key)
            first_place, last, slot = (
                rows.first_place,
                rows.places - 1,
                first_slot_of(rows, key),
            )
            while share.table[first_place + slot] != NO_KEY_U64:
                slot = (slot + 1) & last
            share.table[first_place + slot] = key
