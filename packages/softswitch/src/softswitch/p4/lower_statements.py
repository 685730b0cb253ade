"""Lowering of statements, except what calls do."""

from __future__ import annotations

from softswitch import ir
from softswitch.p4 import arithmetic, operands, tree, types
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.flow import EXIT, Apply, Branch, Item, Label, Leave, Loop, Part, Unit
from softswitch.p4.frames import Frame
from softswitch.p4.lower_expressions import ExpressionLowering, has_effects
from softswitch.p4.objects import Object
from softswitch.p4.operands import Operand, Scalar

MAX_UNROLLED = 1 << 14
"""Repetitions of all loops of a program that are written out."""
CONDITION_IN_DEPARSER = "conditions in a deparser are not supported by BMv2 and softswitch"


class StatementLowering(ExpressionLowering):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # those of the base class
        self._unrolled = 0
        self.emitted: list[int] = []

    def apply_table(self, call: tree.Call, frame: Frame) -> Apply:
        """Emit the application of a table, and return it."""
        raise NotImplementedError

    def call_statement(self, statement: tree.CallStatement, frame: Frame) -> None:
        result = self.lower_call(statement.call, frame)
        if result is not None and frame.body == "parser":
            # A look beyond the end of the packet is an error, even if nobody needs what is there.
            for part in self.flat(result, statement):
                if not isinstance(part.expression, ir.FieldRef | ir.Constant):
                    self.saved(part, frame, statement)

    def flat(self, operand: Operand, node: tree.Node) -> list[Scalar]:
        """Return the scalars of an operand, in order."""
        if isinstance(operand, Scalar):
            return [operand]
        return [each for part in self.parts(operand, node) for each in self.flat(part, node)]

    def block(self, block: tree.Block, frame: Frame) -> None:
        for statement in block.statements:
            self.statement(statement, frame)

    def statement(self, statement: tree.Statement, frame: Frame) -> None:
        match statement:
            case tree.Variable():
                self.variable(statement, frame)
            case tree.Constant() | tree.Empty():
                pass
            case tree.Instance():
                made: Object = self.elaborator.instance(
                    statement, frame.owner.path, frame.owner.bindings, frame.substitution
                )
                frame.bindings[statement] = made
            case tree.Assignment():
                self._assignment(statement, frame)
            case tree.CallStatement():
                self.call_statement(statement, frame)
            case tree.Block():
                self.block(statement, frame)
            case tree.Conditional():
                self._conditional(statement, frame)
            case tree.Return(value=value):
                if value is not None and frame.result is not None:
                    lowered = self.lower(
                        value,
                        frame,
                        frame.result.type if not isinstance(frame.result, operands.Text) else None,
                    )
                    self.assign(frame.result, lowered, frame, statement)
                frame.items.append(Leave(frame.return_label))
            case tree.Exit():
                for copy in reversed(frame.copies_out):
                    copy(frame)
                frame.items.append(Leave(EXIT))
            case tree.Switch():
                self._switch(statement, frame)
            case tree.For():
                self._for(statement, frame)
            case tree.ForIn():
                self._for_in(statement, frame)
            case tree.Break() | tree.Continue():
                if not frame.loops:
                    raise SourceError(statement.position, "expected a loop around `break` and `continue`")
                frame.items.append(Leave(frame.loops[-1][isinstance(statement, tree.Continue)]))
            case _:
                raise SourceError(statement.position, "expected a statement that the switch can run")

    def variable(self, declaration: tree.Variable, frame: Frame) -> None:
        given = frame.declared(declaration)
        initial = None
        if declaration.initial is not None:
            initial = self.lower(declaration.initial, frame, given)
        storage = self.storage.make(given, f"{frame.owner.path}.{declaration.name}", declaration)
        frame.bindings[declaration] = storage
        if initial is not None:
            self.assign(storage, initial, frame, declaration)
        else:
            self.invalidate(storage, frame, declaration)

    def invalidate(self, operand: Operand, frame: Frame, node: tree.Node) -> None:
        """Emit that all headers of a variable are invalid, as they are where it is declared."""
        match operand:
            case operands.Header(reference):
                frame.emit(ir.SetInvalid(reference), node.position)
            case operands.Struct(fields):
                for each in fields.values():
                    self.invalidate(each, frame, node)
            case operands.Union(members):
                for each in members.values():
                    self.invalidate(each, frame, node)
            case operands.Stack(elements):
                for each in elements:
                    self.invalidate(each, frame, node)

    # -- assignment

    def _assignment(self, statement: tree.Assignment, frame: Frame) -> None:
        target = statement.target
        wanted = frame.type_of(target)
        expression = frame.facts.combined.get(statement, statement.value)
        is_changeable = has_effects(target, frame) or (has_effects(expression, frame) and has_index(target))
        if not is_changeable:
            self.assign_to(target, self.lower(expression, frame, wanted), frame)
            return
        # The place is evaluated once, and before the value.
        target = self.pinned(target, frame)
        if not statement.operator:
            self.assign_to(target, self.lower(expression, frame, wanted), frame)
            return
        left = self.ordered(target, statement.value, frame, wanted)
        right_type = types.Bits(32) if statement.operator in ("<<", ">>") else wanted
        right = self.scalar(statement.value, frame, right_type)
        result = arithmetic.binary(statement.operator, left, right, types.representation(wanted), statement)
        self.assign_to(target, Scalar(result, wanted), frame)

    def pinned(self, target: tree.Expression, frame: Frame) -> tree.Expression:
        """Return an l-value whose indices are variables of their own, which nothing else changes."""
        made: tree.Expression
        match target:
            case tree.Member(base=base):
                made = tree.Member(target.position, self.pinned(base, frame), target.name)
            case tree.Slice(base=base):
                made = tree.Slice(
                    target.position, self.pinned(base, frame), target.high, target.low, target.width
                )
            case tree.Index(base=base, index=index):
                base = self.pinned(base, frame)
                made = tree.Index(target.position, base, self._pinned_index(index, frame))
            case _:
                return target
        self.facts.types[made] = self.facts.types[target]
        return made

    def _pinned_index(self, index: tree.Expression, frame: Frame) -> tree.Expression:
        if frame.evaluator.value(index) is not None:
            return index
        value = self.lower(index, frame)
        assert isinstance(value, Scalar)
        name = tree.Name(index.position, "index")
        variable = tree.Variable(index.position, "index", [], tree.BaseType(index.position, "_"), None)
        self.facts.references[name], self.facts.types[name] = variable, self.facts.types[index]
        frame.bindings[variable] = Scalar(self.saved(value, frame, index), value.type)
        return name

    def assign_to(self, target: tree.Expression, value: Operand, frame: Frame) -> None:
        """Emit an assignment to the variable that an expression denotes, or to a slice of it."""
        if isinstance(target, tree.Slice):
            self._assign_slice(target, value, frame)
            return
        self.assign(self.lower(target, frame), value, frame, target)

    def _assign_slice(self, target: tree.Slice, value: Operand, frame: Frame) -> None:
        if not isinstance(value, Scalar):
            raise SourceError(target.position, "expected bits to assign to a slice")
        base = self.lower(target.base, frame)
        width = types.representation(frame.type_of(target.base))
        assert isinstance(base, Scalar)
        assert isinstance(width, types.Bits)
        if target.width is not None and frame.evaluator.value(target.low) is None:
            low = self.scalar(target.low, frame)
            mask = ir.Constant(arithmetic.mask_of(frame.evaluator.integer(target.width)))
            hole = ir.Unary(ir.Op.COMPLEMENT, ir.Binary(ir.Op.SHL, mask, low))
            other_bits = ir.Binary(ir.Op.AND, base.expression, hole)
            combined: ir.Expression = ir.Binary(
                ir.Op.OR, other_bits, ir.Binary(ir.Op.SHL, value.expression, low)
            )
        else:
            high, low_bit = self.slice_bounds(target, frame)
            combined = arithmetic.with_slice(base.expression, value.expression, high, low_bit, width.width)
        self.assign_to(target.base, Scalar(arithmetic.wrapped(combined, width), base.type), frame)

    def assign(self, target: Operand, value: Operand, frame: Frame, node: tree.Node) -> None:
        if target == value:
            return
        match target, value:
            case Scalar(), Scalar():
                self._assign_scalar(target, value, frame, node)
            case operands.Header(reference), operands.Header(source):
                frame.emit(ir.AssignHeader(reference, source), node.position)
            case operands.Header(reference), operands.HeaderValue(None):
                frame.emit(ir.SetInvalid(reference), node.position)
            case operands.Header(), operands.HeaderValue() | operands.Struct():
                self._assign_fields(target, value, frame, node)
            case operands.Union(members), operands.HeaderValue(None):
                for member in members.values():
                    self.assign(member, value, frame, node)
            case operands.Union(members), operands.Union(others):
                for member, other in zip(members.values(), others.values(), strict=True):
                    self.assign(member, other, frame, node)
            case operands.Stack(), operands.Stack() if target.stacks and value.stacks:
                self._assign_stack(target, value, frame, node)
            case ((operands.Struct() | operands.Stack()), (operands.Struct() | operands.Stack())):
                self._assign_parts(target, value, frame, node)
            case _:
                raise SourceError(node.position, "expected a variable, and a value of its type")

    def _assign_scalar(self, target: Scalar, value: Scalar, frame: Frame, node: tree.Node) -> None:
        place, expression = target.expression, value.expression
        if not isinstance(place, ir.FieldRef | ir.ElementField):
            raise SourceError(node.position, "expected a variable or a field to assign to")
        given = types.representation(target.type)
        if isinstance(given, types.Varbit):
            if isinstance(expression, ir.Constant):
                raise SourceError(
                    node.position, "assignment of a constant to a varbit is not supported by softswitch"
                )
            if not isinstance(place, ir.FieldRef) or not isinstance(expression, ir.FieldRef):
                raise SourceError(
                    node.position, "assignment of a varbit field of a stack's element is not supported"
                )
            frame.emit(ir.AssignVarbit(place, expression), node.position)
            return
        match expression:
            case ir.Binary(ir.Op.AND, inner, ir.Constant(mask)) if (
                isinstance(given, types.Bits) and not given.signed
            ):
                # A field keeps the bits of its width of what is stored in it.
                if mask == arithmetic.mask_of(given.width) and not isinstance(inner, ir.Ternary):
                    expression = inner
        frame.emit(ir.Assign(place, expression), node.position)

    def _assign_fields(
        self,
        header: operands.Header,
        value: operands.HeaderValue | operands.Struct,
        frame: Frame,
        node: tree.Node,
    ) -> None:
        """Assign a list of values to a header, which makes it valid."""
        values = self._unaliased(header, self.parts(value, node), frame, node)
        if isinstance(header.reference, ir.Element) and not isinstance(header.reference.index, ir.Constant):
            index = Scalar(header.reference.index, types.Bits(32))
            if self.leaves(index) & self.leaves(header):
                fixed = ir.Element(header.reference.stack, self.saved(index, frame, node))
                header = operands.Header(fixed, header.type)
        frame.emit(ir.SetValid(header.reference), node.position)
        for part, each in zip(self.parts(header, node), values, strict=True):
            self.assign(part, each, frame, node)

    def _assign_parts(
        self, target: operands.Struct | operands.Stack, value: operands.Struct | operands.Stack, frame: Frame,
        node: tree.Node,
    ) -> None:  # fmt: skip
        values = self._unaliased(target, self.parts(value, node), frame, node)
        for part, each in zip(self.parts(target, node), values, strict=True):
            self.assign(part, each, frame, node)

    def _unaliased(
        self, target: Operand, values: list[Operand], frame: Frame, node: tree.Node
    ) -> list[Operand]:
        """Return values that do not change while the target is assigned part by part."""
        written = self.leaves(target)
        if len(values) < 2 and not isinstance(target, operands.Header):
            return values
        return [
            self.stable_copy(each, frame, node) if written & self.leaves(each) else each for each in values
        ]

    def leaves(self, operand: Operand) -> set[operands.Leaf]:
        return operands.leaves(operand, self.storage.is_metadata, self.storage.stacks)

    def _assign_stack(
        self, target: operands.Stack, value: operands.Stack, frame: Frame, node: tree.Node
    ) -> None:
        stacks = self.storage.stacks
        frame.emit(
            ir.CopyCursor(stacks[target.stacks[0]].cursor, stacks[value.stacks[0]].cursor), node.position
        )
        for left, right in zip(target.elements, value.elements, strict=True):
            self.assign(left, right, frame, node)

    # -- branches

    def _conditional(self, statement: tree.Conditional, frame: Frame) -> None:
        if (hit := self._hit_of(statement.condition, frame)) is not None:
            call, holds = hit
            applied = self.apply_table(call, frame)
            branches = ("hit", "miss") if holds else ("miss", "hit")
            self._into(statement.then, frame, applied.branches.setdefault(branches[0], []))
            self._into(statement.otherwise, frame, applied.branches.setdefault(branches[1], []))
            return
        condition = self.scalar(statement.condition, frame)
        if isinstance(condition, ir.Constant):
            chosen = statement.then if condition.value else statement.otherwise
            self._into(chosen, frame, frame.items)
            return
        branch = Branch(condition, statement.condition.position, self.text_of(statement.condition))
        frame.items.append(branch)
        emitted_before = len(self.emitted)
        self._into(statement.then, frame, branch.then)
        self._into(statement.otherwise, frame, branch.otherwise)
        if len(self.emitted) > emitted_before:
            raise SourceError(statement.condition.position, CONDITION_IN_DEPARSER)
        if not branch.then and not branch.otherwise:
            frame.items.remove(branch)

    def text_of(self, expression: tree.Expression) -> str:
        """Return the rest of the source line at an expression, as p4c quotes it."""
        lines = self.sources.lines.get(expression.position.file, [])
        if not 1 <= expression.position.line <= len(lines):
            return ""
        return (
            lines[expression.position.line - 1][expression.position.column - 1 :].strip().rstrip("{").rstrip()
        )

    def _into(self, statement: tree.Statement | None, frame: Frame, items: list[Item]) -> None:
        if statement is not None:
            self.statement(statement, frame.within(items))

    def _hit_of(self, condition: tree.Expression, frame: Frame) -> tuple[tree.Call, bool] | None:
        """Return the call in `table.apply().hit`, or `.miss`, or its negation, and whether a hit holds."""
        if isinstance(condition, tree.Unary) and condition.operator == "!":
            inner = self._hit_of(condition.operand, frame)
            return None if inner is None else (inner[0], not inner[1])
        if not isinstance(condition, tree.Member) or not isinstance(condition.base, tree.Call):
            return None
        if not isinstance(frame.facts.types.get(condition.base), types.ApplyResult):
            return None
        return condition.base, condition.name == "hit"

    def lower_hit(self, expression: tree.Member, frame: Frame) -> Operand:
        assert isinstance(expression.base, tree.Call)
        applied = self.apply_table(expression.base, frame)
        result = self.storage.scalar(types.BOOL, "tmp", expression)
        for branch in ("hit", "miss"):
            value = ir.Constant(int(branch == expression.name))
            frame.within(applied.branches.setdefault(branch, [])).emit(
                ir.Assign(result, value), expression.position
            )
        return Scalar(result, types.BOOL)

    def _switch(self, statement: tree.Switch, frame: Frame) -> None:
        found = frame.type_of(statement.value)
        if isinstance(found, types.ActionRun):
            self._switch_on_action(statement, frame)
            return
        value = self.lower(statement.value, frame)
        if not isinstance(value, Scalar):
            raise SourceError(statement.position, "expected a number or an enum to switch on")
        emitted_before = len(self.emitted)
        if not value.is_constant and not isinstance(value.expression, ir.FieldRef):
            value = Scalar(self.saved(value, frame, statement), value.type)
        items = frame.items
        pending: list[ir.Expression] = []
        default: tree.Block | None = None
        for i, case in enumerate(statement.cases):
            if isinstance(case.label, tree.Default):
                default = self._body_from(statement.cases, i)
                pending = []
                continue
            label = self.scalar(case.label, frame, found)
            pending.append(arithmetic.binary("==", value.expression, label, types.BOOL, case))
            if case.body is None:
                continue
            condition = arithmetic.any_of(pending)
            pending = []
            branch = Branch(condition, case.position, self.text_of(case.label))
            items.append(branch)
            self._into(case.body, frame, branch.then)
            items = branch.otherwise
        self._into(default, frame, items)
        if len(self.emitted) > emitted_before:
            raise SourceError(statement.position, CONDITION_IN_DEPARSER)

    def _body_from(self, cases: list[tree.SwitchCase], start: int) -> tree.Block | None:
        return next((case.body for case in cases[start:] if case.body is not None), None)

    def _switch_on_action(self, statement: tree.Switch, frame: Frame) -> None:
        assert isinstance(statement.value, tree.Member)
        assert isinstance(statement.value.base, tree.Call)
        applied = self.apply_table(statement.value.base, frame)
        lowered: dict[tree.Block | None, list[Item]] = {}
        for i, case in enumerate(statement.cases):
            body = self._body_from(statement.cases, i)
            if body not in lowered:  # several labels may share it
                lowered[body] = []
                self._into(body, frame, lowered[body])
            items = lowered[body]
            if isinstance(case.label, tree.Default):
                applied.other = items
            else:
                declaration = frame.facts.references[case.label]
                for index in self.actions_of(applied.table, declaration):
                    applied.branches[index] = items

    def actions_of(self, table: str, declaration: tree.Declaration) -> list[int]:
        """Return the indices of the actions of a table that come from a declaration."""
        raise NotImplementedError

    # -- loops

    def _for(self, statement: tree.For, frame: Frame) -> None:
        variables = [each for each in statement.initial if isinstance(each, tree.Variable)]
        is_counted = len(variables) == len(statement.initial) and not any(
            _assigns(statement.body, each, frame) for each in variables
        )
        if is_counted and all(each.initial is not None for each in variables):
            values: dict[tree.Declaration, object] = {}
            for each in variables:
                assert each.initial is not None
                value = frame.evaluator.value(each.initial)
                values[each] = frame.evaluator.convert(value, frame.declared(each))
            if all(value is not None for value in values.values()) and self._unroll(statement, values, frame):
                return
        if frame.body == "control":
            unit = Unit(statement.position)
            frame.items.append(unit)
            frame = frame.within(unit.items)
            frame.body = "action"
        if frame.body != "action":
            raise SourceError(
                statement.position,
                "expected a loop whose repetitions are known: a constant start, condition and step",
            )
        self._loop(statement, frame)

    def _unroll(self, statement: tree.For, values: dict[tree.Declaration, object], frame: Frame) -> bool:
        """Write a loop out; return whether the values of its variables are known throughout."""
        outer = dict(values)
        frame.bindings.update(values)
        holds = frame.evaluator.value(statement.condition)
        if not isinstance(holds, bool):
            for each in outer:
                frame.bindings.pop(each, None)
            return False
        ended = Part(Label("break"))
        frame.items.append(ended)
        while holds:
            self._count_repetition(statement)
            repeated = Part(Label("continue"))
            ended.items.append(repeated)
            inner = frame.within(repeated.items)
            inner.loops = [*frame.loops, (ended.label, repeated.label)]
            self.statement(statement.body, inner)
            for update in statement.updates:
                if not isinstance(update, tree.Assignment) or not isinstance(update.target, tree.Name):
                    raise SourceError(update.position, "expected an assignment to a variable of the loop")
                declaration = frame.facts.references[update.target]
                expression = frame.facts.combined.get(update, update.value)
                value = frame.evaluator.convert(
                    frame.evaluator.value(expression), frame.declared(declaration)
                )
                if value is None:
                    raise SourceError(update.position, "expected a step that is known when compiling")
                frame.bindings[declaration] = value
            holds = frame.evaluator.value(statement.condition)
        return True

    def _count_repetition(self, node: tree.Node) -> None:
        self._unrolled += 1
        if self._unrolled > MAX_UNROLLED:
            raise SourceError(
                node.position, f"expected at most {MAX_UNROLLED} repetitions of all loops together"
            )

    def _loop(self, statement: tree.For, frame: Frame) -> None:
        """Lower a loop of an action to one at run time."""
        for each in statement.initial:
            self.statement(each, frame)
        ended = Part(Label("break"))
        frame.items.append(ended)
        loop = Loop(Label("loop"), statement.position)
        ended.items.append(loop)
        inner = frame.within(loop.items)
        condition = self.scalar(statement.condition, inner)
        branch = Branch(condition, statement.condition.position, "")
        branch.otherwise.append(Leave(ended.label))
        loop.items.append(branch)
        repeated = Part(Label("continue"))
        loop.items.append(repeated)
        inner = frame.within(repeated.items)
        inner.loops = [*frame.loops, (ended.label, repeated.label)]
        self.statement(statement.body, inner)
        after = frame.within(loop.items)
        for update in statement.updates:
            self.statement(update, after)

    def _for_in(self, statement: tree.ForIn, frame: Frame) -> None:
        declaration = frame.facts.references[statement]
        given = frame.declared(declaration)
        elements = self._elements(statement, frame, given)
        ended = Part(Label("break"))
        frame.items.append(ended)
        for element in elements:
            self._count_repetition(statement)
            repeated = Part(Label("continue"))
            ended.items.append(repeated)
            inner = frame.within(repeated.items)
            inner.loops = [*frame.loops, (ended.label, repeated.label)]
            if statement.type is None or _assigns(statement.body, declaration, frame):
                if not isinstance(frame.bindings.get(declaration), Operand):
                    frame.bindings[declaration] = self.storage.make(given, statement.name, statement)
                target = frame.bindings[declaration]
                assert isinstance(target, Operand)
                self.assign(target, element, inner, statement)
            else:
                frame.bindings[declaration] = element
            self.statement(statement.body, inner)

    def _elements(self, statement: tree.ForIn, frame: Frame, given: types.Type) -> list[Operand]:
        collection = statement.collection
        if isinstance(collection, tree.Range):
            low, high = (frame.evaluator.value(each) for each in (collection.low, collection.high))
            if not isinstance(low, int) or not isinstance(high, int):
                raise SourceError(statement.position, "expected a range whose ends are known when compiling")
            if high - low >= MAX_UNROLLED:
                raise SourceError(
                    statement.position, f"expected at most {MAX_UNROLLED} repetitions, got {high - low + 1}"
                )
            return [self.constant_operand(value, given, statement) for value in range(low, high + 1)]
        if isinstance(collection, tree.Cast) and isinstance(frame.declared(collection), types.List):
            collection = collection.operand
        # The collection is evaluated once, before its elements are changed by the body.
        bound = [frame.bindings.get(each) for each in assigned_declarations(statement.body, frame)]
        written = set().union(*(self.leaves(each) for each in bound if isinstance(each, Operand)))
        elements = self.parts(self.lower(collection, frame), statement)
        return [
            self.stable_copy(each, frame, statement) if self.leaves(each) & written else each
            for each in elements
        ]


def has_index(expression: tree.Expression) -> bool:
    """Return whether an expression has an index of a stack."""
    while isinstance(expression, tree.Member | tree.Index | tree.Slice):
        if isinstance(expression, tree.Index):
            return True
        expression = expression.base
    return False


def _assigns(node: object, declaration: tree.Declaration, frame: Frame) -> bool:
    """Return whether a statement may assign to a variable."""
    return declaration in assigned_declarations(node, frame)


def assigned_declarations(node: object, frame: Frame) -> set[tree.Declaration]:
    """Return the variables and parameters to which statements may assign, by assignments and by calls."""
    found: set[tree.Declaration] = set()
    stack: list[object] = [node]
    while stack:
        each = stack.pop()
        match each:
            case tree.Assignment(target=target):
                found |= _roots(target, frame)
                stack.append(each.value)
            case tree.Call():
                called = frame.facts.calls.get(each)
                if called is not None:
                    for parameter, argument in zip(called.parameters, called.arguments, strict=False):
                        if (
                            argument is not None
                            and argument.value is not None
                            and parameter.direction in ("out", "inout")
                        ):
                            found |= _roots(argument.value, frame)
                    if called.kind == "builtin" and called.receiver is not None and called.name != "isValid":
                        found |= _roots(called.receiver, frame)
                    if isinstance(called.declaration, tree.Action):
                        stack.append(called.declaration.body)
                    elif isinstance(called.declaration, tree.Table):
                        for reference in called.declaration.actions:
                            for argument in reference.arguments:
                                found |= (
                                    _roots(argument.value, frame) if argument.value is not None else set()
                                )
                            stack.append(getattr(frame.facts.references[reference], "body", None))
                stack += [argument.value for argument in each.arguments]
            case tree.ForIn():
                found |= {frame.facts.references[each]} if each.type is None else set()
                stack += [each.body, each.collection]
            case list():
                stack += each
            case tree.Node():
                stack += [getattr(each, name) for name in _slots(type(each))]
    return found


def mentioned_declarations(node: object, frame: Frame) -> set[tree.Declaration]:
    """Return the variables and parameters that statements name, and those in actions that they call."""
    found: set[tree.Declaration] = set()
    stack: list[object] = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, list):
            stack += each
        elif isinstance(each, tree.Name):
            if (declaration := frame.facts.references.get(each)) is not None and declaration not in found:
                found.add(declaration)
                if isinstance(declaration, tree.Action):
                    stack.append(declaration.body)
        elif isinstance(each, tree.Node):
            stack += [getattr(each, name) for name in _slots(type(each))]
    return found


def _slots(kind: type) -> list[str]:
    return [
        name for parent in kind.__mro__ for name in getattr(parent, "__slots__", ()) if name != "position"
    ]


def _roots(expression: tree.Expression, frame: Frame) -> set[tree.Declaration]:
    while isinstance(expression, tree.Member | tree.Index | tree.Slice):
        expression = expression.base
    if isinstance(expression, tree.Name) and (found := frame.facts.references.get(expression)) is not None:
        return {found}
    return set()


__all__ = ["StatementLowering", "assigned_declarations", "has_effects"]
