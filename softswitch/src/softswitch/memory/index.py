"""The hash index of a table: hash a key's words, probe the buckets, compare the record's key.

This is LLVM IR, and there is no other source of it: the packet function has it for a key whose words are
values (`find_function`), and the control plane's compiled functions have it, by way of numba, for a key that
lies in memory (`find_at_function`, `hash_at_function`).

A bucket is tag << 32 | record number, counted from 1, or 0 where it is empty. The low bits of the hash choose
the first bucket to look at, the upper 32 are the tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from llvmlite import ir as llvm

from softswitch.hashing import GOLDEN
from softswitch.llvmir import I1, I64, POINTER, integer, null, word
from softswitch.memory.layout import TableLayout
from softswitch.memory.words import HALF, LOW, WORD
from softswitch.target import pass_words, receive_words, target_of, word_parameter_types


class SearchKey(Protocol):
    """A key of some words; both methods leave the builder behind what they emit."""

    def hash(self, b: llvm.IRBuilder) -> llvm.Value:
        """The hash of the words."""
        ...

    def equals(self, b: llvm.IRBuilder, record: llvm.Value) -> llvm.Value:
        """An `i1`: does a record begin with these words?"""
        ...


def _mix(b: llvm.IRBuilder, hashed: llvm.Value, part: llvm.Value) -> llvm.Value:
    """One step of the hash: multiply, and let the upper half have a say in the lower (Knuth, TAOCP 6.4).

    The first field of a key comes first: look-ups of a packet that share it share the step.
    """
    hashed = b.mul(b.xor(hashed, part), integer(WORD, GOLDEN))
    return b.xor(hashed, b.lshr(hashed, integer(WORD, HALF)))


class KeyValues:
    """A key whose words are values: everything is straight code."""

    def __init__(self, words: Sequence[llvm.Value]) -> None:
        self._words = words

    def hash(self, b: llvm.IRBuilder) -> llvm.Value:
        """The hash of the words."""
        hashed: llvm.Value = integer(WORD, 0)
        for part in reversed(self._words):
            hashed = _mix(b, hashed, part)
        return hashed

    def equals(self, b: llvm.IRBuilder, record: llvm.Value) -> llvm.Value:
        """An `i1`: does a record begin with these words?"""
        equal: llvm.Value = integer(1, 1)
        for position, part in enumerate(self._words):
            stored = b.load(word(b, record, position), typ=I64)
            equal = b.and_(equal, b.icmp_unsigned("==", stored, part))
        return equal


class KeyAt:
    """A key of `count` words at an address, both known at run time: everything is a loop."""

    def __init__(self, address: llvm.Value, count: llvm.Value) -> None:
        self._address = address
        self._count = count

    def hash(self, b: llvm.IRBuilder) -> llvm.Value:
        """The hash of the words."""
        before = b.block
        head, body, after = (b.append_basic_block(label) for label in ("hash", "mix", "hashed"))
        b.branch(head)
        b.position_at_end(head)
        position, hashed = b.phi(I64), b.phi(I64)
        for phi in (position, hashed):
            phi.add_incoming(integer(WORD, 0), before)
        b.cbranch(b.icmp_unsigned("<", position, self._count), body, after)
        b.position_at_end(body)
        last = b.sub(self._count, integer(WORD, 1))
        part = b.load(word(b, self._address, b.sub(last, position)), typ=I64)
        hashed.add_incoming(_mix(b, hashed, part), body)
        position.add_incoming(b.add(position, integer(WORD, 1)), body)
        b.branch(head)
        b.position_at_end(after)
        return hashed

    def equals(self, b: llvm.IRBuilder, record: llvm.Value) -> llvm.Value:
        """An `i1`: does a record begin with these words?"""
        before = b.block
        head, body, after = (b.append_basic_block(label) for label in ("left", "compare", "compared"))
        b.branch(head)
        b.position_at_end(head)
        position = b.phi(I64)
        position.add_incoming(integer(WORD, 0), before)
        b.cbranch(b.icmp_unsigned("<", position, self._count), body, after)
        b.position_at_end(body)
        stored = b.load(word(b, record, position), typ=I64)
        same = b.icmp_unsigned("==", stored, b.load(word(b, self._address, position), typ=I64))
        position.add_incoming(b.add(position, integer(WORD, 1)), body)
        b.cbranch(same, head, after)
        b.position_at_end(after)
        equal = b.phi(I1)
        equal.add_incoming(integer(1, 1), head)
        equal.add_incoming(integer(1, 0), body)
        return equal


class Index(NamedTuple):
    """A table's hash index: where buckets and records begin, number of buckets - 1, words of a record."""

    buckets: llvm.Value
    mask: llvm.Value
    records: llvm.Value
    stride: llvm.Value


def index_at(b: llvm.IRBuilder, state: llvm.Value, layout: TableLayout) -> Index:
    """The index of a table of the program: all but the state's address is constant."""
    return Index(
        word(b, state, layout.buckets),
        integer(WORD, layout.mask),
        word(b, state, layout.records),
        integer(WORD, layout.stride),
    )


def hash_words(b: llvm.IRBuilder, words: Sequence[llvm.Value]) -> llvm.Value:
    """The hash of a key's words."""
    return KeyValues(words).hash(b)


class Probe(NamedTuple):
    """Where a search ends: in `hit` at a bucket with its record, or in `miss` at an empty bucket."""

    hit: llvm.Block
    miss: llvm.Block
    position: llvm.Value
    record: llvm.Value


def emit_probe(b: llvm.IRBuilder, index: Index, key: SearchKey) -> Probe:
    """Look at one bucket after another, from the one that the hash chooses."""
    probe, full, same_tag, next_bucket, hit, miss = (
        b.append_basic_block(label) for label in ("probe", "full", "same_tag", "next", "hit", "miss")
    )
    hashed = key.hash(b)
    tag = b.lshr(hashed, integer(WORD, HALF))
    start = b.and_(hashed, index.mask)
    before = b.block
    b.branch(probe)

    b.position_at_end(probe)
    position = b.phi(I64)
    position.add_incoming(start, before)
    bucket = b.load(word(b, index.buckets, position), typ=I64)
    b.cbranch(b.icmp_unsigned("==", bucket, integer(WORD, 0)), miss, full)

    b.position_at_end(full)
    target_of(b.module).loop_guard(b)
    b.cbranch(b.icmp_unsigned("==", b.lshr(bucket, integer(WORD, HALF)), tag), same_tag, next_bucket)

    b.position_at_end(same_tag)
    record = record_address(b, index, b.and_(bucket, integer(WORD, LOW)))
    b.cbranch(key.equals(b, record), hit, next_bucket)

    b.position_at_end(next_bucket)
    position.add_incoming(b.and_(b.add(position, integer(WORD, 1)), index.mask), next_bucket)
    b.branch(probe)
    return Probe(hit, miss, position, record)


def record_address(b: llvm.IRBuilder, index: Index, number: llvm.Value) -> llvm.Value:
    """Address of a record by its number, counted from 1."""
    return word(b, index.records, b.mul(b.sub(number, integer(WORD, 1)), index.stride))


# ---- the functions


def call_find(
    b: llvm.IRBuilder, state: llvm.Value, layout: TableLayout, words: Sequence[llvm.Value]
) -> llvm.Value:
    """Address of the record whose key is `words`, or null."""
    index = index_at(b, state, layout)
    if target_of(b.module).max_arguments is None:
        return b.call(find_function(b.module, len(words)), [*index, *words])
    function = find_in_function(b.module, layout, len(words))
    return b.call(function, [index.buckets, *pass_words(b, words, before=1)])


def find_function(module: llvm.Module, key_words: int) -> llvm.Function:
    """`find(buckets, mask, records, stride, key...)`: the record or null. One function a key size."""
    function, is_new = _function(module, f"find_{key_words}", POINTER, [*_INDEX, *[I64] * key_words])
    if is_new:
        b = llvm.IRBuilder(function.append_basic_block("entry"))
        found = emit_probe(b, Index(*function.args[:4]), KeyValues(function.args[4:]))
        b.position_at_end(found.hit)
        b.ret(found.record)
        b.position_at_end(found.miss)
        b.ret(null(POINTER))
    return function


def find_in_function(module: llvm.Module, layout: TableLayout, key_words: int) -> llvm.Function:
    """`find(buckets, key...)`: as `find_function`, for tables of this size, where arguments are few."""
    target, name = target_of(module), f"find_{key_words}_{layout.bucket_count}_{layout.stride}"
    arguments = [target.pointer, *word_parameter_types(target, key_words, before=1)]
    function, is_new = _function(module, name, target.pointer, arguments)
    if is_new:
        b = llvm.IRBuilder(function.append_basic_block("entry"))
        buckets, *key = function.args
        records = word(b, buckets, layout.records - layout.buckets)
        index = Index(buckets, integer(WORD, layout.mask), records, integer(WORD, layout.stride))
        found = emit_probe(b, index, KeyValues(receive_words(b, key, key_words, before=1)))
        b.position_at_end(found.hit)
        b.ret(found.record)
        b.position_at_end(found.miss)
        b.ret(null(target.pointer))
    return function


def find_at_function(module: llvm.Module) -> llvm.Function:
    """`find_at(buckets, mask, records, stride, key, words)`: position of the key's bucket.

    -1 - the position of the empty bucket where the key would go, if it is not there.
    """
    function, is_new = _function(module, "find_at", I64, [*_INDEX, POINTER, I64])
    if is_new:
        b = llvm.IRBuilder(function.append_basic_block("entry"))
        found = emit_probe(b, Index(*function.args[:4]), KeyAt(*function.args[4:]))
        b.position_at_end(found.hit)
        b.ret(found.position)
        b.position_at_end(found.miss)
        b.ret(b.sub(integer(WORD, -1), found.position))
    return function


def hash_at_function(module: llvm.Module) -> llvm.Function:
    """`hash_at(key, words)`: the hash of a key in memory."""
    function, is_new = _function(module, "hash_at", I64, [POINTER, I64])
    if is_new:
        b = llvm.IRBuilder(function.append_basic_block("entry"))
        b.ret(KeyAt(*function.args).hash(b))
    return function


_INDEX = [POINTER, I64, POINTER, I64]


def _function(
    module: llvm.Module, name: str, result: llvm.Type, arguments: Sequence[llvm.Type]
) -> tuple[llvm.Function, bool]:
    """The module's own function of a name, and whether it has just been declared."""
    if name in module.globals:
        return module.globals[name], False
    function = llvm.Function(module, llvm.FunctionType(result, arguments), name)
    function.linkage = "internal"
    return function, True
