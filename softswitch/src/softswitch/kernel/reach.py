"""How much of a frame a program can look at: what a front end has to copy for it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from softswitch import ir
from softswitch.codegen.parser import can_return
from softswitch.codegen.traffic import needs_queues


def reach(program: ir.Program) -> int | None:
    """Bytes from the front that the parser can reach; None where the whole frame is needed.

    It is for frames that are sent again, copied or summed up, and where the parser has loops over other
    things than the elements of a stack.
    """
    if needs_queues(program) or any(calculation.payload for calculation in program.calculations):
        return None
    total = sum(program.headers[h].most_bytes for stack in program.stacks for h in stack.headers)
    for number, state in enumerate(program.parser):
        size = 0
        for operation in state.operations:
            match operation:
                case ir.Extract(header=int(header)):
                    size += program.headers[header].most_bytes
                case ir.Advance(ir.Constant(bits)):
                    size += -(-bits // 8)
                case ir.Advance():
                    return None
        if size and can_return(program.parser, number):
            return None
        total += size
    return total + max(map(_bytes_ahead, program.parser), default=0)


def _bytes_ahead(part: object) -> int:
    """How far `lookahead` in a part of the parser looks beyond its position."""
    most = 0
    if isinstance(part, ir.Lookahead):
        most = -(-(part.offset + part.width) // 8)
    if isinstance(part, tuple | list):
        return max([most, *map(_bytes_ahead, part)])
    if is_dataclass(part):
        return max([most, *(_bytes_ahead(getattr(part, field.name)) for field in fields(part))])
    return most
