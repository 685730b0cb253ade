"""Where a program's state lies in the one block of memory that compiled code and control plane share.

Everything is in 64-bit words. A table is a hash index (open addressing, linear probing) over records of fixed
size, so that all offsets are constants of the compiled code:

    header    entries in use, head of the free list, records ever used, groups in use
    default   the default action as a record without key
    buckets   2 x size rounded up to a power of two: hash tag << 32 | record number + 1, or 0
    records   key words | action | packets, bytes (with a direct counter) | one run of words a parameter
    groups    (ranked tables only) mask words | highest rank | entries
    order     (ranked tables only) the groups in use, highest rank first

A *ranked* table is one with other than exact matches. Its entries fall into groups of the same mask (tuple
space search, Srinivasan et al., SIGCOMM 1999): within a group the masked key and the group's number are the
key of a hash look-up. Records of one key form a chain by falling rank, and hold the bounds of range matches:

    records   masked key words | group | rank | next record | bounds | action | ...
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from softswitch import ir

WORD = 64
HEADER_WORDS = 4


def words_of(bits: int) -> int:
    """Words that hold `bits` bits, at least one."""
    return max(1, -(-bits // WORD))


@dataclass(frozen=True)
class TableLayout:
    """Word offsets of one table."""

    table: ir.Table
    parameter_words: dict[int, tuple[int, ...]]
    header: int

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
        """Word of a ranked record that holds its rank; the next record's number + 1 follows."""
        return self.key_words

    @property
    def bounds(self) -> int:
        """Word of a ranked record where low and high of each range field begin."""
        return self.key_words + 2

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
    def parameters(self) -> int:
        """Word of a record where the action's run-time data begins."""
        return self.action + 1 + (2 if self.table.has_counter else 0)

    @cached_property
    def stride(self) -> int:
        """Words of one record."""
        most = max(sum(self.parameter_words[action]) for action in self.table.actions)
        return self.parameters + most

    @cached_property
    def bucket_count(self) -> int:
        """Number of buckets, a power of two."""
        return 1 << (2 * max(self.table.size, 1) - 1).bit_length() if self.table.key else 0

    @property
    def group_stride(self) -> int:
        """Words of one group."""
        return self.field_words + 2

    @property
    def default(self) -> int:
        """Where the default record lies (it has room for a key, unused)."""
        return self.header + HEADER_WORDS

    @property
    def buckets(self) -> int:
        """Where the buckets begin."""
        return self.default + self.stride

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
class Layout:
    """Word offsets of all state of a program."""

    counters: tuple[int, ...]
    registers: tuple[int, ...]
    tables: dict[str, TableLayout]
    words: int

    @staticmethod
    def register_bytes(width: int) -> int:
        """Bytes of one register cell: a power of two up to 8, then whole words."""
        return 1 << max(0, (width - 1).bit_length() - 3) if width <= WORD else words_of(width) * 8


def make_layout(program: ir.Program) -> Layout:
    """Give every counter, register and table of the program its place."""
    end = 0
    counters: list[int] = []
    for counter in program.counters:
        counters.append(end)
        end += 2 * counter.size
    registers: list[int] = []
    for register in program.registers:
        registers.append(end)
        end += -(-Layout.register_bytes(register.width) * register.size // 8)
    tables: dict[str, TableLayout] = {}
    parameter_words = {
        index: tuple(words_of(width) for width in action.parameters)
        for index, action in enumerate(program.actions)
    }
    for name, table in program.tables.items():
        tables[name] = TableLayout(table, parameter_words, end)
        end = tables[name].end
    return Layout(tuple(counters), tuple(registers), tables, end)
