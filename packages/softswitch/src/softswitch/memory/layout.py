"""Offsets of a program's state in the memory block that compiled code and control plane share.

Everything is in 64-bit words. A table is a hash index (open addressing, linear probing) over records of fixed
size, so that all offsets are constants of the compiled code:

    header    `ENTRIES`, `FREE`, `USED`, `GROUPS`
    default   the default action as a record without key
    buckets   2 x size rounded up to a power of two (`memory.index`)
    records   key words | action | packets, bytes (with a direct counter) | the words of each parameter
    groups    (ranked tables only) of equal masks: mask words | highest rank | entries
    order     (ranked tables only) the groups in use, highest rank first

A *ranked* table has matches other than exact ones. Its entries form groups with equal masks (tuple space
search, Srinivasan et al., SIGCOMM 1999): within a group, the masked key and the group's number are the key of
a hash look-up. Records with the same key form a chain by descending rank, and hold the bounds of range
matches:

    records   masked key words | group | rank | next record | bounds | action | ...

After the action come packets and bytes (with a direct counter), a meter (with a direct meter), the time of
the last hit (with an idle timeout), and the action's run-time data. In a table with an action profile the
action is a reference instead: 0 for none, the slot of a member + 1, or `SELECTOR_GROUP` | the slot of a
group of the action selector.

    members   action | run-time data
    groups    of the selector: first << 32 | count of a group's references to members, in a pool
    meter     configured | for peak and committed rate: tokens/us (double) | burst | tokens | generated

A token bucket's last word is the number of tokens that its rate had generated, from start to the last packet.

The words that every packet may need come first, in few cache lines and pages: small arrays, headers and
default records. Cells that a packet accesses with one index are adjacent (`memory.colocation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from softswitch import ir
from softswitch.limits import GROUP_MEMBERS_PER_MEMBER, MAX_REPLICAS
from softswitch.memory.colocation import ArrayRef, colocated_arrays, declaration, neighbouring_groups
from softswitch.memory.words import LOW_HALF_MASK, WORD, WORD_BYTES, WORD_MASK, words_of
from softswitch.v1model import CLONE_SESSIONS, MULTICAST_GROUPS

ENTRIES, FREE, USED, GROUPS, HEADER_WORDS = range(5)
"""Words of a table's header (entries, first free record, records ever used, groups in use); header size."""
TOKEN_BUCKET_WORDS = 4
METER_WORDS = 1 + 2 * TOKEN_BUCKET_WORDS
SESSION_WORDS = 2
COUNTER_WORDS = 2
CACHE_LINE_WORDS = 8
GAP_LINES = 13
"""Cache lines between arrays, so that cells of one index do not all fall into one set of a cache."""
MAX_STEP_BYTES = 2048
"""Maximum size of the cells of one index in neighbouring groups: a larger step would waste pages."""
MAX_SMALL_ARRAY_WORDS = 64
"""Arrays of up to this many words are placed next to each other."""
SELECTOR_GROUP = 1 << 63  # bit of an action that is a reference to a group of an action selector


def meter_bucket(number: int) -> int:
    """Return the word of a meter where the token bucket of the peak (0) or committed rate (1) begins."""
    return 1 + TOKEN_BUCKET_WORDS * number


def member_reference(slot: int) -> int:
    return slot + 1


def group_reference(slot: int) -> int:
    return SELECTOR_GROUP | slot


NO_ACTION = LOW_HALF_MASK
"""The action of a default record without an action: a number above those of all actions."""
FREE_RECORD = WORD_MASK
"""The action of a record on the free list, whose first word is the number of the next free record, or 0."""


@dataclass(frozen=True)
class TableLayout:
    """Word offsets of one table. Offsets of parts of a record or group are relative to its start."""

    table: ir.Table
    parameter_words: dict[int, tuple[int, ...]]  # of each parameter, by action
    header: int
    body: int  # buckets, records, groups and order

    @property
    def max_entries(self) -> int:
        return self.table.size

    @cached_property
    def is_ranked(self) -> bool:
        return not self.table.is_exact

    @cached_property
    def field_words(self) -> int:
        return words_of(sum(part.width for part in self.table.key)) if self.table.key else 0

    @cached_property
    def key_words(self) -> int:
        """Words that a hash look-up compares: the fields, and in a ranked table the group's number."""
        return self.field_words + int(self.is_ranked)

    @cached_property
    def ranges(self) -> tuple[int, ...]:
        return tuple(i for i, part in enumerate(self.table.key) if part.kind is ir.MatchKind.RANGE)

    @property
    def rank(self) -> int:
        return self.key_words

    @property
    def link(self) -> int:
        return self.rank + 1  # of the number of the next record in the chain

    @property
    def bounds(self) -> int:
        return self.link + 1

    @cached_property
    def bound_words(self) -> int:
        return sum(2 * words_of(self.table.key[i].width) for i in self.ranges)

    @cached_property
    def action(self) -> int:
        return self.bounds + self.bound_words if self.is_ranked else self.key_words

    @property
    def counter(self) -> int:
        """Words of packets, then bytes."""
        return self.action + 1

    @property
    def meter(self) -> int:
        return self.counter + (COUNTER_WORDS if self.table.has_counter else 0)

    @property
    def last_hit(self) -> int:
        """Time of the last hit, in µs since start."""
        return self.meter + (METER_WORDS if self.table.meter else 0)

    @property
    def parameters(self) -> int:
        return self.last_hit + int(self.table.has_idle_timeout)

    @cached_property
    def stride(self) -> int:
        if self.table.profile is not None:
            return self.parameters
        return self.parameters + max_data_words(self.parameter_words, self.table)

    @cached_property
    def bucket_count(self) -> int:
        return 1 << (2 * max(self.table.size, 1) - 1).bit_length() if self.table.key else 0

    @property
    def mask(self) -> int:
        return self.bucket_count - 1

    @property
    def group_rank(self) -> int:
        return self.field_words

    @property
    def group_entries(self) -> int:
        return self.group_rank + 1

    @property
    def group_stride(self) -> int:
        return self.group_entries + 1

    @property
    def header_and_default_words(self) -> int:
        return HEADER_WORDS + self.stride

    @property
    def default(self) -> int:
        """Offset of the default record, whose key is unused."""
        return self.header + HEADER_WORDS

    @property
    def buckets(self) -> int:
        return self.body

    @property
    def records(self) -> int:
        return self.buckets + self.bucket_count

    @property
    def groups(self) -> int:
        return self.records + (self.table.size * self.stride if self.table.key else 0)

    @property
    def order(self) -> int:
        return self.groups + (self.table.size * self.group_stride if self.is_ranked else 0)

    @property
    def end(self) -> int:
        return self.order + (self.table.size if self.is_ranked else 0)


@dataclass(frozen=True)
class ProfileLayout:
    """Word offsets of one action profile; `action` and `parameters` are relative to a member."""

    profile: ir.ActionProfile
    data_words: int
    members: int

    @property
    def action(self) -> int:
        return 0

    @property
    def parameters(self) -> int:
        return self.action + 1

    @property
    def stride(self) -> int:
        return self.parameters + self.data_words

    @property
    def groups(self) -> int:
        return self.members + self.profile.size * self.stride

    @property
    def pool(self) -> int:
        return self.groups + self.profile.size

    @property
    def pool_size(self) -> int:
        return GROUP_MEMBERS_PER_MEMBER * self.profile.size

    @property
    def end(self) -> int:
        return self.pool + self.pool_size


@dataclass(frozen=True)
class ReplicationLayout:
    """Word offsets of multicast groups and clone sessions.

    Each is a run of replicas in the pool, first << 32 | count; a replica is port << 32 | instance. The second
    word of a session is the length in bytes to truncate to, 0 for none.
    """

    multicast: int

    @property
    def sessions(self) -> int:
        return self.multicast + MULTICAST_GROUPS

    @property
    def pool(self) -> int:
        return self.sessions + SESSION_WORDS * CLONE_SESSIONS

    @property
    def end(self) -> int:
        return self.pool + MAX_REPLICAS


class CellArray(NamedTuple):
    """Cells of a register or counter: byte offset of the first, and bytes from one to the next."""

    first: int
    step: int

    def at(self, index: int) -> int:
        return self.first + self.step * index


@dataclass(frozen=True)
class Layout:
    random: int  # word offset of the state of `random`
    counters: tuple[CellArray, ...]
    meters: tuple[int, ...]  # word offsets of the first cells
    registers: tuple[CellArray, ...]
    value_sets: tuple[int, ...]  # word offsets: the number of members, then the members
    value_words: tuple[int, ...]  # words of a member of each value set
    tables: dict[str, TableLayout]
    profiles: tuple[ProfileLayout, ...]
    replication: ReplicationLayout
    work: int
    """Offset of the packet function's working memory, in which packets wait (`codegen.traffic`)."""

    @staticmethod
    def register_bytes(width: int) -> int:
        """Return the bytes of a register cell of `width` bits: a power of two up to 8, then whole words."""
        return 1 << max(0, (width - 1).bit_length() - 3) if width <= WORD else words_of(width) * WORD_BYTES


def max_data_words(parameter_words: dict[int, tuple[int, ...]], *tables: ir.Table) -> int:
    return max((sum(parameter_words[a]) for table in tables for a in table.actions), default=0)


class _Allocator:
    def __init__(self) -> None:
        self.end = 0

    def take(self, words: int) -> int:
        first = self.end
        self.end += words
        return first

    def take_lines(self, words: int) -> int:
        """Allocate from the start of a cache line, `GAP_LINES` after the last line in use."""
        self.end = (-(-self.end // CACHE_LINE_WORDS) + GAP_LINES) * CACHE_LINE_WORDS
        return self.take(words)


class _ColocatedArrays:
    """Arrays of neighbouring groups, whose cells of one index lie side by side, group by group."""

    def __init__(self, program: ir.Program, groups: Sequence[tuple[ArrayRef, ...]]) -> None:
        self._offsets: dict[ArrayRef, int] = {}
        step = widest = 0
        for group in groups:
            arrays = sorted(group, key=lambda array: -_cell_bytes(program, array))
            alignment = min(_cell_bytes(program, arrays[0]), WORD_BYTES)
            step, widest = _align(step, alignment), max(widest, alignment)
            for array in arrays:
                self._offsets[array] = step
                step += _cell_bytes(program, array)
            step = _align(step, alignment)
        self.step = _align(step, widest)
        self._words = -(-self.step * declaration(program, groups[0][0]).size // WORD_BYTES)
        self.is_small = self._words <= MAX_SMALL_ARRAY_WORDS

    def allocate(self, allocator: _Allocator) -> Iterator[tuple[ArrayRef, CellArray]]:
        first_byte = (allocator.take if self.is_small else allocator.take_lines)(self._words) * WORD_BYTES
        for array, offset in self._offsets.items():
            yield array, CellArray(first_byte + offset, self.step)


def _align(octets: int, alignment: int) -> int:
    return -(-octets // alignment) * alignment


def _colocate_arrays(program: ir.Program) -> Iterator[_ColocatedArrays]:
    groups = colocated_arrays(program)
    grouped_arrays = {array for group in groups for array in group}
    counters = (ArrayRef(is_counter=True, number=number) for number in range(len(program.counters)))
    registers = (ArrayRef(is_counter=False, number=number) for number in range(len(program.registers)))
    groups += [(array,) for array in (*counters, *registers) if array not in grouped_arrays]
    for neighbours in neighbouring_groups(program, groups):
        arrays = _ColocatedArrays(program, neighbours)
        if arrays.step <= MAX_STEP_BYTES:
            yield arrays
        else:
            yield from (_ColocatedArrays(program, [group]) for group in neighbours)


def _cell_bytes(program: ir.Program, array: ArrayRef) -> int:
    array_declaration = declaration(program, array)
    if isinstance(array_declaration, ir.Register):
        return Layout.register_bytes(array_declaration.width)
    return COUNTER_WORDS * WORD_BYTES


def make_layout(program: ir.Program) -> Layout:
    allocator = _Allocator()
    random = allocator.take(1)
    parameter_words = {
        index: tuple(words_of(width) for width in action.parameters)
        for index, action in enumerate(program.actions)
    }
    groups = list(_colocate_arrays(program))
    cells = {
        array: cell_array
        for group in groups
        if group.is_small
        for array, cell_array in group.allocate(allocator)
    }
    headers: dict[str, int] = {}
    for name, table in program.tables.items():
        layout_at_0 = TableLayout(table, parameter_words, header=0, body=0)
        headers[name] = allocator.take(layout_at_0.header_and_default_words)
    cells |= {
        array: cell_array
        for group in groups
        if not group.is_small
        for array, cell_array in group.allocate(allocator)
    }
    meters = tuple(allocator.take(METER_WORDS * meter.size) for meter in program.meters)
    value_words = tuple(words_of(value_set.bits) for value_set in program.value_sets)
    sets_and_words = zip(program.value_sets, value_words, strict=True)
    value_sets = tuple(allocator.take(1 + words * value_set.size) for value_set, words in sets_and_words)
    tables: dict[str, TableLayout] = {}
    for name, table in program.tables.items():
        # The layout computes the size of its body, which is allocated by setting `end`.
        body = allocator.take_lines(words=0)
        tables[name] = TableLayout(table, parameter_words, headers[name], body)
        allocator.end = tables[name].end
    profiles: list[ProfileLayout] = []
    for number, profile in enumerate(program.profiles):
        profile_tables = [table for table in program.tables.values() if table.profile == number]
        profiles.append(
            ProfileLayout(profile, max_data_words(parameter_words, *profile_tables), allocator.end)
        )
        allocator.end = profiles[-1].end
    replication = ReplicationLayout(allocator.end)
    counters = tuple(
        cells[ArrayRef(is_counter=True, number=number)] for number in range(len(program.counters))
    )
    registers = tuple(
        cells[ArrayRef(is_counter=False, number=number)] for number in range(len(program.registers))
    )
    return Layout(
        random, counters, meters, registers, value_sets, value_words, tables, tuple(profiles), replication,
        work=replication.end,
    )  # fmt: skip
