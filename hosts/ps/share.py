"""Which keys are this PS's, and the place of each: arrays are as long as its share, not as the key space.

Dense keys 0..size-1 are ranked: a bit for each key of the space, and how many of the share come before each
word. Where one PS has all of them, a key is its own place. Other keys lie in an open-addressing table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.protocol.codec import Keys
from foundation.protocol.hashing import MULTIPLIER
from foundation.protocol.rpc import NOBODY, Key, hash_of, ps_of
from hosts.keys import KeySpace
from nativekit.bits import popcount
from nativekit.compile import compiled, int64
from nativekit.records import Records, UInt32, dtype_of, one, records
from nativekit.reference import as_ref

Places = NDArray[np.int64]

_FULLEST = 0.6
"""Load of the table: linear probing then looks at some two slots for a key that is there."""
_CHUNK = 1 << 20
_FACTOR, _HALF = np.uint64(MULTIPLIER), np.uint64(32)


class ShareHeader:
    """The record of numbers."""

    places: int
    keys: int
    """Size of a dense key space."""
    shift: int
    """Of the table's hash."""


class Rank:
    """32 keys of a dense key space."""

    bits: UInt32
    """Which of them are of the share."""
    before: UInt32
    """Keys of the share before them."""


RANK = dtype_of(Rank)


class Share(NamedTuple):
    """The keys of one PS. Places are 0..places-1, and `places` is everybody else's."""

    header: ShareHeader
    ranks: Records[Rank]
    """RANK[size / 32], or [0] where a key is its own place."""
    table: Keys
    """uint64[2^k]: key of each place, NOBODY where there is none; [0] for dense keys."""


def make_share(space: KeySpace, ps: int, n_ps: int) -> Share:
    """The share of a PS among n_ps."""
    header = one(ShareHeader)
    share = Share(header, records(0, Rank), np.zeros(0, np.uint64))
    if space.sparse is not None:
        return _tabled(share, space.sparse, ps, n_ps)
    header.keys = header.places = space.size
    if n_ps > 1:
        share = share._replace(ranks=records(-(-space.size // 32), Rank))
        header.places = rank_all(share, ps, n_ps)
    return share


def _tabled(share: Share, keys: Keys, ps: int, n_ps: int) -> Share:
    # The keys are mapped from a file, which may be larger than memory.
    chunks = range(0, len(keys), _CHUNK)
    ours = sum(count_ours(np.array(keys[at : at + _CHUNK]), ps, n_ps) for at in chunks)
    bits = table_bits(ours)
    share = share._replace(table=np.full(1 << bits, NOBODY))
    share.header.places, share.header.shift = 1 << bits, 64 - bits
    for at in chunks:
        insert_ours(share, np.array(keys[at : at + _CHUNK]), ps, n_ps)
    return share


def table_bits(keys: int) -> int:
    """Binary logarithm of the size of a table that takes so many keys."""
    return max(int(np.ceil(np.log2(max(keys, 1) / _FULLEST))), 1)


def keys_of(share: Share) -> tuple[Places, Keys]:
    """Places that have a key, ascending, and their keys."""
    if len(share.table):
        # A table of a stack is as long as the longest.
        places = np.flatnonzero(share.table[: share.header.places] != NOBODY)
        return places, share.table[places]
    places = np.arange(share.header.places)
    if not len(share.ranks):
        return places, places.astype(np.uint64)
    bits = np.unpackbits(np.ascontiguousarray(share.ranks.bits).view(np.uint8), bitorder="little")
    return places, np.flatnonzero(bits).astype(np.uint64)


def places_of(share: Share, keys: Keys) -> Places:
    """Place of each key; `places` for a key that is not of this share."""
    places = np.empty(len(keys), np.int64)
    # A copy, since mapped keys are read-only, which would be compiled for anew.
    locate_all(share, np.array(keys, dtype=np.uint64), places)
    return places


def keys_at(share: Share, places: Places) -> Keys:
    """Keys of places that have one."""
    if len(share.table):
        keys: Keys = share.table[places]
        return keys
    if not len(share.ranks):
        return places.astype(np.uint64)
    words = np.searchsorted(share.ranks.before, places, side="right") - 1
    bits = np.unpackbits(share.ranks.bits[words].view(np.uint8), bitorder="little").reshape(-1, 32)
    before = bits.cumsum(axis=1, dtype=np.uint8) <= (places - share.ranks.before[words])[:, np.newaxis]
    ranked: Keys = (32 * words + before.sum(axis=1)).astype(np.uint64)
    return ranked


@compiled
def locate(share: Share, key: Key) -> int:
    """Place of a key."""
    nowhere = int64(share.header.places)
    if len(share.table):
        if key == NOBODY:
            return nowhere
        at = home_of(share, key)
        while share.table[at] != key:
            if share.table[at] == NOBODY:
                return nowhere
            at = (at + 1) & (nowhere - 1)
        return at
    if key >= np.uint64(share.header.keys):
        return nowhere
    place = int64(key)
    if len(share.ranks) == 0:
        return place
    rank, bit = share.ranks[place >> 5], place & 31
    if not int64(rank.bits) >> bit & 1:
        return nowhere
    return int64(rank.before + popcount(int64(rank.bits) & (1 << bit) - 1))


@compiled
def home_of(share: Share, key: Key) -> int:
    """Where the table looks for a key first.

    Hashed twice: of the hash that chose the PS, the keys of a share have some bits in common.
    """
    mixed = hash_of(key)
    return int64((mixed ^ (mixed >> _HALF)) * _FACTOR >> np.uint64(share.header.shift))


@entry_point
def locate_all(share: Share, keys: Keys, places: Places) -> None:
    """`locate` of many keys."""
    share = as_ref(share)
    for i in range(len(keys)):
        places[i] = locate(share, keys[i])


@entry_point
def rank_all(share: Share, ps: int, n_ps: int) -> int:
    """Fill the ranks; returns the number of keys."""
    share = as_ref(share)
    size, before = int64(share.header.keys), int64(0)
    for word in range(len(share.ranks)):
        bits = int64(0)
        for bit in range(min(32, size - 32 * word)):
            if ps_of(np.uint64(32 * word + bit), n_ps) == ps:
                bits |= 1 << bit
        rank = share.ranks[word]
        rank.bits, rank.before = bits, before
        before += popcount(bits)
    return before


@entry_point
def count_ours(keys: Keys, ps: int, n_ps: int) -> int:
    """How many of the keys are this PS's."""
    count = int64(0)
    for i in range(len(keys)):
        count += ps_of(keys[i], n_ps) == ps
    return count


@entry_point
def insert_ours(share: Share, keys: Keys, ps: int, n_ps: int) -> None:
    """Put those of the distinct keys that are this PS's into the table."""
    share = as_ref(share)
    for i in range(len(keys)):
        key = keys[i]
        if ps_of(key, n_ps) == ps and key != NOBODY:
            at = home_of(share, key)
            while share.table[at] != NOBODY:
                at = (at + 1) & (len(share.table) - 1)
            share.table[at] = key
