"""The entries of an exact table: each in a place that its key's hash chooses, so a look-up reads one line.

A key has a home, by the upper half of its hash. Its entry lies in the first place from there on that was
free. Entries never move, since packets write in some of them. So each place has, in the upper half of the
word of its action,

    bit 32          is it taken?
    bits 33..63     how many entries lie further on whose search passes here: 0 ends a search

(F14's overflow counts, for places instead of chunks: Bronson and Shi, 2019.)

Like `memory.index` this is LLVM IR for both the packet function and the control plane's compiled functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llvmlite import ir as llvm

from softswitch.hashing import GOLDEN
from softswitch.llvmir import I64, POINTER, integer, null, word
from softswitch.memory.index import KeyAt, KeyValues, SearchKey, module_function
from softswitch.memory.layout import TableLayout
from softswitch.memory.words import HALF, WORD
from softswitch.target import passed, passed_types, taken, target_of

TAKEN = 1 << HALF
PASSED = TAKEN << 1
"""One search more that passes a place, or one less."""


class Places(NamedTuple):
    """Where the places begin; how many, words of one, word of the action."""

    records: llvm.Value
    count: llvm.Value
    stride: llvm.Value
    action: llvm.Value


def places_of(records: llvm.Value, layout: TableLayout) -> Places:
    """The places of a table of the program: all but the address is constant."""
    return Places(records, *(integer(WORD, n) for n in (layout.places, layout.stride, layout.action)))


def emit_home(b: llvm.IRBuilder, count: llvm.Value, hashed: llvm.Value) -> llvm.Value:
    """Position of the place where a search begins."""
    return b.lshr(b.mul(b.lshr(hashed, integer(WORD, HALF)), count), integer(WORD, HALF))


class Search(NamedTuple):
    """Where a search ends: in `hit` at a position and its record, or in `miss`."""

    hit: llvm.Block
    miss: llvm.Block
    position: llvm.Value
    record: llvm.Value


def emit_search(b: llvm.IRBuilder, places: Places, key: SearchKey) -> Search:
    """Look at one place after another, until none can be the key's."""
    target, zero = target_of(b.module), integer(WORD, 0)
    look, same, other, further, hit, miss = (
        b.append_basic_block(label) for label in ("look", "same", "other", "further", "hit", "miss")
    )
    home = emit_home(b, places.count, key.hash(b))
    before = b.block
    b.branch(look)

    b.position_at_end(look)
    position = b.phi(I64)
    position.add_incoming(home, before)
    record = word(b, places.records, b.mul(position, places.stride))
    equal = key.equals(b, record)
    b.cbranch(equal, same, other)

    def state() -> llvm.Value:
        return b.load(word(b, record, places.action), typ=I64)

    b.position_at_end(same)
    is_taken = b.icmp_unsigned("!=", b.and_(state(), integer(WORD, TAKEN)), zero)
    b.cbranch(is_taken, hit, other)

    b.position_at_end(other)
    b.cbranch(b.icmp_unsigned("<", state(), integer(WORD, PASSED)), miss, further)

    b.position_at_end(further)
    target.guard(b)
    following = b.add(position, integer(WORD, 1))
    following = b.select(b.icmp_unsigned("==", following, places.count), zero, following)
    following = target.forget(b, following)
    position.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("==", following, home), miss, look)  # round the table once
    return Search(hit, miss, position, record)


# ---- the functions


_FIRST, _RATIO = (pow(GOLDEN, power, 1 << WORD) for power in (3, 2))
"""Multipliers of a hash. Programs choose tables by hashes, too, as ours does by Fibonacci's: not the same."""


class PlacedValues(KeyValues):
    """A key whose words are values."""

    def hash(self, b: llvm.IRBuilder) -> llvm.Value:
        """Sum of the words, each times a number of its own, whose upper bits are good (Dietzfelbinger, 1996).

        Look-ups of one packet often share a word: its product is computed once.
        """
        hashed: llvm.Value = integer(WORD, 0)
        for position, part in enumerate(self._words):
            multiplier = _FIRST * pow(_RATIO, position, 1 << WORD)
            hashed = b.add(hashed, b.mul(part, integer(WORD, multiplier)))
        return hashed


class PlacedAt(KeyAt):
    """A key of `count` words at an address, both known at run time."""

    def hash(self, b: llvm.IRBuilder) -> llvm.Value:
        """The same hash."""
        before = b.block
        head, body, after = (b.append_basic_block(label) for label in ("hash", "add", "hashed"))
        b.branch(head)
        b.position_at_end(head)
        position, hashed, multiplier = (b.phi(I64) for _ in range(3))
        for phi, first in ((position, 0), (hashed, 0), (multiplier, _FIRST)):
            phi.add_incoming(integer(WORD, first), before)
        b.cbranch(b.icmp_unsigned("<", position, self._count), body, after)
        b.position_at_end(body)
        part = b.load(word(b, self._address, position), typ=I64)
        hashed.add_incoming(b.add(hashed, b.mul(part, multiplier)), body)
        multiplier.add_incoming(b.mul(multiplier, integer(WORD, _RATIO)), body)
        position.add_incoming(b.add(position, integer(WORD, 1)), body)
        b.branch(head)
        b.position_at_end(after)
        return hashed


def home_of(
    b: llvm.IRBuilder, state: llvm.Value, layout: TableLayout, words: Sequence[llvm.Value]
) -> llvm.Value:
    """Address of the place where the search for a key begins."""
    position = emit_home(b, integer(WORD, layout.places), PlacedValues(words).hash(b))
    return word(b, word(b, state, layout.records), b.mul(position, integer(WORD, layout.stride)))


def call_search(
    b: llvm.IRBuilder, state: llvm.Value, layout: TableLayout, words: Sequence[llvm.Value]
) -> llvm.Value:
    """Address of the record whose key is `words`, or null."""
    function = search_function(b.module, layout, len(words))
    return b.call(function, [word(b, state, layout.records), *passed(b, words, before=1)])


def search_function(module: llvm.Module, layout: TableLayout, key_words: int) -> llvm.Function:
    """`search(records, key...)`: the record or null. One function for all tables of a size."""
    target, name = target_of(module), f"search_{key_words}_{layout.places}_{layout.stride}_{layout.action}"
    arguments = [target.pointer, *passed_types(target, key_words, before=1)]
    function, is_new = module_function(module, name, target.pointer, arguments)
    if is_new:
        b = llvm.IRBuilder(function.append_basic_block("entry"))
        records, *given = function.args
        key = PlacedValues(taken(b, given, key_words, before=1))
        found = emit_search(b, places_of(records, layout), key)
        b.position_at_end(found.hit)
        b.ret(found.record)
        b.position_at_end(found.miss)
        b.ret(null(target.pointer))
    return function


def search_at_function(module: llvm.Module) -> llvm.Function:
    """`search_at(records, count, stride, action, key, words)`: position of the key's place, or -1."""
    arguments = [POINTER, I64, I64, I64, POINTER, I64]
    function, is_new = module_function(module, "search_at", I64, arguments)
    if is_new:
        b = llvm.IRBuilder(function.append_basic_block("entry"))
        found = emit_search(b, Places(*function.args[:4]), PlacedAt(*function.args[4:]))
        b.position_at_end(found.hit)
        b.ret(found.position)
        b.position_at_end(found.miss)
        b.ret(integer(WORD, -1))
    return function


def home_at_function(module: llvm.Module) -> llvm.Function:
    """`home_at(places, key, words)`: position of the place where the search for a key in memory begins."""
    function, is_new = module_function(module, "home_at", I64, [I64, POINTER, I64])
    if is_new:
        b = llvm.IRBuilder(function.append_basic_block("entry"))
        places, *key = function.args
        b.ret(emit_home(b, places, PlacedAt(*key).hash(b)))
    return function
