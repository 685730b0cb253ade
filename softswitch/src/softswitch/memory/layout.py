"""Where a program's state lies in the one block of memory that compiled code and control plane share.

Everything is in 64-bit words. A table is a hash index (open addressing, linear probing) over records of fixed
size, so that all offsets are constants of the compiled code:

    header    `ENTRIES`, `FREE`, `USED`, `GROUPS`
    default   the default action as a record without key
    buckets   2 x size rounded up to a power of two (`memory.index`)
    records   key words | action | packets, bytes (with a direct counter) | one run of words a parameter
    groups    (ranked tables only) mask words | highest rank | entries
    order     (ranked tables only) the groups in use, highest rank first

A *ranked* table is one with other than exact matches. Its entries fall into groups of the same mask (tuple
space search, Srinivasan et al., SIGCOMM 1999): within a group the masked key and the group's number are the
key of a hash look-up. Records of one key form a chain by falling rank, and hold the bounds of range matches:

    records   masked key words | group | rank | next record | bounds | action | ...

After the action come packets and bytes (with a direct counter), a meter (with a direct meter), the time of
the last hit (with an idle timeout), and the action's run-time data. In a table with an action profile the
action is a reference instead: 0 for none, the number of a member + 1, or `GROUP` | the number of a group.

    members   action | run-time data
    groups    run of a pool of references to members: first << 32 | number
    meter     configured | for peak and committed rate: tokens a us (double) | burst | tokens | since start

What all packets may need comes first, in few lines and pages: headers, default records, small arrays. Cells
that an action reaches by one field lie beside each other (`memory.colocated_arrays`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from softswitch import ir
from softswitch.limits import GROUP_SHARE, MAX_REPLICAS
from softswitch.memory.colocation import ArrayRef, colocated_arrays
from softswitch.memory.words import LOW, WORD, WORD_BYTES, WORD_MASK, words_of
from softswitch.v1model import CLONE_SESSIONS, MULTICAST_GROUPS

ENTRIES, FREE, USED, GROUPS, HEADER_WORDS = range(5)
"""Words of a table's header: entries, first free record, records ever used, groups in use; how many words."""
BUCKET_WORDS = 4
METER_WORDS = 1 + 2 * BUCKET_WORDS
SESSION_WORDS = 2
COUNTER_WORDS = 2
LINE_WORDS = 8
"""Of a cache line."""
GAP_LINES = 13
"""Between arrays: cells of one index of many arrays would else lie in one set of a cache."""
SMALL_WORDS = 64
"""Arrays of no more words lie with each other."""
GROUP = 1 << 63
"""Marks a reference to a group."""


def meter_bucket(number: int) -> int:
    """Word of a meter where a token bucket begins: 0 for the peak rate, 1 for the committed one."""
    return 1 + BUCKET_WORDS * number


def member_reference(slot: int) -> int:
    """The word by which entries and groups refer to a member."""
    return slot + 1


def group_reference(slot: int) -> int:
    """The word by which entries refer to a group."""
    return GROUP | slot


NO_ACTION = LOW
"""The action of a default record without an action."""
FREED = WORD_MASK
"""The action of a record on the free list, whose first word is the number of the next one, or 0."""


@dataclass(frozen=True)
class TableLayout:
    """Word offsets of one table."""

    table: ir.Table
    parameter_words: dict[int, tuple[int, ...]]
    header: int
    body: int
    """Where all but header and default record lies."""

    @property
    def size(self) -> int:
        """Entries that it has room for."""
        return self.table.size

    @cached_property
    def is_ranked(self) -> bool:
        """Entries are found by mask and rank."""
        return not self.table.is_exact

    @cached_property
    def field_words(self) -> int:
        """Words of the joined key fields."""
        return words_of(sum(part.width for part in self.table.key)) if self.table.key else 0

    @cached_property
    def key_words(self) -> int:
        """Words that a hash look-up compares: the fields, and the group's number."""
        return self.field_words + int(self.is_ranked)

    @cached_property
    def ranges(self) -> tuple[int, ...]:
        """Positions of the range fields in the key."""
        return tuple(i for i, part in enumerate(self.table.key) if part.kind is ir.MatchKind.RANGE)

    @property
    def rank(self) -> int:
        """Word of a ranked record that holds its rank."""
        return self.key_words

    @property
    def link(self) -> int:
        """Word of a ranked record that holds the number of the next one of its key, or 0."""
        return self.rank + 1

    @property
    def bounds(self) -> int:
        """Word of a ranked record where low and high of each range field begin."""
        return self.link + 1

    @cached_property
    def bound_words(self) -> int:
        """Words of all bounds."""
        return sum(2 * words_of(self.table.key[i].width) for i in self.ranges)

    @cached_property
    def action(self) -> int:
        """Word of a record that holds the action's index."""
        return self.bounds + self.bound_words if self.is_ranked else self.key_words

    @property
    def counter(self) -> int:
        """Word of a record where packets, then bytes, are counted."""
        return self.action + 1

    @property
    def meter(self) -> int:
        """Word of a record where its meter begins."""
        return self.counter + (COUNTER_WORDS if self.table.has_counter else 0)

    @property
    def last_hit(self) -> int:
        """Word of a record that holds the time of its last hit."""
        return self.meter + (METER_WORDS if self.table.meter else 0)

    @property
    def parameters(self) -> int:
        """Word of a record where the action's run-time data begins."""
        return self.last_hit + int(self.table.has_idle_timeout)

    @cached_property
    def stride(self) -> int:
        """Words of one record."""
        if self.table.profile is not None:
            return self.parameters
        return self.parameters + max_data_words(self.parameter_words, self.table)

    @cached_property
    def bucket_count(self) -> int:
        """Number of buckets, a power of two."""
        return 1 << (2 * max(self.table.size, 1) - 1).bit_length() if self.table.key else 0

    @property
    def mask(self) -> int:
        """What the position of a bucket is taken modulo, less 1."""
        return self.bucket_count - 1

    @property
    def group_rank(self) -> int:
        """Word of a group that holds the highest rank of its entries, or an upper bound of it."""
        return self.field_words

    @property
    def group_entries(self) -> int:
        """Word of a group that holds how many entries it has."""
        return self.group_rank + 1

    @property
    def group_stride(self) -> int:
        """Words of one group."""
        return self.group_entries + 1

    @property
    def head_words(self) -> int:
        """Words of header and default record."""
        return HEADER_WORDS + self.stride

    @property
    def default(self) -> int:
        """Where the default record lies (it has room for a key, unused)."""
        return self.header + HEADER_WORDS

    @property
    def buckets(self) -> int:
        """Where the buckets begin."""
        return self.body

    @property
    def records(self) -> int:
        """Where the records begin."""
        return self.buckets + self.bucket_count

    @property
    def groups(self) -> int:
        """Where the groups begin."""
        return self.records + (self.table.size * self.stride if self.table.key else 0)

    @property
    def order(self) -> int:
        """Where the order of the groups begins."""
        return self.groups + (self.table.size * self.group_stride if self.is_ranked else 0)

    @property
    def end(self) -> int:
        """The first word after the table."""
        return self.order + (self.table.size if self.is_ranked else 0)


@dataclass(frozen=True)
class ProfileLayout:
    """Word offsets of one action profile."""

    profile: ir.ActionProfile
    data_words: int
    members: int

    @property
    def action(self) -> int:
        """Word of a member that holds the action's index."""
        return 0

    @property
    def parameters(self) -> int:
        """Word of a member where the action's run-time data begins."""
        return self.action + 1

    @property
    def stride(self) -> int:
        """Words of one member."""
        return self.parameters + self.data_words

    @property
    def groups(self) -> int:
        """Where the groups begin, a word each."""
        return self.members + self.profile.size * self.stride

    @property
    def pool(self) -> int:
        """Where the references of all groups lie."""
        return self.groups + self.profile.size

    @property
    def pool_size(self) -> int:
        """References that all groups can have together."""
        return GROUP_SHARE * self.profile.size

    @property
    def end(self) -> int:
        """The first word after the profile."""
        return self.pool + self.pool_size


@dataclass(frozen=True)
class ReplicationLayout:
    """Word offsets of multicast groups and clone sessions.

    A group and a session is a run of replicas, first << 32 | number; a replica is port << 32 | instance. The
    second word of a session is the length to cut to, 0 for none.
    """

    multicast: int

    @property
    def sessions(self) -> int:
        """Where the clone sessions begin, `SESSION_WORDS` each."""
        return self.multicast + MULTICAST_GROUPS

    @property
    def pool(self) -> int:
        """Where the replicas lie."""
        return self.sessions + SESSION_WORDS * CLONE_SESSIONS

    @property
    def end(self) -> int:
        """The first word after the replicas."""
        return self.pool + MAX_REPLICAS


class CellArray(NamedTuple):
    """Where the cells of a register or counter lie, in bytes: the first, and how far it is to the next."""

    first: int
    step: int

    def at(self, index: int) -> int:
        """Byte offset of a cell."""
        return self.first + self.step * index


@dataclass(frozen=True)
class Layout:
    """Word offsets of all state of a program."""

    random: int
    counters: tuple[CellArray, ...]
    meters: tuple[int, ...]
    registers: tuple[CellArray, ...]
    value_sets: tuple[int, ...]
    value_words: tuple[int, ...]
    tables: dict[str, TableLayout]
    profiles: tuple[ProfileLayout, ...]
    replication: ReplicationLayout
    work: int
    """The rest is the packet function's own: packets that wait (`codegen.traffic`)."""

    @staticmethod
    def register_bytes(width: int) -> int:
        """Bytes of one register cell: a power of two up to 8, then whole words."""
        return 1 << max(0, (width - 1).bit_length() - 3) if width <= WORD else words_of(width) * WORD_BYTES


def max_data_words(parameter_words: dict[int, tuple[int, ...]], *tables: ir.Table) -> int:
    """Words of the run-time data of the tables' largest action."""
    return max((sum(parameter_words[a]) for table in tables for a in table.actions), default=0)


class _Allocator:
    """Hands out words one after another."""

    def __init__(self) -> None:
        self.end = 0

    def take(self, words: int) -> int:
        first = self.end
        self.end += words
        return first

    def take_lines(self, words: int) -> int:
        """From the beginning of a cache line on, some lines after the last one."""
        self.end = (-(-self.end // LINE_WORDS) + GAP_LINES) * LINE_WORDS
        return self.take(words)


class _ColocatedArrays:
    """Registers and counters whose cells lie beside each other, or one alone."""

    def __init__(self, program: ir.Program, arrays: tuple[ArrayRef, ...]) -> None:
        self._arrays = sorted(arrays, key=lambda array: -_cell_bytes(program, array))
        self._offsets = list(accumulate((_cell_bytes(program, a) for a in self._arrays), initial=0))
        largest = min(_cell_bytes(program, self._arrays[0]), WORD_BYTES)
        self._step = -(-self._offsets[-1] // largest) * largest
        self._words = -(-self._step * _declared(program, arrays[0]).size // WORD_BYTES)
        self.is_small = self._words <= SMALL_WORDS

    def allocate(self, at: _Allocator) -> Iterator[tuple[ArrayRef, CellArray]]:
        """Each with its cells, which are taken here."""
        first = (at.take if self.is_small else at.take_lines)(self._words) * WORD_BYTES
        for array, offset in zip(self._arrays, self._offsets, strict=False):
            yield array, CellArray(first + offset, self._step)


def _groups(program: ir.Program) -> list[tuple[ArrayRef, ...]]:
    """All registers and counters, each with its neighbours."""
    groups = colocated_arrays(program)
    grouped = {array for group in groups for array in group}
    counters = (ArrayRef(True, number) for number in range(len(program.counters)))
    registers = (ArrayRef(False, number) for number in range(len(program.registers)))
    return [*groups, *((array,) for array in (*counters, *registers) if array not in grouped)]


def _declared(program: ir.Program, array: ArrayRef) -> ir.Counter | ir.Register:
    return (program.counters if array.is_counter else program.registers)[array.number]


def _cell_bytes(program: ir.Program, array: ArrayRef) -> int:
    declared = _declared(program, array)
    if isinstance(declared, ir.Register):
        return Layout.register_bytes(declared.width)
    return COUNTER_WORDS * WORD_BYTES


def make_layout(program: ir.Program) -> Layout:
    """Give all state of the program its offset."""
    at = _Allocator()
    random = at.take(1)
    parameter_words = {
        index: tuple(words_of(width) for width in action.parameters)
        for index, action in enumerate(program.actions)
    }
    arrays = [_ColocatedArrays(program, group) for group in _groups(program)]
    cells = {array: each for run in arrays if run.is_small for array, each in run.allocate(at)}
    headers: dict[str, int] = {}
    for name, table in program.tables.items():
        headers[name] = at.take(TableLayout(table, parameter_words, 0, 0).head_words)
    cells |= {array: each for run in arrays if not run.is_small for array, each in run.allocate(at)}
    meters = tuple(at.take(METER_WORDS * meter.size) for meter in program.meters)
    value_words = tuple(words_of(declared.bits) for declared in program.value_sets)
    declared = zip(program.value_sets, value_words, strict=True)
    value_sets = tuple(at.take(1 + words * value_set.size) for value_set, words in declared)
    tables: dict[str, TableLayout] = {}
    for name, table in program.tables.items():
        tables[name] = TableLayout(table, parameter_words, headers[name], at.take_lines(0))
        at.end = tables[name].end
    profiles: list[ProfileLayout] = []
    for number, profile in enumerate(program.profiles):
        users = [table for table in program.tables.values() if table.profile == number]
        profiles.append(ProfileLayout(profile, max_data_words(parameter_words, *users), at.end))
        at.end = profiles[-1].end
    replication = ReplicationLayout(at.end)
    counters = tuple(cells[ArrayRef(True, number)] for number in range(len(program.counters)))
    registers = tuple(cells[ArrayRef(False, number)] for number in range(len(program.registers)))
    return Layout(
        random, counters, meters, registers, value_sets, value_words, tables, tuple(profiles), replication,
        replication.end,
    )  # fmt: skip
