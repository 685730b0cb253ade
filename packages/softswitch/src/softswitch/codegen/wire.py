"""Convert headers to and from network-order bytes, as loads, byte swaps and shifts of 8, 4, 2 or 1 bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llvmlite import ir as llvm

from softswitch.llvmir import byte_offset, integer, resize
from softswitch.memory.words import WORD, words_of


def runs(widths: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Split field widths into runs of whole bytes; yield each run's bits and the positions of its fields.

    A run has 0 bits only if it is the last one and all of its fields have width 0.
    """
    bits, fields = 0, []
    for position, width in enumerate(widths):
        bits += width
        fields.append(position)
        if bits and bits % 8 == 0:
            yield bits, fields
            bits, fields = 0, []
    if fields and not bits:
        yield bits, fields


def pieces(size: int) -> Iterator[tuple[int, int]]:
    offset = 0
    for piece in (8, 4, 2, 1):
        while size - offset >= piece:
            yield offset, piece
            offset += piece


def load_bits(b: llvm.IRBuilder, address: llvm.Value, size: int) -> llvm.Value:
    """Load `size` bytes as one big-endian integer."""
    if size == 0:
        return integer(0, 0)
    value = None
    for offset, piece in pieces(size):
        kind = llvm.IntType(piece * 8)
        part = b.load(byte_offset(b, address, offset), typ=kind, align=1)
        if piece > 1:
            part = b.bswap(part)
        wide = resize(b, part, size * 8)
        shift = (size - offset - piece) * 8
        wide = b.shl(wide, integer(size * 8, shift)) if shift else wide
        value = wide if value is None else b.or_(value, wide)
    assert value is not None
    return value


def store_bits(b: llvm.IRBuilder, address: llvm.Value, value: llvm.Value, size: int) -> None:
    for offset, piece in pieces(size):
        shift = (size - offset - piece) * 8
        part = b.lshr(value, integer(size * 8, shift)) if shift else value
        part = resize(b, part, piece * 8)
        if piece > 1:
            part = b.bswap(part)
        b.store(part, byte_offset(b, address, offset), align=1)


def load_fields(
    b: llvm.IRBuilder,
    address: llvm.Value,
    widths: Sequence[int],
    wanted_positions: Sequence[int] | None = None,
) -> list[llvm.Value]:
    values: list[llvm.Value] = []
    start = 0
    for bits, fields in runs(widths):
        run = load_bits(b, byte_offset(b, address, start), bits // 8)
        remaining = bits
        for position in fields:
            remaining -= widths[position]
            if wanted_positions is None or position in wanted_positions:
                part = b.lshr(run, integer(bits, remaining)) if 0 < remaining < bits else run
                values.append(resize(b, part, widths[position]))
        start += bits // 8
    return values


def store_fields(
    b: llvm.IRBuilder, address: llvm.Value, widths: Sequence[int], values: Sequence[llvm.Value]
) -> None:
    start = 0
    for bits, fields in runs(widths):
        run = join(b, [(values[position], widths[position]) for position in fields])
        store_bits(b, byte_offset(b, address, start), run, bits // 8)
        start += bits // 8


def join(b: llvm.IRBuilder, parts: Sequence[tuple[llvm.Value, int]]) -> llvm.Value:
    total = sum(width for _, width in parts)
    if total == 0:
        return integer(0, 0)
    joined = None
    remaining = total
    for value, width in ((value, width) for value, width in parts if width):
        remaining -= width
        wide = resize(b, value, total)
        wide = b.shl(wide, integer(total, remaining)) if remaining else wide
        joined = wide if joined is None else b.or_(joined, wide)
    assert joined is not None
    return joined


def split(b: llvm.IRBuilder, value: llvm.Value) -> list[llvm.Value]:
    """Split an integer into 64-bit words, least significant first."""
    count = words_of(value.type.width)
    padded = resize(b, value, count * WORD)
    shifts = (b.lshr(padded, integer(count * WORD, i * WORD)) if i else padded for i in range(count))
    return [resize(b, shifted, WORD) for shifted in shifts]
