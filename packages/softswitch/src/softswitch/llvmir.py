"""Shorthands for llvmlite's types, constants and address arithmetic."""

from __future__ import annotations

from llvmlite import ir as llvm

I1, I8, I16, I32, I64 = (llvm.IntType(width) for width in (1, 8, 16, 32, 64))
POINTER = llvm.PointerType()


def null(pointer: llvm.PointerType) -> llvm.Constant:
    return llvm.Constant(pointer, None)


def integer(width: int, value: int) -> llvm.Constant:
    """Return a constant modulo 2^width. LLVM has no integers of 0 bits: they become one bit, which is 0."""
    return llvm.Constant(llvm.IntType(max(1, width)), value & ((1 << width) - 1))


def resize(b: llvm.IRBuilder, value: llvm.Value, width: int) -> llvm.Value:
    current_width = value.type.width
    if current_width == width:
        return value
    if width == 0:
        return integer(0, 0)
    kind = llvm.IntType(width)
    return b.trunc(value, kind) if current_width > width else b.zext(value, kind)


def sign_extend(b: llvm.IRBuilder, value: llvm.Value, width: int) -> llvm.Value:
    if value.type.width >= width:
        return resize(b, value, width)
    return b.sext(value, llvm.IntType(width))


def opaque_pointer(pointer: llvm.Value) -> llvm.Value:
    """Give a pointer LLVM's opaque pointer type; llvmlite still creates typed pointers."""
    pointer.type = llvm.PointerType()
    return pointer


def byte_offset(b: llvm.IRBuilder, address: llvm.Value, offset: int | llvm.Value) -> llvm.Value:
    if isinstance(offset, int):
        offset = integer(64, offset)
    return b.gep(address, [offset], inbounds=True, source_etype=I8)


def offset_of(b: llvm.IRBuilder, kind: llvm.Type, indices: list[llvm.Constant]) -> llvm.Value:
    """Return the offset in bytes that a `gep` with these indices adds to an address of a value of a type."""
    return b.ptrtoint(b.gep(null(POINTER), indices, source_etype=kind), I64)  # an address relative to null


def word(b: llvm.IRBuilder, base: llvm.Value, offset: int | llvm.Value) -> llvm.Value:
    """Return the address that is `offset` 64-bit words after another."""
    if isinstance(offset, int):
        offset = integer(64, offset)
    return b.gep(base, [offset], inbounds=True, source_etype=I64)


def is_null(b: llvm.IRBuilder, pointer: llvm.Value) -> llvm.Value:
    return b.icmp_unsigned("==", pointer, null(pointer.type))
