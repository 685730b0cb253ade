"""Lowering of the methods of packets."""

from __future__ import annotations

from softswitch import ir
from softswitch.p4 import arithmetic, operands, tree, types
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.extern_arguments import argument_of, lower_number
from softswitch.p4.frames import Frame
from softswitch.p4.lower_expressions import lower
from softswitch.p4.operand_copies import saved
from softswitch.p4.operand_values import element_types, parts_of
from softswitch.p4.operands import Operand, Scalar
from softswitch.p4.scopes import CallTarget
from softswitch.v1model import VARBIT_BITS_WIDTH


def lower_packet_method(call: tree.Call, target: CallTarget, frame: Frame) -> Operand | None:
    if frame.body != "parser":
        return emit_header(call, target, frame)
    match target.name:
        case "extract":
            _extract(call, target, frame)
            return None
        case "lookahead":
            [variable] = target.substitution
            given = types.substitute(target.substitution[variable], frame.substitution)
            return _ahead(given, 0, frame, call)[0]
        case "advance":
            frame.emit(ir.Advance(lower_number(target, "sizeInBits", frame)), call.position)
            return None
    raise SourceError(call, f"`{target.name}` of a packet is not supported by BMv2 and softswitch")


def _extract(call: tree.Call, target: CallTarget, frame: Frame) -> None:
    argument = target.arguments[0]
    assert argument is not None
    header, stack = _extracted(argument.value, call, target, frame)
    if len(target.arguments) == 1:
        frame.emit(ir.Extract(header, stack), call.position)
        return
    bits = lower_number(target, "variableFieldSizeInBits", frame)
    index = header if header is not None else frame.storage.stacks[stack or 0].headers[0]
    max_bytes = sum(each.width for each in frame.storage.layouts[index].fields) // 8
    length = ir.Cast(ir.Fit.SATURATE_SIGNED, bits, VARBIT_BITS_WIDTH)
    frame.emit(ir.Extract(header, stack, length, max_bytes), call.position)


def _extracted(
    expression: tree.Expression | None, call: tree.Call, target: CallTarget, frame: Frame
) -> tuple[int | None, int | None]:
    """Return the header, or the stack, to which a header is extracted."""
    if expression is None:
        [variable] = target.substitution
        given = types.substitute(target.substitution[variable], frame.substitution)
        operand: Operand = frame.storage.make(given, "_", call)
    else:
        operand = lower(expression, frame)
    match operand:
        case operands.Header(reference) if isinstance(reference, int):
            return reference, None
        case operands.Header(ir.Element(stack, index)) if not isinstance(index, ir.LastIndex):
            if is_next(expression):
                return None, stack
    raise SourceError(call, "expected a header, or the next element of a stack, to extract")


def is_next(expression: tree.Expression | None) -> bool:
    """Return whether an expression is the next element of a stack, or a member of the next union."""
    if isinstance(expression, tree.Member):
        return expression.name == "next" or is_next(expression.base)
    return False


def _ahead(given: types.Type, offset: int, frame: Frame, call: tree.Call) -> tuple[Operand, int]:
    """Return a value that is in the packet, `offset` bits after its position, and where it ends."""
    base = types.base_of(given)
    if not isinstance(base, types.Struct | types.Tuple | types.Stack):
        width = frame.storage.field_type(given, "", call).width
        value: ir.Expression = ir.Lookahead(offset, width)
        bits = types.representation(given)
        if isinstance(bits, types.Bits) and bits.signed:
            value = arithmetic.wrapped(saved(Scalar(value, types.Bits(width)), frame, call), bits)
        return Scalar(value, given), offset + width
    parts: dict[str, Operand] = {}
    for name, kind in element_types(base, frame, getattr(base, "size", 0), call):
        parts[name], offset = _ahead(kind, offset, frame, call)
    made = operands.HeaderValue(parts, given) if types.is_header(base) else operands.Struct(parts, given)
    return made, offset


def emit_header(call: tree.Call, target: CallTarget, frame: Frame) -> Operand | None:
    if frame.body != "deparser" or target.name != "emit":
        raise SourceError(call, f"expected `{target.name}` of a packet in a parser or deparser")
    expression = argument_of(target, "hdr")
    assert expression is not None
    _emit_operand(lower(expression, frame), frame, call)
    return None


def _emit_operand(operand: Operand, frame: Frame, call: tree.Call) -> None:
    match operand:
        case operands.Header(reference) if isinstance(reference, int):
            frame.state.emitted.append(reference)
        case operands.Struct() | operands.Stack() | operands.Union():
            for part in parts_of(operand, frame, call):
                if not isinstance(part, Scalar):
                    _emit_operand(part, frame, call)
        case _:
            raise SourceError(call, "expected a header to emit")
