"""Lowering of tables: keys, properties, and what makes them."""

from __future__ import annotations

from softswitch import ir
from softswitch.p4 import tree, types
from softswitch.p4.call_arguments import object_of
from softswitch.p4.constants import MemberValue
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.flow import Apply
from softswitch.p4.frames import Frame
from softswitch.p4.key_names import key_name
from softswitch.p4.lower_entries import SELECTOR, lower_entries
from softswitch.p4.lower_expressions import lower
from softswitch.p4.lower_table_actions import action_of, default_action
from softswitch.p4.lowering_state import TableSpec
from softswitch.p4.objects import CallableObject, ExternObject, Object, control_plane_name
from softswitch.p4.operands import Scalar

DEFAULT_SIZE = 1024
_KINDS = {kind.value: kind for kind in ir.MatchKind} | {"optional": ir.MatchKind.TERNARY}
"""Kinds of matches by name; the control plane knows that an optional match is not any ternary one."""


def apply_table(call: tree.Call, frame: Frame) -> Apply:
    target = frame.facts.calls[call]
    table = target.declaration
    assert isinstance(table, tree.Table)
    if frame.body != "control":
        text = "expected no table in a loop whose repetitions are known only when it runs"
        if frame.body != "action":  # as which such a loop runs
            text = "expected the application of a table in the body of a control"
        raise SourceError(call, text)
    name = control_plane_name(table, frame.owner.path)
    key = _key(table, frame)
    known = frame.state.table_names.get((frame.owner, table))
    if known is None:
        _add_table(table, name, key, frame)
    applied = Apply(name, call.position)
    frame.items.append(applied)
    return applied


# -- keys


def _key(table: tree.Table, frame: Frame) -> list[tuple[tree.KeyElement, ir.KeyField]]:
    """Lower the key where a table is applied; what is no field is stored in one before."""
    fields: list[tuple[tree.KeyElement, ir.KeyField]] = []
    for element in table.key:
        operand = lower(element.expression, frame)
        if not isinstance(operand, Scalar):
            raise SourceError(element, "expected a number, a bool or an enum as a key")
        kind = _KINDS.get(element.kind)
        if kind is None and element.kind != SELECTOR:
            raise SourceError(element, f"the kind of match `{element.kind}` is not supported by softswitch")
        if kind is ir.MatchKind.LPM and any(part.kind is kind for _, part in fields):
            raise SourceError(
                element, f"expected one key of the kind lpm in the table `{table.name}`, got two"
            )
        fields.append((element, _key_field(element, operand, kind or ir.MatchKind.EXACT, frame)))
    return fields


def _key_field(element: tree.KeyElement, operand: Scalar, kind: ir.MatchKind, frame: Frame) -> ir.KeyField:
    name = key_name(element, frame.facts)
    expression, mask = operand.expression, None
    match expression:
        case ir.Binary(ir.Op.AND, ir.FieldRef() as masked, ir.Constant(value)) if is_mask(element.expression):
            expression, mask = masked, value
    if isinstance(expression, ir.IsValid):
        return ir.KeyField(name, expression, 1, kind)
    if not isinstance(expression, ir.FieldRef):
        expression, mask = _stored_key(element, operand, frame), None
    width = frame.storage.layouts[expression.header].fields[expression.field].width
    wanted = types.representation(operand.type)
    if isinstance(wanted, types.Bits) and wanted.width != width:  # that of a cast
        expression, width, mask = _stored_key(element, operand, frame), wanted.width, None
    return ir.KeyField(name, expression, width, kind, mask)


def _stored_key(element: tree.KeyElement, operand: Scalar, frame: Frame) -> ir.FieldRef:
    key = (frame.owner, element)
    if key not in frame.state.key_storage:
        given = types.Bits(32) if operand.type == types.INT else operand.type
        frame.state.key_storage[key] = frame.storage.scalar(given, "$key", element)
    field_ref = frame.state.key_storage[key]
    frame.emit(ir.Assign(field_ref, operand.expression), element.position)
    return field_ref


def is_mask(expression: tree.Expression) -> bool:
    return isinstance(expression, tree.Binary) and expression.operator == "&"


# -- tables


def _add_table(
    table: tree.Table, name: str, key: list[tuple[tree.KeyElement, ir.KeyField]], frame: Frame
) -> None:
    if name in frame.state.tables:
        raise SourceError(table, f"expected one table with the name `{name}`, there are several")
    frame.state.table_names[frame.owner, table] = name
    meter = _meter(table, frame)
    actions: dict[int, tree.Declaration] = {}
    for reference in table.actions:
        index = action_of(reference, meter, frame)
        declaration = frame.facts.references[reference]
        actions[index] = declaration
    matched = [part for element, part in key if element.kind != SELECTOR]
    inputs = [part.source for element, part in key if element.kind == SELECTOR]
    spec = TableSpec(
        table, frame.owner, name, tuple(matched), tuple(actions), actions,
        default=ir.Invocation(0, ()), default_is_const=False, entries=(),
        size=size_of(table, frame), has_counter="counters" in table.properties,
        profile=None, meter=meter[1] if meter else None,
        has_idle_timeout=_flag(table, "support_timeout", frame),
        selector_inputs=[each for each in inputs if isinstance(each, ir.FieldRef)],
    )  # fmt: skip
    frame.state.tables[name] = spec
    if (counter := implementation(table, "counters", frame)) is not None:
        frame.state.direct_counters[name] = counter
    if meter is not None:
        frame.state.direct_meters[name] = meter[0]
    spec.default, spec.default_is_const = default_action(table, spec, frame)
    spec.entries = tuple(lower_entries(table, spec, frame))
    spec.profile = _profile(table, spec, frame)


def size_of(table: tree.Table, frame: Frame) -> int:
    found = table.properties.get("size")
    return frame.evaluator.integer(found.value) if found is not None else DEFAULT_SIZE


def _flag(table: tree.Table, name: str, frame: Frame) -> bool:
    found = table.properties.get(name)
    return found is not None and frame.evaluator.value(found.value) is True


def implementation(table: tree.Table, name: str, frame: Frame) -> ExternObject | None:
    """Return the object that a property names or makes: a counter, a meter, an action profile."""
    found = table.properties.get(name)
    if found is None:
        return None
    key = (frame.owner, found)
    if key not in frame.state.implementations:
        if isinstance(found.value, tree.Call):
            path = property_path(found, table, frame.owner)
            made: Object | None = frame.state.elaborator.construct_expression(found.value, path, frame.owner)
        else:
            made = object_of(found.value, frame)
        if not isinstance(made, ExternObject):
            raise SourceError(found, f"expected an instance of an extern as `{name}`")
        frame.state.implementations[key] = made
    return frame.state.implementations[key]


def _meter(table: tree.Table, frame: Frame) -> tuple[ExternObject, ir.DirectMeter] | None:
    found = implementation(table, "meters", frame)
    if found is None:
        return None
    kind = found.arguments.get("type")
    given = (
        types.substitute(found.type.arguments[0], frame.substitution)
        if found.type.arguments
        else types.Bits(32)
    )
    if not isinstance(types.representation(given), types.Bits):
        given = types.Bits(32)
    colour = frame.storage.scalar(given, "$colour", table)
    counts_bytes = isinstance(kind, MemberValue) and kind.name == "bytes"
    return found, ir.DirectMeter(counts_bytes=counts_bytes, target=colour)


def _profile(table: tree.Table, spec: TableSpec, frame: Frame) -> int | None:
    found = implementation(table, "implementation", frame)
    if found is None:
        return None
    for i, (each, tables) in enumerate(frame.state.profiles):
        if each is found:
            tables.append(spec.name)
            return i
    frame.state.profiles.append((found, [spec.name]))
    return len(frame.state.profiles) - 1


def property_path(found: tree.Property, table: tree.Table, owner: CallableObject) -> str:
    """Return the name of the object that a property makes; as in p4c, `@name` gives all of it."""
    annotation = found.annotation("name")
    if annotation is not None:
        return annotation.text.removeprefix(".")
    return f"{control_plane_name(table, owner.path)}.{found.name}"
