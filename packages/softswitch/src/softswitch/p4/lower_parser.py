"""Lowering of parsers: their states, with those of sub-parsers in the places of calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeGuard

from softswitch import ir
from softswitch.p4 import arithmetic, operands, tree, types
from softswitch.p4.diagnostics import NOWHERE, SourceError
from softswitch.p4.flow import Apply, Branch, Call, Item, Label, Leave, Loop, Part, Step
from softswitch.p4.frames import Frame, frame_bindings
from softswitch.p4.lower_tables import TableLowering, expanded_keys
from softswitch.p4.objects import CallableObject, control_plane_name
from softswitch.p4.operands import Operand, Scalar
from softswitch.p4.scopes import Target
from softswitch.v1model import VARBIT_BITS_WIDTH

ALL_BITS = -1
MAX_STATES = 1 << 14
MAX_RANGE_CASES = 1 << 10
Operation = ir.Extract | ir.Advance | ir.Verify | ir.Statement


@dataclass(slots=True)
class SubParser:
    """A call of a parser in a state, with the context in which its states are lowered."""

    found: CallableObject
    frame: Frame


@dataclass(slots=True)
class Ending:
    """How a state ends: by a select over a key."""

    key: tuple[ir.KeyPart, ...] = ()
    cases: tuple[ir.Case, ...] = ()

    @classmethod
    def to(cls, state: int | None) -> Ending:
        return cls((), (ir.Case(0, 0, state),))


class ParserLowering(TableLowering):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.states: list[ir.ParserState | None] = []
        self.value_sets: list[ir.ValueSet] = []
        self.value_set_declarations: list[tuple[tree.ValueSet, str]] = []
        self._set_index: dict[tuple[CallableObject, tree.ValueSet], int] = {}
        self._state_names: list[str] = []
        self._state_labels: dict[Label, int | None] = {}

    def lower_parser(self, found: CallableObject, frame: Frame) -> int:
        """Lower the states of the program's parser, and return the position of the first."""
        for local in found.declaration.locals:
            if isinstance(local, tree.ValueSet):
                self._add_value_set(local, found, frame)
        return self._states_of(found, frame, None, "")

    def _add_value_set(self, declaration: tree.ValueSet, found: CallableObject, frame: Frame) -> None:
        name = control_plane_name(declaration, found.path)
        self._set_index[found, declaration] = len(self.value_sets)
        size = frame.evaluator.integer(declaration.size)
        given = frame.declared(declaration)
        assert isinstance(given, types.Set)
        widths = tuple(self._widths(given.element, declaration))
        self.value_sets.append(ir.ValueSet(name, widths, size))
        self.value_set_declarations.append((declaration, name))

    def finished_value_sets(self) -> tuple[ir.ValueSet, ...]:
        """Return the value sets; BMv2's JSON has the widths of a member's parts only in a select."""
        used = {case.value_set for state in self.states if state is not None for case in state.cases}
        return tuple(
            each if number in used else replace(each, widths=(sum(each.widths),))
            for number, each in enumerate(self.value_sets)
        )

    def _widths(self, given: types.Type, node: tree.Node) -> list[int]:
        value = self.flat(self.default_value(given, node), node)
        return [self.storage.field_type(each.type, "", node).width for each in value]

    # -- states

    def _states_of(self, found: CallableObject, frame: Frame, accept: int | None, prefix: str) -> int:
        declaration = found.declaration
        assert isinstance(declaration, tree.Parser)
        index = {state.name: self._reserve(prefix + state.name) for state in declaration.states}
        targets: dict[str, int | None] = {**index, "accept": accept, "reject": None}
        for state in declaration.states:
            items: list[Item] = []
            inner = frame.within(items)
            if state.name == "start":
                for local in declaration.locals:
                    if isinstance(local, tree.Variable):
                        self.variable(local, inner)
            for statement in state.statements:
                self.statement(statement, inner)
            ending = self._ending(state, targets, inner)
            operations, ending = self._split(items, prefix + state.name, ending)
            self._set_state(index[state.name], operations, ending)
        return index["start"]

    def _reserve(self, name: str) -> int:
        if len(self.states) >= MAX_STATES:
            raise SourceError(NOWHERE, f"expected at most {MAX_STATES} states of the parser, at {name}")
        candidate, number = name, 0
        while candidate in self._state_names:
            candidate, number = f"{name}_{number}", number + 1
        self._state_names.append(candidate)
        self.states.append(None)
        return len(self.states) - 1

    def _set_state(self, index: int, operations: Sequence[Operation], ending: Ending) -> None:
        name = self._state_names[index]
        self.states[index] = ir.ParserState(name, tuple(operations), ending.key, ending.cases)

    def _new_state(self, name: str, operations: Sequence[Operation], ending: Ending) -> int:
        index = self._reserve(name)
        self._set_state(index, operations, ending)
        return index

    def _split(self, items: list[Item], name: str, ending: Ending) -> tuple[list[Operation], Ending]:
        """Return the operations and the ending of the first state of some items; the others are made."""
        operations: list[Operation] = []
        for i in range(len(items) - 1, -1, -1):
            item = items[i]
            if isinstance(item, Step):
                operations.insert(0, item.statement)
                continue
            if isinstance(item, Leave):
                operations, ending = [], Ending.to(self._state_labels[item.label])
                continue
            following = self._following(operations, ending, name)
            match item:
                case Branch():
                    operations, ending = self._branch(item, name, following)
                case Part(label, inner):
                    self._state_labels[label] = following
                    operations, ending = self._split(inner, name, Ending.to(following))
                case Call(parser=SubParser(found, frame)):
                    prefix = f"{found.path}."
                    operations, ending = [], Ending.to(self._states_of(found, frame, following, prefix))
                case Apply() | Loop():
                    raise SourceError(item.position, "expected no table and no loop in a parser")
        return operations, ending

    def _following(self, operations: list[Operation], ending: Ending, name: str) -> int | None:
        """Return the state that runs operations and ends so, or the one to which it only goes on."""
        if not operations and not ending.key and len(ending.cases) == 1:
            return ending.cases[0].state
        return self._new_state(name, operations, ending)

    def _branch(self, item: Branch, name: str, following: int | None) -> tuple[list[Operation], Ending]:
        after = Ending.to(following)
        targets = []
        for items in (item.then, item.otherwise):
            operations, ending = self._split(items, name, after)
            targets.append(self._following(operations, ending, name))
        flag = self.storage.scalar(types.BOOL, "tmp", tree.Node(item.position))
        cases = (ir.Case(1, ALL_BITS, targets[0]), ir.Case(0, 0, targets[1]))
        return [ir.Assign(flag, item.condition)], Ending((flag,), cases)

    def sub_parser(self, found: CallableObject, frame: Frame) -> SubParser:
        for local in found.declaration.locals:
            if isinstance(local, tree.ValueSet) and (found, local) not in self._set_index:
                self._add_value_set(local, found, frame)
        return SubParser(found, frame)

    # -- transitions

    def _ending(self, state: tree.State, targets: dict[str, int | None], frame: Frame) -> Ending:
        if state.next is None:
            return Ending.to(None)
        if isinstance(state.next, str):
            return Ending.to(targets[state.next])
        parts: list[ir.KeyPart] = []
        kinds: list[types.Type] = []
        for value in state.next.values:
            for part in self.flat(self.lower(value, frame), value):
                expression = part.expression
                if _is_key_part(expression):
                    parts.append(expression)
                else:
                    parts.append(self.saved(Scalar(expression, part.type), frame, value))
                kinds.append(part.type)
        if not parts:
            first = state.next.cases[0].state if state.next.cases else "reject"
            return Ending.to(targets[first])
        widths = [self._width(kind, state) for kind in kinds]
        cases: list[ir.Case] = []
        for case in state.next.cases:
            cases += self._cases(case, kinds, widths, targets[case.state], frame)
            always = next((i for i, each in enumerate(cases) if _matches_always(each)), None)
            if always is not None:
                del cases[always + 1 :]
                break
        return Ending(tuple(parts), tuple(cases))

    def _width(self, given: types.Type, node: tree.Node) -> int:
        return self.storage.field_type(types.Bits(32) if given == types.INT else given, "", node).width

    def _cases(
        self,
        case: tree.SelectCase,
        kinds: list[types.Type],
        widths: list[int],
        target: int | None,
        frame: Frame,
    ) -> list[ir.Case]:
        if len(case.keys) == 1 and (number := self._value_set(case.keys[0], frame)) is not None:
            return [ir.Case(0, ALL_BITS, target, number)]
        keys = expanded_keys(case.keys, len(kinds))
        if all(isinstance(key, tree.Default) for key in keys):
            return [ir.Case(0, 0, target)]
        if len(keys) != len(kinds):
            raise SourceError(case.position, f"expected {len(kinds)} values, got {len(keys)}")
        choices = [
            self._masks(key, kind, width, frame) for key, kind, width in zip(keys, kinds, widths, strict=True)
        ]
        is_exact = not any(isinstance(key, tree.Default | tree.Mask | tree.Range) for key in keys)
        cases: list[ir.Case] = []
        for chosen in product(*choices):
            value = ir.join_key((value & mask for value, mask in chosen), widths)
            mask = ALL_BITS if is_exact else ir.join_key((mask for _, mask in chosen), widths)
            cases.append(ir.Case(value, mask, target))
        if len(cases) > MAX_RANGE_CASES:
            raise SourceError(
                case.position, f"expected ranges of at most {MAX_RANGE_CASES} prefixes, got {len(cases)}"
            )
        return cases

    def _value_set(self, key: tree.Expression, frame: Frame) -> int | None:
        declaration = frame.facts.references.get(key)
        if not isinstance(declaration, tree.ValueSet):
            return None
        return self._set_index[frame.owner, declaration]

    def _masks(
        self, key: tree.Expression, kind: types.Type, width: int, frame: Frame
    ) -> list[tuple[int, int]]:
        """Return the values and masks of a part of a case; a range becomes several."""
        full = arithmetic.mask_of(width)
        if isinstance(key, tree.Default):
            return [(0, 0)]
        if isinstance(key, tree.Mask):
            value, mask = (self._constant(each, kind, frame) & full for each in (key.value, key.mask))
            return [(value & mask, mask)]
        if isinstance(key, tree.Range):
            low, high = (self._constant(each, kind, frame) & full for each in (key.low, key.high))
            return range_masks(low, high, width)
        return [(self._constant(key, kind, frame) & full, full)]

    # -- operations of the packet

    def packet_method(self, call: tree.Call, target: Target, frame: Frame) -> Operand | None:
        if frame.body != "parser":
            return self.emit_header(call, target, frame)
        match target.name:
            case "extract":
                self._extract(call, target, frame)
                return None
            case "lookahead":
                [variable] = target.substitution
                given = types.substitute(target.substitution[variable], frame.substitution)
                return self._ahead(given, 0, frame, call)[0]
            case "advance":
                frame.emit(ir.Advance(self.number(target, "sizeInBits", frame)), call.position)
                return None
        raise SourceError(
            call.position, f"`{target.name}` of a packet is not supported by BMv2 and softswitch"
        )

    def emit_header(self, call: tree.Call, target: Target, frame: Frame) -> Operand | None:
        raise NotImplementedError

    def _extract(self, call: tree.Call, target: Target, frame: Frame) -> None:
        argument = target.arguments[0]
        assert argument is not None
        header, stack = self._extracted(argument.value, call, target, frame)
        if len(target.arguments) == 1:
            frame.emit(ir.Extract(header, stack), call.position)
            return
        bits = self.number(target, "variableFieldSizeInBits", frame)
        index = header if header is not None else self.storage.stacks[stack or 0].headers[0]
        max_bytes = sum(each.width for each in self.storage.layouts[index].fields) // 8
        length = ir.Cast(ir.Fit.SATURATE_SIGNED, bits, VARBIT_BITS_WIDTH)
        frame.emit(ir.Extract(header, stack, length, max_bytes), call.position)

    def _extracted(
        self, expression: tree.Expression | None, call: tree.Call, target: Target, frame: Frame
    ) -> tuple[int | None, int | None]:
        """Return the header, or the stack, to which a header is extracted."""
        if expression is None:
            [variable] = target.substitution
            given = types.substitute(target.substitution[variable], frame.substitution)
            operand: Operand = self.storage.make(given, "skipped", call)
        else:
            operand = self.lower(expression, frame)
        match operand:
            case operands.Header(reference) if isinstance(reference, int):
                return reference, None
            case operands.Header(ir.Element(stack, index)) if not isinstance(index, ir.LastIndex):
                if is_next(expression):
                    return None, stack
        raise SourceError(call.position, "expected a header, or the next element of a stack, to extract")

    def _ahead(self, given: types.Type, offset: int, frame: Frame, call: tree.Call) -> tuple[Operand, int]:
        """Return a value that is in the packet, `offset` bits after its position, and where it ends."""
        base = types.base_of(given)
        if not isinstance(base, types.Struct | types.Tuple | types.Stack):
            width = self.storage.field_type(given, "", call).width
            value: ir.Expression = ir.Lookahead(offset, width)
            bits = types.representation(given)
            if isinstance(bits, types.Bits) and bits.signed:
                value = arithmetic.wrapped(self.saved(Scalar(value, types.Bits(width)), frame, call), bits)
            return Scalar(value, given), offset + width
        parts: dict[str, Operand] = {}
        for name, kind in self.element_types(base, getattr(base, "size", 0), call):
            parts[name], offset = self._ahead(kind, offset, frame, call)
        made = operands.HeaderValue(parts, given) if types.is_header(base) else operands.Struct(parts, given)
        return made, offset

    def parser_frame(self, found: CallableObject, bindings: dict[tree.Declaration, object]) -> Frame:
        return Frame(
            self.facts, "parser", found, frame_bindings(found, bindings), found.substitution, [],
            Label("parser"),
        )  # fmt: skip


def _is_key_part(expression: ir.Expression) -> TypeGuard[ir.KeyPart]:
    """Return whether BMv2 can select on an expression: a field, also of the last element of a stack."""
    match expression:
        case ir.FieldRef() | ir.Lookahead():
            return True
        case ir.ElementField(ir.Element(stack, index)):
            return index == ir.LastIndex(stack)
    return False


def _matches_always(case: ir.Case) -> bool:
    return case.mask == 0 and case.value_set is None


def is_next(expression: tree.Expression | None) -> bool:
    """Return whether an expression is the next element of a stack, or a member of the next union."""
    if isinstance(expression, tree.Member):
        return expression.name == "next" or is_next(expression.base)
    return False


def range_masks(low: int, high: int, width: int) -> list[tuple[int, int]]:
    """Return prefixes, as values and masks, that cover a range."""
    found: list[tuple[int, int]] = []
    full = arithmetic.mask_of(width)
    while low <= high:
        size = low & -low or 1 << width
        while low + size - 1 > high:
            size >>= 1
        found.append((low, full & ~(size - 1)))
        low += size
    return found
