"""Emit action profiles: from an entry's reference to a member's record, possibly through a group."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch.codegen.statements import ActionEmitter
from softswitch.llvmir import I64, integer, word
from softswitch.memory.layout import NO_ACTION, TableLayout, member_reference
from softswitch.memory.words import HALF, LOW_HALF_MASK, WORD
from softswitch.target import target_of


def emit_member(actions: ActionEmitter, table: TableLayout, record: llvm.Value) -> llvm.Value:
    """Return the address of a record's member (action, data), or of a constant `NO_ACTION` if it has none."""
    b = actions.b
    assert table.table.profile is not None
    layout = actions.layout.profiles[table.table.profile]
    reference = b.load(word(b, record, table.action), typ=I64)
    if layout.profile.selector is not None:
        reference = _select_member(actions, table.table.profile, reference)
    number = b.sub(reference, integer(WORD, member_reference(0)))
    offset = b.add(b.mul(number, integer(WORD, layout.stride)), integer(WORD, layout.members))
    # Without a member (reference 0) the offset is meaningless, and the address is not selected.
    is_none = b.icmp_unsigned("==", reference, integer(WORD, 0))
    return b.select(
        is_none,
        target_of(b.module).constant(b, "no_action", [NO_ACTION], WORD),
        word(b, actions.state, offset),
    )


def _select_member(actions: ActionEmitter, number: int, reference: llvm.Value) -> llvm.Value:
    b = actions.b
    layout = actions.layout.profiles[number]
    assert layout.profile.selector is not None
    entry_block = b.block
    is_group = b.icmp_signed("<", reference, integer(WORD, 0))  # `SELECTOR_GROUP` is the sign bit
    group_block, nonempty_block, end_block = (
        b.append_basic_block(name) for name in ("group", "some", "chosen")
    )
    b.cbranch(is_group, group_block, end_block)
    b.position_at_end(group_block)
    low_mask = integer(WORD, LOW_HALF_MASK)
    run_offset = b.add(b.and_(reference, low_mask), integer(WORD, layout.groups))
    run = b.load(word(b, actions.state, run_offset), typ=I64)
    count = b.and_(run, low_mask)
    b.cbranch(b.icmp_unsigned("==", count, integer(WORD, 0)), end_block, nonempty_block)
    b.position_at_end(nonempty_block)
    hash_value = actions.externs.calculations.emit(layout.profile.selector)
    position = b.add(b.lshr(run, integer(WORD, HALF)), b.urem(hash_value, count))
    member = b.load(word(b, actions.state, b.add(position, integer(WORD, layout.pool))), typ=I64)
    nonempty_block = b.block
    b.branch(end_block)
    b.position_at_end(end_block)
    result = b.phi(I64)
    for value, block in ((reference, entry_block), (integer(WORD, 0), group_block), (member, nonempty_block)):
        result.add_incoming(value, block)
    return result
