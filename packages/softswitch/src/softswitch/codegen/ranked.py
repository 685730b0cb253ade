"""Look-ups with prefix, ternary, optional and range matches: a hash look-up for each mask (`layout`)."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch.codegen.loops import Variable, repeat_while, require
from softswitch.codegen.wire import join
from softswitch.llvmir import I64, integer, is_null, null, word
from softswitch.memory.index import call_find, index_at, record_address
from softswitch.memory.layout import GROUPS, TableLayout
from softswitch.memory.words import WORD, words_of
from softswitch.target import pass_words, receive_words, target_of, word_parameter_types


def call_find_ranked(
    b: llvm.IRBuilder, state: llvm.Value, table: TableLayout, words: list[llvm.Value]
) -> llvm.Value:
    """Return the matching record of the highest rank, or null; `words` are the key's, then the ranges'."""
    return b.call(_ranked_function(b.module, table), [state, *pass_words(b, words, preceding_count=1)])


def _ranked_function(module: llvm.Module, table: TableLayout) -> llvm.Function:
    pointer = target_of(module).pointer
    words = word_parameter_types(target_of(module), _word_count(table), preceding_count=1)
    function = llvm.Function(
        module, llvm.FunctionType(pointer, [pointer, *words]), f"find_{table.table.name}"
    )
    function.linkage = "internal"
    _Search(function, table).emit()
    return function


def _word_count(table: TableLayout) -> int:
    return table.field_words + table.bound_words // 2  # a range's value is as long as each of its two bounds


class _Search:
    """Search of groups and of their chains, both in order of descending rank, so that loops can end early."""

    def __init__(self, function: llvm.Function, table: TableLayout) -> None:
        self.table = table
        self.b = llvm.IRBuilder(function.append_basic_block("entry"))
        self.state, *arguments = function.args
        words = receive_words(self.b, arguments, _word_count(table), preceding_count=1)
        self.key, self.range_values = words[: table.field_words], words[table.field_words :]
        pointer = self.state.type
        self.best, self.record = Variable(self.b, pointer), Variable(self.b, pointer)
        self.best_rank, self.index = Variable(self.b, I64), Variable(self.b, I64)

    def emit(self) -> None:
        b, table = self.b, self.table
        group_count = b.load(word(b, self.state, table.header + GROUPS), typ=I64)
        with repeat_while(b, lambda: b.icmp_unsigned("<", self.index.get(), group_count)) as end_block:
            number, group = self._load_group()
            highest = b.load(word(b, group, table.group_rank), typ=I64)
            require(b, self._beats_best(highest), end_block)
            masked = [b.and_(part, b.load(word(b, group, i), typ=I64)) for i, part in enumerate(self.key)]
            self.record.set(call_find(b, self.state, table, [*masked, number]))
            self._follow_chain()
            self.index.set(b.add(self.index.get(), integer(WORD, 1)))
        b.ret(self.best.get())

    def _load_group(self) -> tuple[llvm.Value, llvm.Value]:
        b, table = self.b, self.table
        order_offset = b.add(integer(WORD, table.order), self.index.get())
        number = b.load(word(b, self.state, order_offset), typ=I64)
        offset = b.add(integer(WORD, table.groups), b.mul(number, integer(WORD, table.group_stride)))
        return number, word(b, self.state, offset)

    def _beats_best(self, rank: llvm.Value) -> llvm.Value:
        return self.b.icmp_unsigned(">", rank, self.best_rank.get())

    def _follow_chain(self) -> None:
        """Set `best` to the chain's first record whose ranges match, if its rank exceeds `best_rank`."""
        b, table = self.b, self.table
        with repeat_while(b, lambda: b.not_(is_null(b, self.record.get()))) as end_block:
            record = self.record.get()
            rank = b.load(word(b, record, table.rank), typ=I64)
            require(b, self._beats_best(rank), end_block)
            with b.if_then(self._matches_ranges(record)):
                self.best.set(record)
                self.best_rank.set(rank)
                b.branch(end_block)
            self.record.set(self._next_record(record))

    def _next_record(self, record: llvm.Value) -> llvm.Value:
        b, table = self.b, self.table
        link = b.load(word(b, record, table.link), typ=I64)
        address = record_address(b, index_at(b, self.state, table), link)
        is_last = b.icmp_unsigned("==", link, integer(WORD, 0))
        return b.select(is_last, null(address.type), address)

    def _matches_ranges(self, record: llvm.Value) -> llvm.Value:
        b, table = self.b, self.table
        matches: llvm.Value = integer(1, 1)
        bounds_offset, value_offset = table.bounds, 0
        for position in table.ranges:
            words = words_of(table.table.key[position].width)
            value = self._join(self.range_values[value_offset : value_offset + words])
            low, high = (
                self._join([b.load(word(b, record, first + i), typ=I64) for i in range(words)])
                for first in (bounds_offset, bounds_offset + words)
            )
            is_inside = b.and_(b.icmp_unsigned(">=", value, low), b.icmp_unsigned("<=", value, high))
            matches = b.and_(matches, is_inside)
            bounds_offset += 2 * words
            value_offset += words
        return matches

    def _join(self, words: list[llvm.Value]) -> llvm.Value:
        return join(self.b, [(part, WORD) for part in reversed(words)])
