"""Run statements of actions. BMv2: simple_switch/primitives.cpp, core/primitives.cpp.

A failed `assert` or `assume`, at which BMv2 exits, drops the packet. An index of a counter,
meter or register is reduced modulo 2^32, as in BMv2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, TypeVar

from softswitch import ir
from softswitch.interpreter.calculations import calculate
from softswitch.interpreter.expressions import UINT32, UINT64, assign, evaluate, header_at
from softswitch.interpreter.externs import Externs
from softswitch.interpreter.packet import CloneRequest, Packet
from softswitch.limits import MAX_BACKWARD_JUMPS
from softswitch.messages import format_message
from softswitch.pipeline import LogRecord
from softswitch.v1model import CLONE_SESSIONS, DROP_PORT

T = TypeVar("T")


class PacketDropped(Exception):
    """Drops the packet at once, as after a failed assertion."""


def run(externs: Externs, packet: Packet, body: Sequence[ir.Statement]) -> None:
    """Run an action's body; `exit` takes effect at the end of the body, as in BMv2."""
    position = backward_jumps = 0
    while position < len(body):
        statement, statement_position = body[position], position
        position += 1
        match statement:
            case ir.Jump(target):
                position = target
            case ir.JumpIfZero(condition, target):
                value = evaluate(packet, condition)
                packet.observer.branched(packet, statement_position, value)
                position = position if value else target
            case ir.CountLoop(message):
                backward_jumps += 1
                if backward_jumps == MAX_BACKWARD_JUMPS:
                    _fail_assertion(externs, packet, message)
            case _:
                execute(externs, packet, statement)
                packet.observer.executed(packet, statement, statement_position)


def execute(externs: Externs, packet: Packet, statement: ir.Statement) -> None:
    match statement:
        case ir.Assign(target, value):
            assign(packet, target, evaluate(packet, value))
        case ir.If(condition, then_statement, else_statement):
            execute(externs, packet, then_statement if evaluate(packet, condition) else else_statement)
        case ir.Exit():
            packet.has_exited = True
        case (
            ir.AssignVarbit()
            | ir.AssignHeader()
            | ir.CopyCursor()
            | ir.SetValid()
            | ir.SetInvalid()
            | ir.Shift()
        ):
            _change_headers(packet, statement)
        case (
            ir.Count()
            | ir.ExecuteMeter()
            | ir.RegisterRead()
            | ir.RegisterWrite()
            | ir.Hash()
            | ir.Random()
            | ir.LogMessage()
            | ir.Assert()
        ):
            _call_extern(externs, packet, statement)
        case _:
            _record_request(packet, statement)


def _change_headers(packet: Packet, statement: ir.Statement) -> None:
    match statement:
        case ir.AssignVarbit(target, source):
            packet.copy_varbit(target, source)
        case ir.AssignHeader(target, source):
            target_header, source_header = header_at(packet, target), header_at(packet, source)
            if target_header is not None and source_header is not None:
                packet.copy_header(target_header, source_header)
        case ir.CopyCursor(to_cursor, from_cursor):
            packet.cursors[to_cursor] = packet.cursors[from_cursor]
        case ir.SetValid(ref):
            header = header_at(packet, ref)
            if header is not None:
                packet.add_header(header)
        case ir.SetInvalid(ref):
            header = header_at(packet, ref)
            if header is not None:
                packet.remove_header(header)
        case ir.Shift(stack_numbers, shift_count, sources, invalid_positions):
            stacks = [packet.program.stacks[number] for number in stack_numbers]
            for stack in stacks:
                packet.shift(stack, sources, invalid_positions)
            cursor = stacks[0].cursor
            packet.cursors[cursor] = min(max(packet.cursors[cursor] + shift_count, 0), len(sources))


def _call_extern(externs: Externs, packet: Packet, statement: ir.Statement) -> None:
    program = packet.program
    match statement:
        case ir.Count(counter, index):
            cell_index = evaluate(packet, index) & UINT32
            counters = externs.counters[counter]
            if cell_index < len(counters):
                count(counters[cell_index], packet)
            packet.observer.counted(
                packet, program.counters[counter].name, cell_index, _cell(counters, cell_index)
            )
        case ir.ExecuteMeter(meter, index, target):
            cell_index, colour = evaluate(packet, index) & UINT32, None
            if cell_index < len(externs.meters[meter]):
                amount = packet.ingress_length if program.meters[meter].counts_bytes else 1
                colour = externs.meters[meter][cell_index].execute(amount, externs.now)
                assign(packet, target, colour)
            packet.observer.metered(packet, program.meters[meter].name, cell_index, colour)
        case ir.RegisterRead(target, register, index):
            cell_index = evaluate(packet, index) & UINT32
            old_value = _cell(externs.registers[register], cell_index)
            packet.observer.read_register(packet, register, cell_index, old_value)
            if old_value is not None:
                assign(packet, target, old_value)
        case ir.RegisterWrite(register, index, value):
            cell_index = evaluate(packet, index) & UINT32
            new_value = evaluate(packet, value) & ((1 << program.registers[register].width) - 1)
            old_value = _cell(externs.registers[register], cell_index)
            if old_value is not None:
                externs.registers[register][cell_index] = new_value
            packet.observer.wrote_register(packet, register, cell_index, old_value, new_value)
        case ir.Hash(target, base, calculation, size):
            hash_value = calculate(packet, program.calculations[calculation])
            modulus = evaluate(packet, size) & UINT64 or 1
            assign(packet, target, (hash_value % modulus + evaluate(packet, base)) & UINT64)
        case ir.Random(target, low, high):
            minimum, maximum = evaluate(packet, low) & UINT64, evaluate(packet, high) & UINT64
            random_number = externs.random.draw(minimum, maximum) if minimum <= maximum else None
            packet.observer.drew(packet, minimum, maximum, random_number)
            if random_number is not None:
                assign(packet, target, random_number)
        case ir.LogMessage(message, values):
            text = format_message(program.messages[message], (evaluate(packet, v) for v in values))
            _notify(externs, packet, LogRecord(text))
        case ir.Assert(condition, message):
            if not evaluate(packet, condition):
                _fail_assertion(externs, packet, message)


def _fail_assertion(externs: Externs, packet: Packet, message: int) -> NoReturn:
    text = packet.program.messages[message]
    _notify(externs, packet, LogRecord(text, failed=True))
    raise PacketDropped(text)


def _notify(externs: Externs, packet: Packet, notice: LogRecord) -> None:
    externs.notices.append(notice)
    packet.observer.notified(packet, notice)


def _cell(cells: Sequence[T], index: int) -> T | None:
    return cells[index] if index < len(cells) else None


def _record_request(packet: Packet, statement: ir.Statement) -> None:
    match statement:
        case ir.MarkToDrop(egress_spec, mcast_grp):
            packet.set(egress_spec, DROP_PORT)
            if mcast_grp is not None:
                packet.set(mcast_grp, 0)
        case ir.Clone(session, field_list):
            packet.clone = CloneRequest(evaluate(packet, session) % CLONE_SESSIONS, field_list)
        case ir.Resubmit(field_list):
            packet.resubmit = field_list
        case ir.Recirculate(field_list):
            packet.recirculate = field_list
        case ir.Digest(field_list):
            packet.digest = field_list
        case ir.Truncate(length):
            packet.truncate(evaluate(packet, length) & UINT64)
        case unexpected:
            raise AssertionError(f"expected a statement, got {unexpected}")


def count(cell: list[int], packet: Packet) -> None:
    cell[0] += 1  # packets
    cell[1] += packet.ingress_length  # bytes
