"""Lowering of v1model's externs: its functions, and the methods of its objects."""

from __future__ import annotations

from collections.abc import Callable

from softswitch import ir
from softswitch.messages import PLACEHOLDER, pluralize
from softswitch.p4 import operands, tree, types
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.extern_arguments import (
    argument_of,
    lower_data,
    lower_number,
    lower_output,
    member_name,
    parameter_type,
)
from softswitch.p4.frames import Frame
from softswitch.p4.lower_assignments import assign_to
from softswitch.p4.lower_expressions import lower
from softswitch.p4.lower_packet import lower_packet_method
from softswitch.p4.lowering_state import FieldValue, LoweringState
from softswitch.p4.objects import CallableObject, ExternObject
from softswitch.p4.operand_values import constant_operand, element_types, flattened, parts_of
from softswitch.p4.operands import Operand, Scalar
from softswitch.p4.p4info_annotations import expression_values
from softswitch.p4.scopes import CallTarget
from softswitch.p4.unify import fields_of
from softswitch.v1model import Standard


def lower_function(call: tree.Call, target: CallTarget, frame: Frame) -> Operand | None:
    function = _FUNCTIONS.get(target.name)
    if function is None:
        raise SourceError(call, f"the function `{target.name}` is not supported by softswitch")
    return function(call, target, frame)


def lower_method(
    call: tree.Call, target: CallTarget, found: CallableObject | ExternObject | None, frame: Frame
) -> Operand | None:
    if found is None:
        return lower_packet_method(call, target, frame)
    if not isinstance(found, ExternObject):
        raise SourceError(call, "expected an instance of an extern")
    method = _METHODS.get((found.kind, target.name))
    if method is None:
        raise SourceError(call, f"`{target.name}` of the extern {found.kind} is not supported by softswitch")
    return method(call, target, found, frame)


# -- lists of fields


def preserved_list(number: int, frame: Frame, node: tree.Node) -> int:
    """Return the list of the metadata fields with `@field_list(number)`."""
    if number not in frame.state.preserved:
        values = _annotated(*frame.state.metadata, number, frame, node) if frame.state.metadata else []
        # BMv2 takes the number 0 for no list, so that the number of the source is not taken over.
        frame.state.preserved[number] = frame.state.add_field_list(list(values))
    return frame.state.preserved[number]


def _annotated(
    given: types.Type, operand: Operand, number: int, frame: Frame, node: tree.Node
) -> list[FieldValue]:
    base = types.base_of(given)
    if not isinstance(base, types.Struct) or not isinstance(operand, operands.Struct):
        return []
    found: list[FieldValue] = []
    kinds = fields_of(base, frame.facts)
    for field in base.declaration.fields:
        part = operand.fields[field.name]
        annotations = [each for each in field.annotations if each.name == "field_list"]
        if any(number in expression_values(each, frame.facts) for each in annotations):
            expressions = [each.expression for each in flattened(part, frame, node)]
            found += [each for each in expressions if isinstance(each, ir.FieldRef)]
        else:
            found += _annotated(kinds[field.name], part, number, frame, node)
    return found


# -- functions


def _mark_to_drop(call: tree.Call, target: CallTarget, frame: Frame) -> None:
    expression = argument_of(target, "standard_metadata")
    names = [Standard.EGRESS_SPEC.value, Standard.MCAST_GRP.value]
    refs: list[ir.Expression] = [frame.state.standard[name] for name in names]
    if expression is not None and isinstance(operand := lower(expression, frame), operands.Struct):
        parts = [operand.fields[name] for name in names]
        refs = [each.expression for each in parts if isinstance(each, Scalar)]
    [spec, group] = [each for each in refs if isinstance(each, ir.FieldRef)]
    frame.emit(ir.MarkToDrop(spec, group), call.position)


def _hash(call: tree.Call, target: CallTarget, frame: Frame) -> None:
    algorithm = member_name(target, "algo", frame)
    base = lower_number(target, "base", frame)
    inputs = lower_data(target, "data", frame, call)
    size = lower_number(target, "max", frame)
    index = frame.state.add_calculation(f"$calc_{len(frame.state.calculations)}", algorithm, inputs, call)
    lower_output(call, target, frame, lambda place: ir.Hash(place, base, index, size))


def _random(call: tree.Call, target: CallTarget, frame: Frame) -> None:
    low, high = (lower_number(target, name, frame) for name in ("lo", "hi"))
    lower_output(call, target, frame, lambda place: ir.Random(place, low, high))


def _digest(call: tree.Call, target: CallTarget, frame: Frame) -> None:
    expression = argument_of(target, "data")
    assert expression is not None
    given = types.base_of(parameter_type(target, "data", frame))
    values = lower_data(target, "data", frame, call)
    name = str(given) if isinstance(given, types.Struct) else f"digest_{len(frame.state.digests)}"
    known = [
        i for i, each in enumerate(frame.state.digests) if each.name == name and each.values == tuple(values)
    ]
    if known:
        frame.emit(ir.Digest(known[0]), call.position)
        return
    frame.state.digests.append(ir.FieldList(len(frame.state.digests) + 1, name, tuple(values)))
    frame.state.digest_types.append((given, call))
    frame.emit(ir.Digest(len(frame.state.digests) - 1), call.position)


def _clone(call: tree.Call, target: CallTarget, frame: Frame) -> None:
    member_name(target, "type", frame)
    session = lower_number(target, "session", frame)
    if target.name == "clone_preserving_field_list":
        fields = _preserved_of(call, target, frame)
    elif target.name == "clone3":
        fields = frame.state.add_field_list(lower_data(target, "data", frame, call))
    else:
        fields = _empty_list(frame.state)
    frame.emit(ir.Clone(session, fields), call.position)


def _preserved_of(call: tree.Call, target: CallTarget, frame: Frame) -> int:
    expression = argument_of(target, "index")
    assert expression is not None
    return preserved_list(frame.evaluator.integer(expression), frame, call)


def _empty_list(state: LoweringState) -> int:
    for i, each in enumerate(state.field_lists):
        if not each.values and i not in state.preserved.values():
            return i
    return state.add_field_list([])


def _repeat(call: tree.Call, target: CallTarget, frame: Frame) -> None:
    """Lower the functions that process a packet again."""
    is_preserving = target.name.endswith("preserving_field_list")
    if is_preserving:
        fields = _preserved_of(call, target, frame)
    else:
        fields = frame.state.add_field_list(lower_data(target, "data", frame, call))
    made = ir.Resubmit if target.name.startswith("resubmit") else ir.Recirculate
    frame.emit(made(fields), call.position)


def _truncate(call: tree.Call, target: CallTarget, frame: Frame) -> None:
    frame.emit(ir.Truncate(lower_number(target, "length", frame)), call.position)


def _check(call: tree.Call, target: CallTarget, frame: Frame) -> None:
    message = f"{target.name} failed ({call.position.place}): the packet is dropped"
    condition = lower_number(target, "check", frame)
    frame.emit(ir.Assert(condition, frame.state.add_message(message)), call.position)


def _log(call: tree.Call, target: CallTarget, frame: Frame) -> None:
    expression = argument_of(target, "msg")
    text = frame.evaluator.value(expression) if expression is not None else None
    if not isinstance(text, str):
        raise SourceError(call, "expected a string as the message, known when compiling")
    values: tuple[ir.Expression, ...] = ()
    if (data := argument_of(target, "data")) is not None:
        wanted = parameter_type(target, "data", frame)
        operand = lower(data, frame, wanted)
        values = tuple(each.expression for each in flattened(operand, frame, call))
        if not isinstance(operand, Scalar):
            shown = iter(_placeholder(part, frame, call) for part in parts_of(operand, frame, call))
            text = PLACEHOLDER.sub(lambda found: next(shown, found[0]), text)
    placeholders = len(PLACEHOLDER.findall(text))
    if placeholders != len(values):
        given = f"the message has {placeholders} `{{}}` for {pluralize(len(values), 'value')}"
        frame.state.sources.warn(call.position, f"{given}, at which BMv2 ends")
    frame.emit(ir.LogMessage(frame.state.add_message(text), values), call.position)


def _placeholder(operand: Operand, frame: Frame, node: tree.Node) -> str:
    """Return what shows an operand in a message; that of a header is such as `(length:{},kind:{})`."""
    if isinstance(operand, Scalar):
        return "{}"
    parts = parts_of(operand, frame, node)
    given = types.base_of(operand.type) if not isinstance(operand, operands.Text) else types.UNKNOWN
    names = [name for name, _ in element_types(given, frame, len(parts), node)]
    shown = (_placeholder(part, frame, node) for part in parts)
    return f"({','.join(f'{name}:{text}' for name, text in zip(names, shown, strict=True))})"


def _verify(call: tree.Call, target: CallTarget, frame: Frame) -> None:
    if frame.body != "parser":
        raise SourceError(call, "expected `verify` in a parser")
    condition, error = (lower_number(target, name, frame) for name in ("check", "toSignal"))
    frame.emit(ir.Verify(condition, error), call.position)


def _static_assert(call: tree.Call, _target: CallTarget, frame: Frame) -> Operand:
    return constant_operand(bool(frame.evaluator.value(call)), frame, types.BOOL, call)


# -- methods


def _count(call: tree.Call, target: CallTarget, found: ExternObject, frame: Frame) -> None:
    frame.emit(
        ir.Count(number_of(frame.state.counters, found), lower_number(target, "index", frame)), call.position
    )


def _count_directly(*_arguments: object) -> None:
    """Do nothing: a table counts its hits by itself."""


def _execute_meter(call: tree.Call, target: CallTarget, found: ExternObject, frame: Frame) -> None:
    index, meter = lower_number(target, "index", frame), number_of(frame.state.meters, found)
    lower_output(call, target, frame, lambda place: ir.ExecuteMeter(meter, index, place))


def _read_meter(call: tree.Call, target: CallTarget, found: ExternObject, frame: Frame) -> None:
    """Lower a read of a direct meter: the table stores the colour before its action runs."""
    colour = frame.direct_meters.get(found)
    if colour is None and _has_table(found, frame):
        text = f"a table without the direct meter {found.path} runs this action, and reads no colour"
        frame.state.sources.warn(call.position, text)
        return
    if colour is None:
        raise SourceError(
            call, f"expected the direct meter of the table that runs this action, got {found.path}"
        )
    expression = argument_of(target, "result")
    assert expression is not None
    wanted = parameter_type(target, "result", frame)
    assign_to(expression, Scalar(colour, wanted), frame)


def _has_table(meter: ExternObject, frame: Frame) -> bool:
    """Return whether a table of the control around has a direct meter."""
    declaration = frame.owner.declaration
    tables = declaration.locals if isinstance(declaration, tree.Control) else ()
    meters = [
        each.properties["meters"]
        for each in tables
        if isinstance(each, tree.Table) and "meters" in each.properties
    ]
    return any(frame.facts.references.get(each.value) is meter.node for each in meters)


def _read_register(call: tree.Call, target: CallTarget, found: ExternObject, frame: Frame) -> None:
    index, register = lower_number(target, "index", frame), number_of(frame.state.registers, found)
    lower_output(call, target, frame, lambda place: ir.RegisterRead(place, register, index))


def _write_register(call: tree.Call, target: CallTarget, found: ExternObject, frame: Frame) -> None:
    index, value = lower_number(target, "index", frame), lower_number(target, "value", frame)
    frame.emit(ir.RegisterWrite(number_of(frame.state.registers, found), index, value), call.position)


def number_of(numbers: dict[ExternObject, int], found: ExternObject) -> int:
    """Return the number of an object; one that a call makes gets the next."""
    return numbers.setdefault(found, len(numbers))


_FUNCTIONS: dict[str, Callable[..., Operand | None]] = {
    "mark_to_drop": _mark_to_drop,
    "hash": _hash,
    "random": _random,
    "digest": _digest,
    "clone": _clone,
    "clone3": _clone,
    "clone_preserving_field_list": _clone,
    "resubmit": _repeat,
    "resubmit_preserving_field_list": _repeat,
    "recirculate": _repeat,
    "recirculate_preserving_field_list": _repeat,
    "truncate": _truncate,
    "assert": _check,
    "assume": _check,
    "log_msg": _log,
    "verify": _verify,
    "static_assert": _static_assert,
}
_METHODS: dict[tuple[str, str], Callable[..., Operand | None]] = {
    ("counter", "count"): _count,
    ("direct_counter", "count"): _count_directly,
    ("meter", "execute_meter"): _execute_meter,
    ("direct_meter", "read"): _read_meter,
    ("register", "read"): _read_register,
    ("register", "write"): _write_register,
}
