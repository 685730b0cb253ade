"""The share of a PS: which keys belong to it, and the place of each key in arrays as long as the share.

Dense keys 0..size-1 have a rank index: a bit for each key of the space, and the number of keys of the share
before each word. With a single PS a key is its own place. Sparse keys lie in an open-addressing table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.protocol.codec import Keys
from foundation.protocol.hashing import MULTIPLIER
from foundation.protocol.rpc import NO_KEY_U64, Key, hash_of, ps_of
from hosts.keys import KeySpace
from nativekit.bits import popcount
from nativekit.compile import compiled, int64
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
    shift: int  # right shift of the table's hash, in bits


class Rank:
    """An entry of the rank index, for 32 keys of a dense key space."""

    bits: UInt32  # bitmap of the share's keys among these 32
    n_before: UInt32  # number of keys of the share before these 32


RANK = dtype_of(Rank)


class Share(NamedTuple):
    """The keys of one PS. Places are 0..places-1; all keys of other shares have the place `places`."""

    header: ShareHeader
    ranks: Records[Rank]  # [size / 32], or [0] if a key is its own place
    table: Keys  # uint64[2^k]: key of each place, NO_KEY_U64 for an empty one; [0] for dense keys


def make_share(space: KeySpace, ps: int, n_ps: int) -> Share:
    header = one_record(ShareHeader)
    share = Share(header, records(0, Rank), np.zeros(0, np.uint64))
    if space.sparse is not None:
        return _add_table(share, space.sparse, ps, n_ps)
    header.keys = header.places = space.size
    if n_ps > 1:
        share = share._replace(ranks=records(-(-space.size // RANK_KEYS), Rank))
        header.places = fill_ranks(share, ps, n_ps)
    return share


def _add_table(share: Share, keys: Keys, ps: int, n_ps: int) -> Share:
    # The keys are mapped from a file, which may be larger than memory.
    chunks = range(0, len(keys), _CHUNK_KEYS)
    n_keys = sum(count_share(np.array(keys[start : start + _CHUNK_KEYS]), ps, n_ps) for start in chunks)
    bits = table_bits(n_keys)
    share = share._replace(table=np.full(1 << bits, NO_KEY_U64))
    share.header.places, share.header.shift = 1 << bits, 64 - bits
    for start in chunks:
        insert_share(share, np.array(keys[start : start + _CHUNK_KEYS]), ps, n_ps)
    return share


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


@compiled
def locate(share: Share, key: Key) -> int:
    """Return the place of a key; `places` for a key of another share."""
    outside_place = int64(share.header.places)
    if len(share.table):
        if key == NO_KEY_U64:
            return outside_place
        slot = first_slot_of(share, key)
        while share.table[slot] != key:
            if share.table[slot] == NO_KEY_U64:
                return outside_place
            slot = (slot + 1) & (outside_place - 1)
        return slot
    if key >= np.uint64(share.header.keys):
        return outside_place
    place = int64(key)
    if len(share.ranks) == 0:
        return place
    rank, bit = share.ranks[place >> LOG2_RANK_KEYS], place & RANK_KEYS - 1
    if not int64(rank.bits) >> bit & 1:
        return outside_place
    return int64(rank.n_before + popcount(int64(rank.bits) & (1 << bit) - 1))


@compiled
def first_slot_of(share: Share, key: Key) -> int:
    # The key is hashed twice, because the hashes that chose the PS have some bits in common within a share.
    hash_ = hash_of(key)
    return int64((hash_ ^ (hash_ >> _HALF_HASH_BITS)) * _MULTIPLIER_U64 >> np.uint64(share.header.shift))


@entry_point
def locate_all(share: Share, keys: Keys, places: Places) -> None:
    share = as_ref(share)
    for i in range(len(keys)):
        places[i] = locate(share, keys[i])


@entry_point
def fill_ranks(share: Share, ps: int, n_ps: int) -> int:
    share = as_ref(share)
    size, n_before = int64(share.header.keys), int64(0)
    for word in range(len(share.ranks)):
        bits = int64(0)
        for bit in range(min(RANK_KEYS, size - RANK_KEYS * word)):
            if ps_of(np.uint64(RANK_KEYS * word + bit), n_ps) == ps:
                bits |= 1 << bit
        rank = share.ranks[word]
        rank.bits, rank.n_before = bits, n_before
        n_before += popcount(bits)
    return n_before


@entry_point
def count_share(keys: Keys, ps: int, n_ps: int) -> int:
    count = int64(0)
    for i in range(len(keys)):
        count += ps_of(keys[i], n_ps) == ps
    return count


@entry_point
def insert_share(share: Share, keys: Keys, ps: int, n_ps: int) -> None:
    share = as_ref(share)
    for i in range(len(keys)):
        key = keys[i]
        if ps_of(key, n_ps) == ps and key != NO_KEY_U64:
            slot = first_slot_of(share, key)
            while share.table[slot] != NO_KEY_U64:
                slot = (slot + 1) & (len(share.table) - 1)
            share.table[slot] = key
