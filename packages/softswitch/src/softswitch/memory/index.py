"""The hash index of a table: hash the key, probe buckets linearly, compare the record's key.

The code exists once, as LLVM IR. The packet function calls it with a key in registers (`find_function`);
numba links it into the control plane's compiled functions for a key in memory (`find_at_function`,
`hash_at_function`).

A bucket is tag << 32 | record number (counted from 1), or 0 if empty. The low bits of the hash give the first
bucket, its upper 32 bits are the tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from llvmlite import ir as llvm

from softswitch.hashing import GOLDEN_RATIO
from softswitch.llvmir import I1, I64, POINTER, integer, null, word
from softswitch.memory.layout import TableLayout
from softswitch.memory.words import HALF, LOW_HALF_MASK, WORD
from softswitch.target import pass_words, receive_words, target_of, word_parameter_types


class SearchKey(Protocol):
    """A key of some words. Both methods leave the builder after the code they emit."""

    def hash(self, b: llvm.IRBuilder) -> llvm.Value: ...

    def equals(self, b: llvm.IRBuilder, record: llvm.Value) -> llvm.Value: ...


def _mix(b: llvm.IRBuilder, hash_value: llvm.Value, key_word: llvm.Value) -> llvm.Value:
    # Words are mixed from the last to the first: the last word holds the first field of a key, so look-ups of
    # a packet whose keys begin with the same field have the first step in common.
    hash_value = b.mul(b.xor(hash_value, key_word), integer(WORD, GOLDEN_RATIO))
    return b.xor(hash_value, b.lshr(hash_value, integer(WORD, HALF)))


class KeyInRegisters:
    def __init__(self, words: Sequence[llvm.Value]) -> None:
        self._words = words

    def hash(self, b: llvm.IRBuilder) -> llvm.Value:
        hash_value: llvm.Value = integer(WORD, 0)
        for key_word in reversed(self._words):
            hash_value = _mix(b, hash_value, key_word)
        return hash_value

    def equals(self, b: llvm.IRBuilder, record: llvm.Value) -> llvm.Value:
        is_equal: llvm.Value = integer(1, 1)
        for position, key_word in enumerate(self._words):
            record_word = b.load(word(b, record, position), typ=I64)
            is_equal = b.and_(is_equal, b.icmp_unsigned("==", record_word, key_word))
        return is_equal


class KeyInMemory:
    """A key of `count` words at an address, both known only at run time: the emitted code loops."""

    def __init__(self, address: llvm.Value, count: llvm.Value) -> None:
        self._address = address
        self._count = count

    def hash(self, b: llvm.IRBuilder) -> llvm.Value:
        predecessor = b.block
        loop_head, body, loop_end = (b.append_basic_block(label) for label in ("hash", "mix", "hashed"))
        b.branch(loop_head)
        b.position_at_end(loop_head)
        position, hash_value = b.phi(I64), b.phi(I64)
        for phi in (position, hash_value):
            phi.add_incoming(integer(WORD, 0), predecessor)
        b.cbranch(b.icmp_unsigned("<", position, self._count), body, loop_end)
        b.position_at_end(body)
        last_position = b.sub(self._count, integer(WORD, 1))
        key_word = b.load(word(b, self._address, b.sub(last_position, position)), typ=I64)
        hash_value.add_incoming(_mix(b, hash_value, key_word), body)
        position.add_incoming(b.add(position, integer(WORD, 1)), body)
        b.branch(loop_head)
        b.position_at_end(loop_end)
        return hash_value

    def equals(self, b: llvm.IRBuilder, record: llvm.Value) -> llvm.Value:
        predecessor = b.block
        loop_head, body, loop_end = (
            b.append_basic_block(label) for label in ("next_word", "compare", "compared")
        )
        b.branch(loop_head)
        b.position_at_end(loop_head)
        position = b.phi(I64)
        position.add_incoming(integer(WORD, 0), predecessor)
        b.cbranch(b.icmp_unsigned("<", position, self._count), body, loop_end)
        b.position_at_end(body)
        record_word = b.load(word(b, record, position), typ=I64)
        words_match = b.icmp_unsigned("==", record_word, b.load(word(b, self._address, position), typ=I64))
        position.add_incoming(b.add(position, integer(WORD, 1)), body)
        b.cbranch(words_match, loop_head, loop_end)
        b.position_at_end(loop_end)
        is_equal = b.phi(I1)
        is_equal.add_incoming(integer(1, 1), loop_head)
        is_equal.add_incoming(integer(1, 0), body)
        return is_equal


class Index(NamedTuple):
    """A table's hash index: addresses of buckets and records, number of buckets - 1, words of a record."""

    buckets: llvm.Value
    mask: llvm.Value
    records: llvm.Value
    stride: llvm.Value


def index_at(b: llvm.IRBuilder, state: llvm.Value, layout: TableLayout) -> Index:
    return Index(
        word(b, state, layout.buckets),
        integer(WORD, layout.mask),
        word(b, state, layout.records),
        integer(WORD, layout.stride),
    )


def hash_words(b: llvm.IRBuilder, words: Sequence[llvm.Value]) -> llvm.Value:
    return KeyInRegisters(words).hash(b)


class Probe(NamedTuple):
    """Result of a search: block `hit` with bucket position and record, or block `miss` at an empty bucket."""

    hit: llvm.Block
    miss: llvm.Block
    position: llvm.Value
    record: llvm.Value


def emit_probe(b: llvm.IRBuilder, index: Index, key: SearchKey) -> Probe:
    probe, occupied, same_tag, next_bucket, hit, miss = (
        b.append_basic_block(label) for label in ("probe", "full", "same_tag", "next", "hit", "miss")
    )
    hash_value = key.hash(b)
    tag = b.lshr(hash_value, integer(WORD, HALF))
    start = b.and_(hash_value, index.mask)
    predecessor = b.block
    b.branch(probe)

    b.position_at_end(probe)
    position = b.phi(I64)
    position.add_incoming(start, predecessor)
    bucket = b.load(word(b, index.buckets, position), typ=I64)
    b.cbranch(b.icmp_unsigned("==", bucket, integer(WORD, 0)), miss, occupied)

    b.position_at_end(occupied)
    target_of(b.module).loop_guard(b)
    b.cbranch(b.icmp_unsigned("==", b.lshr(bucket, integer(WORD, HALF)), tag), same_tag, next_bucket)

    b.position_at_end(same_tag)
    record = record_address(b, index, b.and_(bucket, integer(WORD, LOW_HALF_MASK)))
    b.cbranch(key.equals(b, record), hit, next_bucket)

    b.position_at_end(next_bucket)
    position.add_incoming(b.and_(b.add(position, integer(WORD, 1)), index.mask), next_bucket)
    b.branch(probe)
    return Probe(hit, miss, position, record)


def record_address(b: llvm.IRBuilder, index: Index, number: llvm.Value) -> llvm.Value:
    return word(b, index.records, b.mul(b.sub(number, integer(WORD, 1)), index.stride))


# ---- the look-up functions


def call_find(
    b: llvm.IRBuilder, state: llvm.Value, layout: TableLayout, words: Sequence[llvm.Value]
) -> llvm.Value:
    """Emit a look-up; return the address of the record whose key is `words`, or null."""
    index = index_at(b, state, layout)
    if target_of(b.module).max_arguments is None:
        return b.call(find_function(b.module, len(words)), [*index, *words])
    function = find_in_function(b.module, layout, len(words))
    return b.call(function, [index.buckets, *pass_words(b, words, preceding_count=1)])


def find_function(module: llvm.Module, key_words: int) -> llvm.Function:
    """Return `find(buckets, mask, records, stride, key...)` -> record or null, for keys of this size."""
    function, is_new = _get_function(
        module, f"find_{key_words}", POINTER, [*_INDEX_TYPES, *[I64] * key_words]
    )
    if is_new:
        b = llvm.IRBuilder(function.append_basic_block("entry"))
        probe = emit_probe(
            b, Index(*function.args[:_INDEX_ARGUMENTS]), KeyInRegisters(function.args[_INDEX_ARGUMENTS:])
        )
        b.position_at_end(probe.hit)
        b.ret(probe.record)
        b.position_at_end(probe.miss)
        b.ret(null(POINTER))
    return function


def find_in_function(module: llvm.Module, layout: TableLayout, key_words: int) -> llvm.Function:
    """Return `find(buckets, key...)` for one table size, for targets with `Target.max_arguments`."""
    target, name = target_of(module), f"find_{key_words}_{layout.bucket_count}_{layout.stride}"
    arguments = [target.pointer, *word_parameter_types(target, key_words, preceding_count=1)]
    function, is_new = _get_function(module, name, target.pointer, arguments)
    if is_new:
        b = llvm.IRBuilder(function.append_basic_block("entry"))
        buckets, *key = function.args
        records = word(b, buckets, layout.records - layout.buckets)
        index = Index(buckets, integer(WORD, layout.mask), records, integer(WORD, layout.stride))
        probe = emit_probe(b, index, KeyInRegisters(receive_words(b, key, key_words, preceding_count=1)))
        b.position_at_end(probe.hit)
        b.ret(probe.record)
        b.position_at_end(probe.miss)
        b.ret(null(target.pointer))
    return function


def find_at_function(module: llvm.Module) -> llvm.Function:
    """Return `find_at(buckets, mask, records, stride, key, words)`.

    The function returns the position of the key's bucket, or -1 - p, where p is the position of the empty
    bucket for the key.
    """
    function, is_new = _get_function(module, "find_at", I64, [*_INDEX_TYPES, POINTER, I64])
    if is_new:
        b = llvm.IRBuilder(function.append_basic_block("entry"))
        probe = emit_probe(
            b, Index(*function.args[:_INDEX_ARGUMENTS]), KeyInMemory(*function.args[_INDEX_ARGUMENTS:])
        )
        b.position_at_end(probe.hit)
        b.ret(probe.position)
        b.position_at_end(probe.miss)
        b.ret(b.sub(integer(WORD, -1), probe.position))
    return function


def hash_at_function(module: llvm.Module) -> llvm.Function:
    function, is_new = _get_function(module, "hash_at", I64, [POINTER, I64])
    if is_new:
        b = llvm.IRBuilder(function.append_basic_block("entry"))
        b.ret(KeyInMemory(*function.args).hash(b))
    return function


_INDEX_TYPES = [POINTER, I64, POINTER, I64]  # of the fields of `Index`, as arguments
_INDEX_ARGUMENTS = len(_INDEX_TYPES)


def _get_function(
    module: llvm.Module, name: str, result: llvm.Type, arguments: Sequence[llvm.Type]
) -> tuple[llvm.Function, bool]:
    """Return the module's internal function of this name, and whether it was created by this call."""
    if name in module.globals:
        return module.globals[name], False
    function = llvm.Function(module, llvm.FunctionType(result, arguments), name)
    function.linkage = "internal"
    return function, True
