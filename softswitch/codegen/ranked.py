"""Look-up with prefix, ternary, optional and range matches: a hash look-up a group of masks (`layout`)."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch.codegen.layout import WORD, TableLayout, words_of
from softswitch.codegen.tables import I64, POINTER, call_find, is_null, word
from softswitch.codegen.values import integer
from softswitch.codegen.wire import join


def ranked_function(module: llvm.Module, table: TableLayout) -> llvm.Function:
    """`find(state, key words..., range values...)`: the matching record of the highest rank, or null.

    Groups come by falling rank, so the search ends where no later group can win.
    """
    name = f"find_{table.table.name}"
    values = table.bound_words // 2
    kind = llvm.FunctionType(POINTER, [POINTER] + [I64] * (table.field_words + values))
    function = llvm.Function(module, kind, name)
    function.linkage = "internal"
    state, *arguments = function.args
    key, ranged = arguments[: table.field_words], arguments[table.field_words :]
    b = llvm.IRBuilder(function.append_basic_block("entry"))
    labels = ("next_group", "group", "chain", "better", "take", "done")
    next_group, try_group, chain, better, take, done = map(function.append_basic_block, labels)
    null = llvm.Constant(POINTER, None)
    groups = b.load(word(b, state, table.header + 3), typ=I64)
    entry = b.block
    b.branch(next_group)

    b.position_at_end(next_group)
    index, best, best_rank = b.phi(I64), b.phi(POINTER), b.phi(I64)
    for phi, value in ((index, integer(WORD, 0)), (best, null), (best_rank, integer(WORD, 0))):
        phi.add_incoming(value, entry)
    ordered = b.append_basic_block("ordered")
    b.cbranch(b.icmp_unsigned("<", index, groups), ordered, done)

    b.position_at_end(ordered)
    number = b.load(word(b, state, b.add(integer(WORD, table.order), index)), typ=I64)
    offset = b.add(integer(WORD, table.groups), b.mul(number, integer(WORD, table.group_stride)))
    group = word(b, state, offset)
    highest = b.load(word(b, group, table.field_words), typ=I64)
    b.cbranch(b.icmp_unsigned(">", highest, best_rank), try_group, done)

    b.position_at_end(try_group)
    masked = [b.and_(part, b.load(word(b, group, i), typ=I64)) for i, part in enumerate(key)]
    first = call_find(b, state, table, [*masked, number])
    found_in = b.block
    b.branch(chain)

    b.position_at_end(chain)
    record = b.phi(POINTER)
    record.add_incoming(first, found_in)
    following = b.append_basic_block("following")
    b.cbranch(is_null(b, record), following, better)

    b.position_at_end(better)
    rank = b.load(word(b, record, table.rank), typ=I64)
    within = _is_within(b, record, table, ranged)
    inspect = b.append_basic_block("inspect")
    b.cbranch(b.icmp_unsigned(">", rank, best_rank), inspect, following)
    b.position_at_end(inspect)
    step = b.append_basic_block("step")
    b.cbranch(within, take, step)

    b.position_at_end(step)
    link = b.load(word(b, record, table.rank + 1), typ=I64)
    offset = b.mul(b.sub(link, integer(WORD, 1)), integer(WORD, table.stride))
    at = b.add(integer(WORD, table.records), offset)
    linked = b.select(b.icmp_unsigned("==", link, integer(WORD, 0)), null, word(b, state, at))
    record.add_incoming(linked, step)
    b.branch(chain)

    b.position_at_end(take)
    b.branch(following)
    b.position_at_end(following)
    won, won_rank = b.phi(POINTER), b.phi(I64)
    for block in (chain, better):
        won.add_incoming(best, block)
        won_rank.add_incoming(best_rank, block)
    won.add_incoming(record, take)
    won_rank.add_incoming(rank, take)
    index.add_incoming(b.add(index, integer(WORD, 1)), following)
    best.add_incoming(won, following)
    best_rank.add_incoming(won_rank, following)
    b.branch(next_group)

    b.position_at_end(done)
    b.ret(best)
    return function


def _is_within(
    b: llvm.IRBuilder, record: llvm.Value, table: TableLayout, values: list[llvm.Value]
) -> llvm.Value:
    """An `i1`: do all range fields lie within the record's bounds?"""
    within: llvm.Value = integer(1, 1)
    at = table.bounds
    taken = 0
    for position in table.ranges:
        words = words_of(table.table.key[position].width)
        value = _joined(b, values[taken : taken + words])
        low, high = (
            _joined(b, [b.load(word(b, record, at + side * words + i), typ=I64) for i in range(words)])
            for side in (0, 1)
        )
        inside = b.and_(b.icmp_unsigned(">=", value, low), b.icmp_unsigned("<=", value, high))
        within = b.and_(within, inside)
        at += 2 * words
        taken += words
    return within


def _joined(b: llvm.IRBuilder, words: list[llvm.Value]) -> llvm.Value:
    """The inverse of `split`."""
    return join(b, [(part, WORD) for part in reversed(words)])
