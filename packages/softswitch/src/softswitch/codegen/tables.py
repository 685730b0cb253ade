"""Emit look-ups: the key's words from the packet's fields, and the call that finds the entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.packet import Packet
from softswitch.codegen.ranked import call_find_ranked
from softswitch.codegen.wire import join, split
from softswitch.llvmir import integer, resize, word
from softswitch.memory.index import call_find
from softswitch.memory.layout import TableLayout


class KeySource(NamedTuple):
    """A field of a key, with width in bits and mask; its value is 0 if `header` is given and invalid."""

    source: ir.LValue | ir.IsValid
    width: int
    mask: int | None
    header: int | None = None


def key_sources(key: Sequence[ir.KeyField]) -> tuple[KeySource, ...]:
    """Return the sources of a key, without checks of the validity of headers."""
    return tuple(KeySource(part.source, part.width, part.mask) for part in key)


def emit_lookup(packet: Packet, state: llvm.Value, table: TableLayout) -> llvm.Value:
    """Return the address of the matching record, or null; a table without key has only the default record."""
    b = packet.b
    if not table.table.key:
        return word(b, state, table.default)
    parts = [_add_validity_check(packet.program, part) for part in key_sources(table.table.key)]
    words = key_words(packet, parts)
    if table.is_ranked:
        range_words = [w for i in table.ranges for w in split(b, _part_value(packet, parts[i]))]
        return call_find_ranked(b, state, table, [*words, *range_words])
    return call_find(b, state, table, words)


def _add_validity_check(program: ir.Program, part: KeySource) -> KeySource:
    """Add the header whose validity to test, if its field can differ from 0 while the header is invalid."""
    if isinstance(part.source, ir.FieldRef) and part.source in program.stale_fields:
        return part._replace(header=part.source.header)
    return part


def key_words(packet: Packet, key: Sequence[KeySource]) -> list[llvm.Value]:
    """Return the key as 64-bit words, least significant first."""
    parts = [(_part_value(packet, part), part.width) for part in key]
    return split(packet.b, join(packet.b, parts))


def _part_value(packet: Packet, part: KeySource) -> llvm.Value:
    match part.source:
        case ir.IsValid(header):
            value = resize(packet.b, packet.is_valid(header), part.width)
        case source:
            value = packet.load(source)
    if part.header is not None:
        value = packet.b.select(packet.is_valid(part.header), value, integer(part.width, 0))
    return value if part.mask is None else packet.b.and_(value, integer(part.width, part.mask))
