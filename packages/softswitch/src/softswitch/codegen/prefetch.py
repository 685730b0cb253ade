"""Emit prefetches of look-ups (`prefetch_plan`), in a loop if they differ only in a stack position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.loops import OpaqueVariable, repeat_while
from softswitch.codegen.packet import Packet
from softswitch.codegen.prefetch_plan import KnownLookup
from softswitch.codegen.tables import KeySource, key_sources, key_words
from softswitch.llvmir import I32, I64, integer, word
from softswitch.memory.index import hash_words
from softswitch.memory.layout import Layout
from softswitch.memory.words import WORD
from softswitch.target import target_of

_MIN_LOOP_ITERATIONS = 4  # length from which a run of prefetches is emitted as a loop
_LOOP_POSITION = ir.Parameter(0, 32)
"""Position in a header stack, which the loop increments."""


class Prefetch(NamedTuple):
    key: tuple[KeySource, ...]
    mask: int


class PlacedPrefetch(NamedTuple):
    prefetch: Prefetch
    position: int  # in a header stack, 0 for other headers
    buckets: int  # word offset of the table's buckets in the state

    def distance(self, previous: PlacedPrefetch) -> int | None:
        """Return the words between the buckets; None unless `previous` is the same, one position before."""
        is_next = self.prefetch == previous.prefetch and self.position == previous.position + 1
        return self.buckets - previous.buckets if is_next else None


def emit_prefetches(
    packet: Packet, state: llvm.Value, layout: Layout, lookups: Sequence[KnownLookup]
) -> None:
    prefetches = [_place_prefetch(packet.program, layout, lookup) for lookup in lookups]
    for run in _split_into_runs(prefetches):
        _Emitter(packet, state).emit(run)


def _split_into_runs(prefetches: Iterable[PlacedPrefetch]) -> Iterator[list[PlacedPrefetch]]:
    run: list[PlacedPrefetch] = []
    for prefetch in prefetches:
        if run:
            step = prefetch.distance(run[-1])
            if step is None or (len(run) > 1 and step != run[-1].distance(run[-2])):
                yield run
                run = []
        run.append(prefetch)
    yield run


def _place_prefetch(program: ir.Program, layout: Layout, lookup: KnownLookup) -> PlacedPrefetch:
    table = layout.tables[lookup.table.name]
    # By header: its stack, and its position there.
    elements = {h: (s, i) for s, stack in enumerate(program.stacks) for i, h in enumerate(stack.headers)}
    position = next((elements[ref.header][1] for ref in lookup.key_fields if ref.header in elements), 0)

    def use_loop_position(part: KeySource) -> KeySource:
        match part.source:
            case ir.FieldRef(header, field) if header in elements and elements[header][1] == position:
                element = ir.Element(elements[header][0], _LOOP_POSITION)
                return part._replace(source=ir.ElementField(element, field))
        return part

    return PlacedPrefetch(
        Prefetch(tuple(map(use_loop_position, key_sources(lookup.key))), table.mask), position, table.buckets
    )


class _Emitter:
    def __init__(self, packet: Packet, state: llvm.Value) -> None:
        self._packet, self._b, self._state = packet, packet.b, state

    def emit(self, run: Sequence[PlacedPrefetch]) -> None:
        if len(run) < _MIN_LOOP_ITERATIONS:
            for prefetch, position, buckets in run:
                self._prefetch(prefetch, integer(32, position), integer(WORD, buckets))
            return
        b, first = self._b, run[0]
        step = run[1].buckets - first.buckets
        loop_position = OpaqueVariable(b, I32, integer(32, first.position))
        bucket_offset = OpaqueVariable(b, I64, integer(WORD, first.buckets))
        end = integer(32, first.position + len(run))
        with repeat_while(b, lambda: b.icmp_unsigned("<", loop_position.get(), end)):
            self._prefetch(first.prefetch, loop_position.get(), bucket_offset.get())
            loop_position.set(b.add(loop_position.get(), integer(32, 1)))
            bucket_offset.set(b.add(bucket_offset.get(), integer(WORD, step)))

    def _prefetch(self, prefetch: Prefetch, position: llvm.Value, buckets: llvm.Value) -> None:
        """Emit one prefetch, even if a header is invalid and its key useless: a check would cost more."""
        b = self._b
        self._packet.parameters = [position]
        bucket = b.and_(hash_words(b, key_words(self._packet, prefetch.key)), integer(WORD, prefetch.mask))
        target_of(b.module).prefetch(b, word(b, word(b, self._state, buckets), bucket))
