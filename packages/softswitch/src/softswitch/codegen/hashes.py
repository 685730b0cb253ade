"""Emit hash algorithms as functions `i64 hash(pointer, size)` of bytes in memory (`softswitch.hashing`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir as llvm

from softswitch.codegen.xxh64 import emit_xxh64
from softswitch.hashing import (
    FNV_MIXING_STEPS,
    FNV_OFFSET_BASIS,
    FNV_PRIME,
    Algorithm,
    Crc,
    Identity,
    InternetChecksum,
    MixedFnv,
    Toeplitz,
    Xor,
    Xxh64,
    reflect,
)
from softswitch.llvmir import I8, I32, I64, byte_offset, integer, resize
from softswitch.target import target_of

CARRY_FOLDS = 3  # additions of the carries: enough for all 16-bit words that a calculation can have
_IDENTITY_BYTES = 8  # the hash consists of the first bytes of the data


def hash_function(module: llvm.Module, algorithm: Algorithm) -> llvm.Function:
    name = _function_name(algorithm)
    if name in module.globals:
        return module.globals[name]
    function = llvm.Function(module, llvm.FunctionType(I64, [target_of(module).pointer, I64]), name)
    function.linkage = "internal"
    b = llvm.IRBuilder(function.append_basic_block("entry"))
    data, size = function.args
    match algorithm:
        case Crc():
            b.ret(_emit_crc(b, algorithm, data, size))
        case InternetChecksum():
            b.ret(_emit_internet_checksum(b, data, size))
        case Xor(width):
            b.ret(_emit_xor(b, width, data, size))
        case Identity():
            b.ret(_emit_identity(b, data, size))
        case Toeplitz():
            b.ret(integer(64, 0))  # BMv2's key is 0
        case Xxh64():
            b.ret(emit_xxh64(b, data, size))
        case MixedFnv():
            b.ret(_emit_mixed_fnv(b, data, size))
    return function


def _function_name(algorithm: Algorithm) -> str:
    match algorithm:
        case Crc(width, polynomial, initial, final, reflected):
            return f"crc{width}_{polynomial:x}_{initial:x}_{final:x}_{int(reflected)}"
        case Xor(width):
            return f"xor{width}"
    return type(algorithm).__name__.lower()


class _Loop:
    """State of a loop over bytes: set `result` inside the loop, and read it afterwards."""

    def __init__(self, accumulator: llvm.Value, byte: llvm.Value, position: llvm.Value) -> None:
        self.accumulator = accumulator
        self.byte = byte
        self.position = position
        self.result = accumulator


@contextmanager
def _for_each_byte(
    b: llvm.IRBuilder, data: llvm.Value, size: llvm.Value, initial: llvm.Value
) -> Iterator[_Loop]:
    entry_block = b.block
    head, body, end = (b.append_basic_block(name) for name in ("head", "body", "after"))
    b.branch(head)
    b.position_at_end(head)
    position, accumulator = b.phi(I64), b.phi(initial.type)
    position.add_incoming(integer(64, 0), entry_block)
    accumulator.add_incoming(initial, entry_block)
    b.cbranch(b.icmp_unsigned("<", position, size), body, end)
    b.position_at_end(body)
    target_of(b.module).loop_guard(b)
    byte = b.load(byte_offset(b, data, position), typ=I8)
    loop = _Loop(accumulator, byte, position)
    yield loop
    accumulator.add_incoming(loop.result, b.block)
    position.add_incoming(b.add(position, integer(64, 1)), b.block)
    b.branch(head)
    b.position_at_end(end)
    loop.result = accumulator


def _emit_crc(b: llvm.IRBuilder, crc: Crc, data: llvm.Value, size: llvm.Value) -> llvm.Value:
    """Emit one table look-up for each byte; a reflected CRC shifts right instead of reversing each byte."""
    width = crc.width
    kind = llvm.IntType(width)
    if crc.reflected:
        reflected_bytes = [reflect(byte, 8) for byte in range(256)]
        entries = [reflect(crc.table[byte], width) for byte in reflected_bytes]
        initial = reflect(crc.initial, width)
    else:
        entries, initial = list(crc.table), crc.initial
    array = llvm.ArrayType(kind, 256)
    table = target_of(b.module).constant(b, f"{_function_name(crc)}_table", entries, width)
    with _for_each_byte(b, data, size, integer(width, initial)) as loop:
        remainder = loop.accumulator
        if crc.reflected:
            index = b.xor(resize(b, remainder, 8), loop.byte)
            shifted = b.lshr(remainder, integer(width, 8)) if width > 8 else integer(width, 0)
        else:
            index = b.xor(resize(b, b.lshr(remainder, integer(width, width - 8)), 8), loop.byte)
            shifted = b.shl(remainder, integer(width, 8)) if width > 8 else integer(width, 0)
        address = b.gep(table, [integer(32, 0), resize(b, index, 32)], inbounds=True, source_etype=array)
        loop.result = b.xor(b.load(address, typ=kind), shifted)
    return resize(b, b.xor(loop.result, integer(width, crc.final)), 64)


def _byte_in_word(b: llvm.IRBuilder, loop: _Loop, width: int) -> llvm.Value:
    # Shift the byte to its place in a big-endian word of `width` bits, which is a power of two.
    last_index = width // 8 - 1
    following_bytes = b.sub(integer(64, last_index), b.and_(loop.position, integer(64, last_index)))
    return b.shl(resize(b, loop.byte, 64), b.shl(following_bytes, integer(64, 3)))


def _emit_internet_checksum(b: llvm.IRBuilder, data: llvm.Value, size: llvm.Value) -> llvm.Value:
    with _for_each_byte(b, data, size, integer(64, 0)) as loop:
        loop.result = b.add(loop.accumulator, _byte_in_word(b, loop, 16))
    total = loop.result
    for _ in range(CARRY_FOLDS):
        total = b.add(b.and_(total, integer(64, 0xFFFF)), b.lshr(total, integer(64, 16)))
    return b.and_(b.not_(total), integer(64, 0xFFFF))


def _emit_xor(b: llvm.IRBuilder, width: int, data: llvm.Value, size: llvm.Value) -> llvm.Value:
    with _for_each_byte(b, data, size, integer(64, 0)) as loop:
        loop.result = b.xor(loop.accumulator, _byte_in_word(b, loop, width))
    return loop.result


def _emit_identity(b: llvm.IRBuilder, data: llvm.Value, size: llvm.Value) -> llvm.Value:
    limit = integer(64, _IDENTITY_BYTES)
    size = b.select(b.icmp_unsigned("<", size, limit), size, limit)
    with _for_each_byte(b, data, size, integer(64, 0)) as loop:
        loop.result = b.or_(b.shl(loop.accumulator, integer(64, 8)), resize(b, loop.byte, 64))
    return loop.result


def _emit_mixed_fnv(b: llvm.IRBuilder, data: llvm.Value, size: llvm.Value) -> llvm.Value:
    with _for_each_byte(b, data, size, integer(32, FNV_OFFSET_BASIS)) as loop:
        signed_byte = b.sext(loop.byte, I32)
        loop.result = b.mul(b.xor(loop.accumulator, signed_byte), integer(32, FNV_PRIME))
    result = loop.result
    for shift, count in FNV_MIXING_STEPS:
        if shift == "shl":
            result = b.add(result, b.shl(result, integer(32, count)))
        else:
            result = b.xor(result, b.lshr(result, integer(32, count)))
    return resize(b, result, 64)
