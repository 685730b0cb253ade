"""Lowering of tables: keys, actions, entries and properties."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass, field

from softswitch import ir
from softswitch.p4 import arithmetic, operands, tree, types
from softswitch.p4.constants import MemberValue, wrap
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.flow import Apply, Item, Label, Part
from softswitch.p4.frames import Frame
from softswitch.p4.key_names import key_name
from softswitch.p4.linear import action_body
from softswitch.p4.lower_calls import CallLowering
from softswitch.p4.objects import CallableObject, ExternObject, control_plane_name
from softswitch.p4.operands import Operand, Scalar

DEFAULT_SIZE = 1024
TOP_PRIORITY = (1 << 31) - 1
_KINDS = {kind.value: kind for kind in ir.MatchKind} | {"optional": ir.MatchKind.TERNARY}
"""Kinds of matches by name; the control plane knows that an optional match is not any ternary one."""
SELECTOR = "selector"


@dataclass(slots=True)
class TableSpec:
    """A table but for what follows it in its control."""

    declaration: tree.Table
    owner: CallableObject
    name: str
    key: tuple[ir.KeyField, ...]
    actions: tuple[int, ...]
    action_declarations: dict[int, tree.Declaration]
    default: ir.Invocation
    default_is_const: bool
    entries: tuple[ir.ConstEntry, ...]
    size: int
    has_counter: bool
    profile: int | None
    meter: ir.DirectMeter | None
    has_idle_timeout: bool
    selector_inputs: list[ir.FieldRef] = field(default_factory=list)

    @property
    def location(self) -> str:
        return f"{self.declaration.position.file}:{self.declaration.position.line}"


class TableLowering(CallLowering):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.actions: list[ir.Action] = []
        self.action_names: dict[int, tuple[tree.Action, str]] = {}
        """Declarations and names of the actions that the control plane knows, by index."""
        self.tables: dict[str, TableSpec] = {}
        self.profiles: list[tuple[ExternObject, list[str]]] = []
        self.direct_counters: dict[str, ExternObject] = {}
        """The direct counter of each table that has one."""
        self.direct_meters: dict[str, ExternObject] = {}
        self._table_names: dict[tuple[CallableObject, tree.Table], str] = {}
        self._shared_actions: dict[tuple[CallableObject | None, tree.Action], int] = {}
        self._implementations: dict[tuple[CallableObject, tree.Node], ExternObject] = {}
        self._key_storage: dict[tuple[CallableObject, tree.KeyElement], ir.FieldRef] = {}

    def apply_table(self, call: tree.Call, frame: Frame) -> Apply:
        target = frame.facts.calls[call]
        table = target.declaration
        assert isinstance(table, tree.Table)
        if frame.body != "control":
            raise SourceError(call.position, "expected the application of a table in the body of a control")
        name = control_plane_name(table, frame.owner.path)
        key = self._key(table, frame)
        known = self._table_names.get((frame.owner, table))
        if known is None:
            self._add_table(table, name, key, frame)
        applied = Apply(name, call.position)
        frame.items.append(applied)
        return applied

    def actions_of(self, table: str, declaration: tree.Declaration) -> list[int]:
        found = self.tables[table].action_declarations
        return [index for index, each in found.items() if each is declaration]

    # -- keys

    def _key(self, table: tree.Table, frame: Frame) -> list[tuple[tree.KeyElement, ir.KeyField]]:
        """Lower the key where a table is applied; what is no field is stored in one before."""
        fields: list[tuple[tree.KeyElement, ir.KeyField]] = []
        for element in table.key:
            operand = self.lower(element.expression, frame)
            if not isinstance(operand, Scalar):
                raise SourceError(element.position, "expected a number, a bool or an enum as a key")
            kind = _KINDS.get(element.kind)
            if kind is None and element.kind != SELECTOR:
                raise SourceError(
                    element.position, f"the kind of match `{element.kind}` is not supported by softswitch"
                )
            fields.append((element, self._key_field(element, operand, kind or ir.MatchKind.EXACT, frame)))
        return fields

    def _key_field(
        self, element: tree.KeyElement, operand: Scalar, kind: ir.MatchKind, frame: Frame
    ) -> ir.KeyField:
        name = key_name(element, frame.facts)
        expression, mask = operand.expression, None
        match expression:
            case ir.Binary(ir.Op.AND, ir.FieldRef() as masked, ir.Constant(value)) if is_mask(
                element.expression
            ):
                expression, mask = masked, value
        if isinstance(expression, ir.IsValid):
            return ir.KeyField(name, expression, 1, kind)
        if not isinstance(expression, ir.FieldRef):
            expression, mask = self._stored_key(element, operand, frame), None
        width = self.storage.layouts[expression.header].fields[expression.field].width
        wanted = types.representation(operand.type)
        if isinstance(wanted, types.Bits) and wanted.width != width:  # that of a cast
            expression, width, mask = self._stored_key(element, operand, frame), wanted.width, None
        return ir.KeyField(name, expression, width, kind, mask)

    def _stored_key(self, element: tree.KeyElement, operand: Scalar, frame: Frame) -> ir.FieldRef:
        key = (frame.owner, element)
        if key not in self._key_storage:
            given = types.Bits(32) if operand.type == types.INT else operand.type
            self._key_storage[key] = self.storage.scalar(given, "key", element)
        field_ref = self._key_storage[key]
        frame.emit(ir.Assign(field_ref, operand.expression), element.position)
        return field_ref

    # -- tables

    def _add_table(
        self, table: tree.Table, name: str, key: list[tuple[tree.KeyElement, ir.KeyField]], frame: Frame
    ) -> None:
        if name in self.tables:
            raise SourceError(table.position, f"expected one table with the name `{name}`, there are several")
        self._table_names[frame.owner, table] = name
        meter = self._meter(table, frame)
        actions: dict[int, tree.Declaration] = {}
        for reference in table.actions:
            index = self._action_of(reference, meter, frame)
            declaration = frame.facts.references[reference]
            actions[index] = declaration
        matched = [part for element, part in key if element.kind != SELECTOR]
        inputs = [part.source for element, part in key if element.kind == SELECTOR]
        spec = TableSpec(
            table, frame.owner, name, tuple(matched), tuple(actions), actions,
            default=ir.Invocation(0, ()), default_is_const=False, entries=(),
            size=self.size_of(table, frame), has_counter="counters" in table.properties,
            profile=None, meter=meter[1] if meter else None,
            has_idle_timeout=self._flag(table, "support_timeout", frame),
            selector_inputs=[each for each in inputs if isinstance(each, ir.FieldRef)],
        )  # fmt: skip
        self.tables[name] = spec
        if (counter := self.implementation(table, "counters", frame)) is not None:
            self.direct_counters[name] = counter
        if meter is not None:
            self.direct_meters[name] = meter[0]
        spec.default, spec.default_is_const = self._default(table, spec, frame)
        spec.entries = tuple(self._entries(table, spec, frame))
        spec.profile = self._profile(table, spec, frame)

    def size_of(self, table: tree.Table, frame: Frame) -> int:
        found = table.properties.get("size")
        return frame.evaluator.integer(found.value) if found is not None else DEFAULT_SIZE

    def _flag(self, table: tree.Table, name: str, frame: Frame) -> bool:
        found = table.properties.get(name)
        return found is not None and frame.evaluator.value(found.value) is True

    def implementation(self, table: tree.Table, name: str, frame: Frame) -> ExternObject | None:
        """Return the object that a property names or makes: a counter, a meter, an action profile."""
        found = table.properties.get(name)
        if found is None:
            return None
        key = (frame.owner, found)
        if key not in self._implementations:
            if isinstance(found.value, tree.Call):
                path = property_path(found, table, frame.owner)
                made = self.elaborator.construct_expression(found.value, path, frame.owner)
            else:
                made = self.object_of(found.value, frame)  # type: ignore[assignment]  # checked next
            if not isinstance(made, ExternObject):
                raise SourceError(found.position, f"expected an instance of an extern as `{name}`")
            self._implementations[key] = made
        return self._implementations[key]

    def _meter(self, table: tree.Table, frame: Frame) -> tuple[ExternObject, ir.DirectMeter] | None:
        found = self.implementation(table, "meters", frame)
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
        colour = self.storage.scalar(given, f"{found.path}.colour", table)
        counts_bytes = isinstance(kind, MemberValue) and kind.name == "bytes"
        return found, ir.DirectMeter(counts_bytes=counts_bytes, target=colour)

    def _profile(self, table: tree.Table, spec: TableSpec, frame: Frame) -> int | None:
        found = self.implementation(table, "implementation", frame)
        if found is None:
            return None
        for i, (each, tables) in enumerate(self.profiles):
            if each is found:
                tables.append(spec.name)
                return i
        self.profiles.append((found, [spec.name]))
        return len(self.profiles) - 1

    # -- actions

    def _action_of(
        self, reference: tree.ActionReference, meter: tuple[ExternObject, ir.DirectMeter] | None, frame: Frame
    ) -> int:
        declaration = frame.facts.references[reference]
        assert isinstance(declaration, tree.Action)
        is_local = declaration in frame.owner.declaration.locals
        is_shared = not reference.arguments and meter is None and (is_local or not frame.copies_out)
        key = (frame.owner if is_local else None, declaration)
        if is_shared and key in self._shared_actions:
            return self._shared_actions[key]
        index = self._make_action(reference, declaration, meter, frame, is_local=is_local)
        if is_shared:
            self._shared_actions[key] = index
        return index

    def _make_action(
        self, reference: tree.ActionReference, declaration: tree.Action,
        meter: tuple[ExternObject, ir.DirectMeter] | None, frame: Frame, *, is_local: bool,
    ) -> int:  # fmt: skip
        name = control_plane_name(declaration, frame.owner.path if is_local else "")
        part = Part(Label(f"return of {declaration.name}"))
        outer = frame.control_bindings
        inner = Frame(
            frame.facts, "action", frame.owner, ChainMap({}, *outer.maps), frame.substitution, part.items,
            part.label,
            copies_out=list(frame.copies_out), depth=frame.depth + 1, outer=outer,
            direct_meters={meter[0]: meter[1].target} if meter else {},
        )  # fmt: skip
        widths: list[int] = []
        names: list[str] = []
        for parameter in declaration.parameters:
            if not parameter.direction:
                widths.append(self._bind_data(parameter, len(widths), inner))
                names.append(parameter.name)
        items: list[Item] = []
        target = frame.facts.calls[reference]
        before = inner.within(items)
        copies = self._bind(target, frame.substitution, before, inner, declaration, reference)
        self.block(declaration.body, inner)
        items.append(part)
        for copy in copies:
            copy(before)
        body, locations = action_body(items, self.add_message)
        self.actions.append(ir.Action(name, tuple(widths), body, locations, tuple(names)))
        self.action_names[len(self.actions) - 1] = declaration, name
        return len(self.actions) - 1

    def _bind_data(self, parameter: tree.Parameter, index: int, frame: Frame) -> int:
        """Bind a parameter that the control plane gives, and return its width in bits."""
        given = frame.declared(parameter)
        kind = types.representation(given)
        if kind == types.BOOL:
            width = 1
        elif isinstance(kind, types.Bits):
            width = kind.width
        else:
            raise SourceError(
                parameter.position, f"expected bits or a bool as data of an action, got {given}"
            )
        value: ir.Expression = ir.Parameter(index, width)
        if isinstance(kind, types.Bits) and kind.signed:
            value = arithmetic.wrapped(value, kind)
        frame.bindings[parameter] = Scalar(value, given)
        return width

    def _default(self, table: tree.Table, spec: TableSpec, frame: Frame) -> tuple[ir.Invocation, bool]:
        found = table.properties.get("default_action")
        if found is not None:
            return self._invocation(found.value, spec, frame), found.is_const
        for index, declaration in spec.action_declarations.items():
            if declaration.name == "NoAction" and self.actions[index].name == "NoAction":
                return ir.Invocation(index, ()), False
        index = self.no_action()
        spec.actions = (*spec.actions, index)
        spec.action_declarations[index] = self._no_action_declaration()
        return ir.Invocation(index, ()), False

    def no_action(self) -> int:
        """Return the index of `NoAction` of the core library."""
        declaration = self._no_action_declaration()
        key = (None, declaration)
        if key not in self._shared_actions:
            self.actions.append(ir.Action("NoAction", (), (), (), ()))
            self.action_names[len(self.actions) - 1] = declaration, "NoAction"
            self._shared_actions[key] = len(self.actions) - 1
        return self._shared_actions[key]

    def _no_action_declaration(self) -> tree.Action:
        [declaration] = [
            each for each in self.facts.globals.names["NoAction"] if isinstance(each, tree.Action)
        ]
        return declaration

    def _invocation(self, value: tree.Expression, spec: TableSpec, frame: Frame) -> ir.Invocation:
        target = frame.facts.calls[value]
        index = next(i for i, each in spec.action_declarations.items() if each is target.declaration)
        arguments: list[int] = []
        for parameter, argument in zip(target.parameters, target.arguments, strict=True):
            expression = argument.value if argument is not None else parameter.default
            assert expression is not None
            operand = self.lower(expression, frame, frame.declared(parameter))
            if not isinstance(operand, Scalar) or not isinstance(operand.expression, ir.Constant):
                raise SourceError(expression.position, "expected a value that is known when compiling")
            arguments.append(
                operand.expression.value & ((1 << self.actions[index].parameters[len(arguments)]) - 1)
            )
        return ir.Invocation(index, tuple(arguments))

    # -- entries

    def _entries(self, table: tree.Table, spec: TableSpec, frame: Frame) -> list[ir.ConstEntry]:
        has_priority = any(part.kind.takes_priority for part in spec.key)
        numbers = self.priorities(table, frame)
        entries: list[ir.ConstEntry] = []
        elements = [each for each in table.key if each.kind != SELECTOR]
        for entry, number in zip(table.entries, numbers, strict=True):
            keys = expanded_keys(entry.keys, len(elements))
            key = tuple(
                self._match(value, part, frame.type_of(element.expression), frame)
                for value, part, element in zip(keys, spec.key, elements, strict=True)
            )
            priority = TOP_PRIORITY - number if has_priority else 0
            entries.append(ir.ConstEntry(key, priority, self._invocation(entry.action, spec, frame)))
        return entries

    def priorities(self, table: tree.Table, frame: Frame) -> list[int]:
        """Return BMv2's priority of each entry: the first entry, or the one with the best priority, wins."""
        largest = table.properties.get("largest_priority_wins")
        largest_wins = largest is None or frame.evaluator.value(largest.value) is not False
        given = [e.priority for e in table.entries]
        if all(each is None for each in given):
            return [_annotated_priority(entry) or i for i, entry in enumerate(table.entries, 1)]
        delta_property = table.properties.get("priority_delta")
        delta = frame.evaluator.integer(delta_property.value) if delta_property is not None else 1
        numbers: list[int] = []
        step = -delta if largest_wins else delta
        first = 1 + delta * (len(given) - 1) if largest_wins else 1
        for each in given:
            number = (
                frame.evaluator.integer(each)
                if each is not None
                else (numbers[-1] + step if numbers else first)
            )
            numbers.append(number)
        if not largest_wins:
            return numbers
        top = max(numbers) + 1
        return [top - number for number in numbers]

    def _match(self, value: tree.Expression, part: ir.KeyField, given: types.Type, frame: Frame) -> ir.Match:
        full = (1 << part.width) - 1
        if isinstance(value, tree.Default):
            if part.kind is ir.MatchKind.RANGE:
                return ir.RangeMatch(0, full)
            if part.kind is ir.MatchKind.EXACT:
                raise SourceError(
                    value.position, "expected a value for an exact match, got one that matches all"
                )
            return ir.Masked(0, 0)
        if isinstance(value, tree.Mask):
            number, mask = (self._constant(each, given, frame) & full for each in (value.value, value.mask))
            if part.kind is ir.MatchKind.LPM and mask != full & ~(full >> mask.bit_count()):
                raise SourceError(value.position, f"expected the mask of a prefix, got {mask:#x}")
            if part.kind is ir.MatchKind.EXACT:
                raise SourceError(value.position, "expected a value for an exact match, got a mask")
            return ir.Masked(number & mask, mask)
        if isinstance(value, tree.Range):
            low, high = (self._constant(each, given, frame) & full for each in (value.low, value.high))
            if part.kind is not ir.MatchKind.RANGE:
                raise SourceError(
                    value.position, f"expected a value for a match of kind {part.kind.value}, got a range"
                )
            return ir.RangeMatch(low, high)
        number = self._constant(value, given, frame) & full
        if part.kind is ir.MatchKind.EXACT:
            return number
        return ir.RangeMatch(number, number) if part.kind is ir.MatchKind.RANGE else ir.Masked(number, full)

    def _constant(self, value: tree.Expression, given: types.Type, frame: Frame) -> int:
        operand: Operand = self.lower(value, frame, given)
        if isinstance(operand, operands.Struct) and len(operand.fields) == 1:
            [operand] = operand.fields.values()
        if not isinstance(operand, Scalar) or not isinstance(operand.expression, ir.Constant):
            raise SourceError(value.position, "expected a value that is known when compiling")
        return wrap(operand.expression.value, given)


def expanded_keys(keys: list[tree.Expression], count: int) -> list[tree.Expression]:
    """Return one set for each part of a key; `default` stands for all of them."""
    if len(keys) == 1 and isinstance(keys[0], tree.ListExpression):
        return keys[0].elements
    if len(keys) == 1 and isinstance(keys[0], tree.Default):
        return keys * count
    return keys


def _annotated_priority(entry: tree.Entry) -> int | None:
    """Return the number in `@priority(...)`, which p4c takes; the smallest wins."""
    for annotation in entry.annotations:
        if annotation.name == "priority" and annotation.integers:
            return annotation.integers[0]
    return None


def is_mask(expression: tree.Expression) -> bool:
    return isinstance(expression, tree.Binary) and expression.operator == "&"


def property_path(found: tree.Property, table: tree.Table, owner: CallableObject) -> str:
    """Return the name of the object that a property makes; as in p4c, `@name` gives all of it."""
    annotation = found.annotation("name")
    if annotation is not None:
        return annotation.text.removeprefix(".")
    return f"{control_plane_name(table, owner.path)}.{found.name}"
