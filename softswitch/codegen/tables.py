"""Applying a table: the key's words from the packet's fields, and the call that finds the entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
import os
HT=int(os.environ.get('HT','3'))

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.ahead import Lookup
from softswitch.codegen.packet import Packet
from softswitch.codegen.ranked import call_find_ranked
from softswitch.codegen.wire import join, split
from softswitch.llvmir import I64, integer, resize, word
from softswitch.memory.layout import Layout, TableLayout
from softswitch.memory.index import bucket_of, call_find, emit_record, index_at
from softswitch.memory.words import LOW, WORD
from softswitch.target import target_of


def emit_lookup(packet: Packet, state: llvm.Value, table: TableLayout) -> llvm.Value:
    """Address of the matching record, or null; of the default record for a table without key."""
    b = packet.b
    if not table.table.key:
        return word(b, state, table.default)
    words = _key_words(packet, table.table.key)
    if table.is_ranked:
        bounded = [w for i in table.ranges for w in split(b, _value(packet, table.table.key[i]))]
        return call_find_ranked(b, state, table, [*words, *bounded])
    return call_find(b, state, table, words)


def emit_touches(packet: Packet, state: llvm.Value, layout: Layout, lookups: Sequence[Lookup]) -> None:
    """Have the buckets come near where look-ups will begin, those that will be done; then their records."""
    b = packet.b
    target = target_of(b.module)
    places = []
    for lookup in lookups:
        table = layout.tables[lookup.table.name]
        index = index_at(b, state, table)
        bucket = bucket_of(b, index, _key_words(packet, lookup.key))
        with _if_done(packet, lookup):
            target.touch(b, bucket)
        places.append((lookup, index, bucket))
    if HT == 3:
      for lookup, index, bucket in places:
        with _if_done(packet, lookup):
            number = b.and_(b.load(bucket, typ=I64), integer(WORD, LOW))
            target.touch(b, emit_record(b, index, number))


@contextmanager
def _if_done(packet: Packet, lookup: Lookup) -> Iterator[None]:
    """A block that runs if the look-up will be done."""
    with ExitStack() as conditions:
        for condition, wanted in lookup.conditions:
            is_true = packet.arithmetic.truth(condition)
            conditions.enter_context(packet.b.if_then(is_true if wanted else packet.b.not_(is_true)))
        yield


def _key_words(packet: Packet, key: Sequence[ir.KeyField]) -> list[llvm.Value]:
    """The key as 64-bit words, least significant first."""
    parts = [(_value(packet, part), part.width) for part in key]
    return split(packet.b, join(packet.b, parts))


def _value(packet: Packet, part: ir.KeyField) -> llvm.Value:
    match part.source:
        case ir.IsValid(header):
            value = resize(packet.b, packet.is_valid(header), part.width)
        case source:
            value = packet.load(source)
    return value if part.mask is None else packet.b.and_(value, integer(part.width, part.mask))
