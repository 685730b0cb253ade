"""The hash look-up: hash the key's words, probe the buckets, compare the record's key.

`softswitch.state` writes what this reads; `mix` here and `state.records.hash_key` must stay alike.
"""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch.codegen.expressions import integer, resize
from softswitch.hashing import GOLDEN
from softswitch.memory.layout import WORD, TableLayout, words_of

I64 = llvm.IntType(WORD)
POINTER = llvm.PointerType()


def word(b: llvm.IRBuilder, base: llvm.Value, offset: int | llvm.Value) -> llvm.Value:
    """Address of a word."""
    if isinstance(offset, int):
        offset = integer(WORD, offset)
    return b.gep(base, [offset], inbounds=True, source_etype=I64)


def is_null(b: llvm.IRBuilder, pointer: llvm.Value) -> llvm.Value:
    """An `i1`: is it the null pointer?"""
    return b.icmp_unsigned("==", pointer, llvm.Constant(POINTER, None))


def split(b: llvm.IRBuilder, value: llvm.Value) -> list[llvm.Value]:
    """An integer as 64-bit words, least significant first."""
    count = words_of(value.type.width)
    padded = resize(b, value, count * WORD)
    shifts = (b.lshr(padded, integer(count * WORD, i * WORD)) if i else padded for i in range(count))
    return [resize(b, shifted, WORD) for shifted in shifts]


def call_find(
    b: llvm.IRBuilder, state: llvm.Value, table: TableLayout, words: list[llvm.Value]
) -> llvm.Value:
    """The record whose key is `words`, or null."""
    return b.call(
        _find_function(b.module, len(words)),
        [
            word(b, state, table.buckets),
            integer(WORD, table.bucket_count - 1),
            word(b, state, table.records),
            integer(WORD, table.stride),
            *words,
        ],
    )


def mix(b: llvm.IRBuilder, words: list[llvm.Value]) -> llvm.Value:
    """Hash of a key: the low bits choose the bucket, the upper 32 are its tag."""
    hashed: llvm.Value = integer(WORD, 0)
    for part in words:
        hashed = b.mul(b.xor(hashed, part), integer(WORD, GOLDEN))
        hashed = b.xor(hashed, b.lshr(hashed, integer(WORD, 32)))
    return hashed


def _find_function(module: llvm.Module, key_words: int) -> llvm.Function:
    """`find(buckets, mask, records, stride, key...)`: the record or null. One function a key size."""
    name = f"find_{key_words}"
    if name in module.globals:
        return module.globals[name]
    kind = llvm.FunctionType(POINTER, [POINTER, I64, POINTER, I64] + [I64] * key_words)
    function = llvm.Function(module, kind, name)
    function.linkage = "internal"
    buckets, mask, records, stride, *key = function.args
    b = llvm.IRBuilder(function.append_basic_block("entry"))
    probe, full, same_tag, next_bucket, hit, miss = (
        function.append_basic_block(label) for label in ("probe", "full", "same_tag", "next", "hit", "miss")
    )
    hashed = mix(b, key)
    tag = b.lshr(hashed, integer(WORD, 32))
    start = b.and_(hashed, mask)
    entry = b.block
    b.branch(probe)

    b.position_at_end(probe)
    position = b.phi(I64)
    position.add_incoming(start, entry)
    bucket = b.load(word(b, buckets, position), typ=I64)
    b.cbranch(b.icmp_unsigned("==", bucket, integer(WORD, 0)), miss, full)

    b.position_at_end(full)
    b.cbranch(b.icmp_unsigned("==", b.lshr(bucket, integer(WORD, 32)), tag), same_tag, next_bucket)

    b.position_at_end(same_tag)
    number = b.sub(b.and_(bucket, integer(WORD, 0xFFFFFFFF)), integer(WORD, 1))
    record = word(b, records, b.mul(number, stride))
    equal: llvm.Value = integer(1, 1)
    for index, part in enumerate(key):
        stored = b.load(word(b, record, index), typ=I64)
        equal = b.and_(equal, b.icmp_unsigned("==", stored, part))
    b.cbranch(equal, hit, next_bucket)

    b.position_at_end(next_bucket)
    position.add_incoming(b.and_(b.add(position, integer(WORD, 1)), mask), next_bucket)
    b.branch(probe)

    b.position_at_end(hit)
    b.ret(record)
    b.position_at_end(miss)
    b.ret(llvm.Constant(POINTER, None))
    return function
