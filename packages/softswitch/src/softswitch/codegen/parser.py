"""Emit the parser: a state is a basic block; on an error, headers extracted so far stay valid."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import astuple
from typing import NamedTuple

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.loops import OpaqueVariable
from softswitch.codegen.packet import Instance
from softswitch.codegen.statements import ActionEmitter
from softswitch.codegen.wire import join, split
from softswitch.errors import add_location
from softswitch.limits import MAX_PARSER_STEPS
from softswitch.llvmir import I32, I64, byte_offset, integer, resize, word
from softswitch.memory.words import WORD
from softswitch.target import target_of
from softswitch.v1model import CoreError, Standard


def emit_parser(actions: ActionEmitter) -> None:
    """Emit the parser, which moves the cursor to the first unparsed byte and sets `parser_error`."""
    _ParserEmitter(actions).emit()


_LOOP_SCALARS = ("frame", "ingress_length", "cursor")


class _LoopSlots(NamedTuple):
    """The slots that a state reads and changes each time that it goes on to itself, except the cursor."""

    fields: tuple[ir.FieldRef, ...]
    stacks: frozenset[int]


class _ParserEmitter:
    def __init__(self, actions: ActionEmitter) -> None:
        self.actions = actions
        self.packet, self.b = actions.packet, actions.b
        self.steps: OpaqueVariable | None = None
        self._store_registers: Callable[[], None] | None = None
        self.program = self.packet.program
        self.end_block = self.b.append_basic_block("parsed")
        self.accept_block = self.b.append_basic_block("accept")
        self.error_block = self.b.append_basic_block("parser_error")
        no_error = integer(32, self.program.errors[CoreError.NO_ERROR.value])
        with self.b.goto_block(self.accept_block):
            self._end(no_error)
        with self.b.goto_block(self.error_block):
            self.error_code = self.b.phi(I32, name="error_code")
            self._end(self.error_code)

    def _end(self, error_code: llvm.Value) -> None:
        # Each pass stores a code, also that of NoError: it is not 0 in every program.
        self.packet.store_standard(Standard.PARSER_ERROR, error_code)
        self.b.branch(self.end_block)

    def emit(self) -> None:
        b = self.b
        states = self.program.parser
        blocks = [b.append_basic_block(f"parse_{state.name}") for state in states]
        if _may_exceed(states, self.program.stacks, MAX_PARSER_STEPS):
            self.steps = OpaqueVariable(b, I32, name="steps")
        b.branch(blocks[self.program.start_state])
        for number, block in enumerate(blocks):
            b.position_at_end(block)
            loop = _loop_slots(states, number) if self.packet.in_struct else None
            if loop is None:
                self._emit_state(number, blocks)
            else:
                self._emit_loop(number, blocks, loop)
        b.position_at_end(self.end_block)

    def _emit_loop(self, number: int, blocks: list[llvm.Block], slots: _LoopSlots) -> None:
        """Emit a state that goes on to itself; what it changes each time is in registers meanwhile."""
        b = self.b
        head = b.append_basic_block(f"repeat_{self.program.parser[number].name}")
        cursors = {self.program.stacks[stack].cursor for stack in slots.stacks}
        with self.packet.in_registers(slots.fields, cursors, _LOOP_SCALARS) as store:
            b.branch(head)
            b.position_at_end(head)
            self._store_registers = store
            self._emit_state(number, [*blocks[:number], head, *blocks[number + 1 :]])
            self._store_registers = None

    def _emit_state(self, number: int, blocks: list[llvm.Block]) -> None:
        state = self.program.parser[number]
        if is_in_cycle(self.program.parser, number):
            target_of(self.b.module).loop_guard(self.b)
        if self.steps is not None:
            self._count_step(self.steps)
        self.packet.too_short_block = self._append_failure_block(CoreError.PACKET_TOO_SHORT)
        with add_location(f"parser state {state.name}"):
            for operation in state.operations:
                self._emit_operation(operation)
        self._emit_select(number, blocks)

    def _leave_loop(self, target: llvm.Block) -> llvm.Block:
        """Return the block through which a state branches to another one, or to the end."""
        if self._store_registers is None:
            return target
        block = self.b.append_basic_block("left")
        with self.b.goto_block(block):
            self._store_registers()
            self.b.branch(target)
        return block

    def _count_step(self, steps: OpaqueVariable) -> None:
        b = self.b
        count = b.add(steps.get(), integer(32, 1))
        steps.set(count)
        is_allowed = b.icmp_unsigned("<=", count, integer(32, MAX_PARSER_STEPS))
        self.packet.require(is_allowed, self._leave_loop(self.accept_block))

    def _append_failure_block(self, error: CoreError) -> llvm.Block:
        return self._append_stop_block(integer(32, self.program.errors[error.value]))

    def _append_stop_block(self, code: llvm.Value) -> llvm.Block:
        block = self.b.append_basic_block("stop")
        with self.b.goto_block(block):
            if self._store_registers is not None:
                self._store_registers()
            self.b.branch(self.error_block)
        self.error_code.add_incoming(code, block)
        return block

    # -- operations

    def _emit_operation(self, operation: ir.Extract | ir.Advance | ir.Verify | ir.Statement) -> None:
        match operation:
            case ir.Extract():
                self._extract(operation)
            case ir.Advance(bits):
                self._advance(self._to_bytes(self.packet.arithmetic.exact_modulo(bits, 64)))
            case ir.Verify(condition, error):
                code = self.packet.arithmetic.modulo(error, 32)
                self.packet.require(self.packet.arithmetic.truth(condition), self._append_stop_block(code))
            case statement:
                self.actions.emit_statement(statement)

    def _to_bytes(self, bits: llvm.Value) -> llvm.Value:
        """Convert bits to bytes, or end with PARSER_INVALID_ARGUMENT if they are not whole bytes."""
        width = max(bits.type.width, 8)  # so that the constant 7 fits
        bits = resize(self.b, bits, width)
        remainder = self.b.and_(bits, integer(width, 7))  # bits modulo 8
        is_whole = self.b.icmp_unsigned("==", remainder, integer(width, 0))
        self.packet.require(is_whole, self._append_failure_block(CoreError.PARSER_INVALID_ARGUMENT))
        return self.b.lshr(bits, integer(width, 3))  # bits divided by 8

    def _advance(self, size: llvm.Value) -> llvm.Value:
        b, packet = self.b, self.packet
        assert packet.too_short_block is not None
        cursor = packet.get("cursor")
        remaining = b.sub(packet.get("ingress_length"), cursor)
        width = max(size.type.width, 32)
        is_there = b.icmp_unsigned(">=", resize(b, remaining, width), resize(b, size, width))
        packet.require(is_there, packet.too_short_block)
        packet.set("cursor", b.add(cursor, resize(b, size, 32)))
        return byte_offset(b, packet.get("frame"), b.zext(cursor, I64))

    def _extract(self, extract: ir.Extract) -> None:
        if extract.stack is None:
            assert extract.header is not None
            self._extract_instance(self.packet.instance(extract.header), extract)
            return
        b, packet = self.b, self.packet
        stack = self.program.stacks[extract.stack]
        index = packet.next_index(stack.cursor)
        is_in_stack = b.icmp_unsigned("<", index, integer(32, len(stack.headers)))
        packet.require(is_in_stack, self._append_failure_block(CoreError.STACK_OUT_OF_BOUNDS))
        self._extract_instance(Instance(stack.headers[0], extract.stack, index), extract)
        packet.set_next_index(stack.cursor, b.add(index, integer(32, 1)))

    def _extract_instance(self, instance: Instance, extract: ir.Extract) -> None:
        b, packet = self.b, self.packet
        fixed = integer(32, self.program.headers[instance.header].bits // 8)
        if extract.varbit_bits is None:
            packet.extract(instance, self._advance(fixed))
            return
        # As an unsigned number, a negative length is larger than any packet.
        varbit = self._to_bytes(self.packet.arithmetic.modulo(extract.varbit_bits, 32))
        # As in BMv2, `header_bytes` includes the varbit field's previous width, which is 0 unless the header
        # was extracted before.
        total_bytes = b.add(packet.header_bytes(instance), varbit)
        assert packet.too_short_block is not None
        remaining = b.sub(packet.get("ingress_length"), packet.get("cursor"))
        packet.require(b.icmp_unsigned(">=", remaining, total_bytes), packet.too_short_block)
        fits = b.icmp_unsigned("<=", total_bytes, integer(32, extract.max_bytes))
        packet.require(fits, self._append_failure_block(CoreError.HEADER_TOO_SHORT))
        packet.extract(instance, self._advance(b.add(fixed, varbit)), varbit)

    # -- select

    def _emit_select(self, number: int, blocks: list[llvm.Block]) -> None:
        b, state = self.b, self.program.parser[number]
        parts = [self._key_part(part) for part in state.key]
        bits = sum(width for _, width in parts)
        key = join(b, parts) if parts else None
        for case in state.cases:
            target = self.accept_block if case.state is None else blocks[case.state]
            if case.state != number:
                target = self._leave_loop(target)
            if key is None or (case.mask == 0 and case.value_set is None):
                b.branch(target)
                return
            masked = b.and_(key, integer(bits, case.mask))
            if case.value_set is None:
                matches = b.icmp_unsigned("==", masked, integer(bits, case.value))
            else:
                matches = self._is_member(case.value_set, masked, case.mask)
            otherwise = b.append_basic_block()
            b.cbranch(matches, target, otherwise)
            b.position_at_end(otherwise)
        b.branch(self._leave_loop(self.accept_block))

    def _key_part(self, part: ir.KeyPart) -> tuple[llvm.Value, int]:
        """Return a part of the key, and its width padded to whole bytes as in BMv2."""
        if isinstance(part, ir.Lookahead):
            return self.packet.lookahead(part.offset, part.width), ir.padded_width(part.width)
        return self.packet.load(part), ir.padded_width(self.program.width(part))

    def _is_member(self, number: int, key: llvm.Value, mask: int) -> llvm.Value:
        b, layout = self.b, self.actions.layout
        words = layout.value_words[number]
        base = word(b, self.actions.state, layout.value_sets[number])
        count = b.load(base, typ=I64)
        key_words = split(b, key)
        masks = [mask >> (WORD * i) & ((1 << WORD) - 1) for i in range(words)]
        entry_block = b.block
        probe, compare, end_block = (b.append_basic_block(name) for name in ("probe", "compare", "searched"))
        b.branch(probe)
        b.position_at_end(probe)
        index = b.phi(I64)
        index.add_incoming(integer(64, 0), entry_block)
        target_of(b.module).loop_guard(b)
        probe_end = b.block
        b.cbranch(b.icmp_unsigned("<", index, count), compare, end_block)
        b.position_at_end(compare)
        is_equal: llvm.Value = integer(1, 1)
        # Word 0 of a value set is the number of its members, which follow.
        member = word(b, base, b.add(b.mul(index, integer(64, words)), integer(64, 1)))
        for i in range(words):
            stored = b.and_(b.load(word(b, member, i), typ=I64), integer(64, masks[i]))
            is_equal = b.and_(is_equal, b.icmp_unsigned("==", stored, key_words[i]))
        index.add_incoming(b.add(index, integer(64, 1)), compare)
        b.cbranch(is_equal, end_block, probe)
        b.position_at_end(end_block)
        is_found = b.phi(llvm.IntType(1))
        is_found.add_incoming(integer(1, 0), probe_end)
        is_found.add_incoming(integer(1, 1), compare)
        return is_found


def _loop_slots(states: tuple[ir.ParserState, ...], number: int) -> _LoopSlots | None:
    """Return the slots of a state that goes on to itself; None for others, and for unusual operations."""
    state = states[number]
    if all(case.state != number for case in state.cases):
        return None
    fields, stacks = {each for each in state.key if isinstance(each, ir.FieldRef)}, set[int]()
    for operation in state.operations:
        match operation:
            case ir.Extract(header=None, stack=int(stack), varbit_bits=None):
                stacks.add(stack)
            case ir.Assign(target=ir.FieldRef() as field):
                fields.add(field)
            case _:
                return None
    return _LoopSlots(tuple(sorted(fields, key=astuple)), frozenset(stacks))


def _may_exceed(states: tuple[ir.ParserState, ...], stacks: tuple[ir.Stack, ...], steps: int) -> bool:
    """Return whether a packet may visit more than `steps` states; otherwise they need not be counted."""
    # Each extraction into a stack takes an element, unless others move the stack's position. So between two
    # extractions no state is visited twice, if each cycle has one.
    operations = [each for state in states for each in state.operations]
    moves_positions = any(isinstance(each, ir.Shift | ir.CopyCursor) for each in operations)
    taking = {
        number
        for number, state in enumerate(states)
        if not moves_positions and any(map(_takes_element, state.operations))
    }
    if any(is_in_cycle(states, number, taking) for number in range(len(states))):
        return True
    elements = sum(len(stack.headers) for stack in stacks)
    return (elements + 2) * len(states) > steps


def _takes_element(operation: object) -> bool:
    return isinstance(operation, ir.Extract) and operation.stack is not None


def is_in_cycle(states: tuple[ir.ParserState, ...], start: int, without: Collection[int] = ()) -> bool:
    """Return whether a state can come again, by others than those of `without`."""
    visited: set[int] = set(without)
    pending = [] if start in visited else [start]
    while pending:
        for case in states[pending.pop()].cases:
            if case.state == start:
                return True
            if case.state is not None and case.state not in visited:
                visited.add(case.state)
                pending.append(case.state)
    return False
