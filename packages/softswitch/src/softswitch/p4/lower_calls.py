"""Lowering of calls of functions, actions, controls and parsers: their bodies take the place of the call."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable

from softswitch import ir
from softswitch.p4 import operands, tree, types
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.flow import Call, Label, Leave, Part, Unit
from softswitch.p4.frames import Frame, frame_bindings
from softswitch.p4.lower_expressions import has_effects
from softswitch.p4.lower_externs import ExternLowering
from softswitch.p4.lower_statements import assigned_declarations, has_index, mentioned_declarations
from softswitch.p4.objects import CallableObject, ExternObject
from softswitch.p4.operands import Operand, Scalar
from softswitch.p4.scopes import Target

MAX_CALL_DEPTH = 64


class CallLowering(ExternLowering):
    def lower_call(self, call: tree.Call, frame: Frame, wanted: types.Type | None = None) -> Operand | None:
        target = frame.facts.calls[call]
        if frame.depth > MAX_CALL_DEPTH:
            raise SourceError(call.position, f"expected at most {MAX_CALL_DEPTH} nested calls")
        match target.kind:
            case "size":
                value = frame.evaluator.value(call)
                assert isinstance(value, int)
                return Scalar(ir.Constant(value), types.INT)
            case "builtin":
                return self._builtin(call, target, frame)
            case "table":
                self.apply_table(call, frame)
                return None
            case "function":
                declaration = target.declaration
                assert isinstance(declaration, tree.Function)
                if declaration.body is None:
                    return self.extern_function(call, target, frame)
                return self._function(call, target, declaration, frame)
            case "action":
                self._action(call, target, frame)
                return None
            case "apply" | "direct":
                self._apply(call, target, frame)
                return None
            case "method":
                found = self.object_of(target.receiver, frame) if target.receiver is not None else None
                return self.extern_method(call, target, found, frame)
        raise SourceError(call.position, "expected a call that the switch can make")

    # -- methods of headers and stacks

    def _builtin(self, call: tree.Call, target: Target, frame: Frame) -> Operand | None:
        assert target.receiver is not None
        receiver = self.lower(target.receiver, frame)
        match target.name:
            case "isValid":
                return Scalar(self.validity(receiver, call), types.BOOL)
            case "setValid" | "setInvalid":
                if not isinstance(receiver, operands.Header):
                    raise SourceError(call.position, "expected a header that can be made valid")
                made = ir.SetValid if target.name == "setValid" else ir.SetInvalid
                frame.emit(made(receiver.reference), call.position)
                return None
        if not isinstance(receiver, operands.Stack) or not receiver.stacks:
            raise SourceError(call.position, "expected a header stack")
        [argument] = target.arguments
        assert argument is not None
        assert argument.value is not None
        count = frame.evaluator.integer(argument.value)
        if count < 0:
            raise SourceError(argument.position, f"expected a number of at least 0, got {count}")
        if count == 0:
            return None
        frame.emit(self._shift(receiver, count if target.name == "push_front" else -count), call.position)
        return None

    def _shift(self, stack: operands.Stack, count: int) -> ir.Shift:
        size = len(stack.elements)
        sources = ir.shift_sources(size, count)
        shifted_in = tuple(i for i in range(size) if not 0 <= i - count < size)
        is_of_unions = isinstance(stack.elements[0], operands.Union)
        return ir.Shift(stack.stacks, count, sources, () if is_of_unions else shifted_in)

    # -- bodies

    def _function(
        self, call: tree.Call, target: Target, declaration: tree.Function, frame: Frame
    ) -> Operand | None:
        substitution = {v: types.substitute(t, frame.substitution) for v, t in target.substitution.items()}
        bindings: ChainMap[tree.Declaration, object] = ChainMap({}, dict(self.elaborator.globals))
        part = Part(Label(f"return of {declaration.name}"))
        inner = Frame(
            frame.facts, frame.body, frame.owner, bindings, substitution, part.items, part.label,
            loops=[], copies_out=list(frame.copies_out), depth=frame.depth + 1,
            outer=bindings, direct_meters=frame.direct_meters,
        )  # fmt: skip
        copies = self._bind(target, substitution, frame, inner, None, call)
        returned = types.substitute(frame.facts.returns[declaration], substitution)
        assert declaration.body is not None
        statements = declaration.body.statements
        if (
            len(statements) == 1
            and isinstance(statements[0], tree.Return)
            and statements[0].value is not None
            and not copies
        ):
            inner.items = frame.items
            return self.lower(statements[0].value, inner, returned)
        if returned != types.VOID:
            inner.result = self.storage.make(returned, f"{declaration.name}.result", declaration)
        frame.items.append(part)
        self.block(declaration.body, inner)
        _drop_last_leave(part)
        for copy in copies:
            copy(frame)
        return inner.result

    def _action(self, call: tree.Call, target: Target, frame: Frame) -> None:
        """Lower a direct call of an action."""
        declaration = target.declaration
        assert isinstance(declaration, tree.Action)
        part = Part(Label(f"return of {declaration.name}"))
        outer = frame.control_bindings
        if frame.body == "control":
            unit = Unit(call.position)
            frame.items.append(unit)
            frame = frame.within(unit.items)
            frame.body = "action"
        inner = Frame(
            frame.facts, frame.body, frame.owner, ChainMap({}, *outer.maps), frame.substitution, part.items,
            part.label,
            copies_out=list(frame.copies_out), depth=frame.depth + 1, outer=outer,
            direct_meters=frame.direct_meters,
        )  # fmt: skip
        copies = self._bind(target, frame.substitution, frame, inner, declaration, call)
        frame.items.append(part)
        self.block(declaration.body, inner)
        _drop_last_leave(part)
        for copy in copies:
            copy(frame)

    def object_of(self, expression: tree.Expression, frame: Frame) -> CallableObject | ExternObject | None:
        """Return the instance that an expression names, or None for the packet of a parser or deparser."""
        if isinstance(expression, tree.Name):
            declaration = frame.facts.references.get(expression)
            found = frame.bindings.get(declaration) if declaration is not None else None
            if isinstance(found, CallableObject | ExternObject):
                return found
            return None
        if isinstance(expression, tree.Call):
            key = (expression, frame.owner)
            if key not in self.anonymous:
                made = self.elaborator.construct_expression(
                    expression, f"{frame.owner.path}.{expression.position.line}", frame.owner
                )
                assert isinstance(made, CallableObject | ExternObject)
                self.anonymous[key] = made
            return self.anonymous[key]
        return None

    def _apply(self, call: tree.Call, target: Target, frame: Frame) -> None:
        """Lower the application of an instance of a control or of a parser."""
        found: CallableObject | ExternObject | None
        if target.kind == "direct":
            declaration = target.declaration
            assert isinstance(declaration, tree.Control | tree.Parser)
            key = (call, frame.owner)
            if key not in self.anonymous:
                path = f"{frame.owner.path}.{declaration.name}"
                substitution = {
                    v: types.substitute(t, frame.substitution) for v, t in target.substitution.items()
                }
                self.anonymous[key] = self.elaborator.callable(declaration, path, substitution, {}, call)
            found = self.anonymous[key]
        else:
            assert target.receiver is not None
            found = self.object_of(target.receiver, frame)
        if not isinstance(found, CallableObject):
            raise SourceError(call.position, "expected an instance of a control or a parser")
        self.run_object(found, target, frame, call)

    def run_object(self, found: CallableObject, target: Target, frame: Frame, node: tree.Node) -> None:
        declaration = found.declaration
        part = Part(Label(f"return of {declaration.name}"))
        inner = Frame(
            frame.facts, frame.body, found, frame_bindings(found), found.substitution, part.items, part.label,
            copies_out=list(frame.copies_out), depth=frame.depth + 1, direct_meters=frame.direct_meters,
        )  # fmt: skip
        # The call may name the parameters of the control's type.
        bound = Target(
            target.kind, declaration, target.receiver, target.name, declaration.parameters, target.arguments,
            target.substitution, target.type,
        )  # fmt: skip
        copies = self._bind(
            bound, {**found.substitution, **_resolved(target, frame)}, frame, inner, None, node
        )
        frame.items.append(part)
        if isinstance(declaration, tree.Parser):
            part.items.append(Call(self.sub_parser(found, inner), node.position))
        else:
            self.control_body(declaration, inner)
            _drop_last_leave(part)
        for copy in copies:
            copy(frame)

    def control_body(self, declaration: tree.Control, frame: Frame) -> None:
        """Lower the local variables of a control, and what it applies."""
        for local in declaration.locals:
            if isinstance(local, tree.Variable):
                self.variable(local, frame)
        self.block(declaration.body, frame)

    def sub_parser(self, found: CallableObject, frame: Frame) -> object:
        raise NotImplementedError

    # -- arguments

    def _bind(
        self, target: Target, substitution: types.Substitution, caller: Frame, callee: Frame,
        action: tree.Action | None, node: tree.Node,
    ) -> list[Callable[[Frame], None]]:  # fmt: skip
        """Bind the parameters of a body, and return what copies results out after it.

        A parameter is bound to the variable that is its argument where nothing else in the body can be that
        variable; otherwise a copy is made before, and copied back after (specification, §6.8).
        """
        copies: list[Callable[[Frame], None]] = []
        lowered, copied, arguments = self._evaluated(target, substitution, caller, callee, node)
        outputs = [
            set() if operand is None or parameter.direction not in ("out", "inout") else self.leaves(operand)
            for parameter, operand in zip(target.parameters, lowered, strict=True)
        ]
        # An action also sees the variables of the control around it.
        written = self._captured(assigned_declarations(action.body, caller) if action else set(), callee)
        seen = self._captured(mentioned_declarations(action.body, caller) if action else set(), callee)
        for i, (parameter, argument, operand) in enumerate(
            zip(target.parameters, arguments, lowered, strict=True)
        ):
            if parameter in callee.bindings.maps[0]:
                continue
            wanted = types.substitute(caller.facts.declared[parameter], substitution)
            expression = argument.value if argument is not None else None
            others = set().union(written, *(each for j, each in enumerate(outputs) if j != i))
            is_output = parameter.direction in ("out", "inout")
            if is_output and operand is not None:
                is_aliased = self.leaves(operand) & (others | seen) or any(
                    self.leaves(operand) & self.leaves(each)
                    for j, each in enumerate(lowered)
                    if j != i and each is not None
                )
                if i not in copied and operands.is_variable(operand) and not is_aliased:
                    callee.bindings[parameter] = operand
                    if parameter.direction == "out":
                        self.invalidate(operand, caller, node)
                    continue
            elif operand is not None and self._is_stable(operand, others):
                callee.bindings[parameter] = operand
                continue
            storage = self.storage.make(wanted, parameter.name, parameter)
            callee.bindings[parameter] = storage
            if parameter.direction == "out":
                self.invalidate(storage, caller, node)
            elif operand is not None:
                self.assign(storage, copied.get(i, operand), caller, node)
            elif expression is not None:
                self.assign(storage, self.lower(expression, caller, wanted), caller, node)
            if is_output and expression is not None:
                copies.append(self._copy_out(expression, storage, caller))
        if copies:
            callee.copies_out.append(lambda frame: _run_all(copies, frame))
        return copies

    def _captured(self, declarations: set[tree.Declaration], callee: Frame) -> set[operands.Leaf]:
        bound = [callee.bindings.get(each) for each in declarations]
        return set().union(*(self.leaves(each) for each in bound if isinstance(each, Operand)))

    def _evaluated(
        self, target: Target, substitution: types.Substitution, caller: Frame, callee: Frame, node: tree.Node
    ) -> tuple[list[Operand | None], dict[int, Operand], list[tree.Argument | None]]:
        """Evaluate arguments in the order in which they are written (specification, §6.8).

        Returned are operands, copies of those of `inout` that calls after them could change, by positions,
        and arguments with the indices that they have now.
        """
        arguments = list(target.arguments)
        lowered: list[Operand | None] = [None] * len(arguments)
        copied: dict[int, Operand] = {}
        given = node.arguments if isinstance(node, tree.Call) else []
        order = {id(each): i for i, each in enumerate(given)}
        written = sorted(range(len(arguments)), key=lambda i: order.get(id(arguments[i]), len(given)))
        for n, i in enumerate(written):
            parameter, argument = target.parameters[i], arguments[i]
            if (
                argument is not None
                and argument.value is not None
                and parameter.direction in ("out", "inout")
            ) and has_index(argument.value):
                pinned = self.pinned(argument.value, caller)
                arguments[i] = argument = tree.Argument(argument.position, argument.name, pinned)
            lowered[i] = operand = self._lower_argument(parameter, argument, substitution, caller, callee)
            later = [
                each.value
                for j in written[n + 1 :]
                if (each := arguments[j]) is not None and each.value is not None
            ]
            if (
                operand is not None
                and parameter.direction != "out"
                and any(has_effects(e, caller) for e in later)
            ):
                if parameter.direction == "inout":
                    copied[i] = self.stable_copy(operand, caller, parameter)
                else:
                    lowered[i] = self.stable_copy(operand, caller, parameter)
        return lowered, copied, arguments

    def _copy_out(
        self, expression: tree.Expression, storage: Operand, caller: Frame
    ) -> Callable[[Frame], None]:
        """Return what copies a result out, where a body ends, to what an argument means to the caller."""
        return lambda frame: self.assign_to(expression, storage, caller.within(frame.items))

    def _is_stable(self, operand: Operand, written: set[operands.Leaf]) -> bool:
        """Return whether a value of an `in` parameter stays what it is while the body runs."""
        if isinstance(operand, Scalar) and operand.is_constant:
            return True
        if isinstance(operand, operands.Struct):
            return all(self._is_stable(each, written) for each in operand.fields.values())
        return operands.is_variable(operand) and not self.leaves(operand) & written

    def _lower_argument(
        self, parameter: tree.Parameter, argument: tree.Argument | None, substitution: types.Substitution,
        caller: Frame, callee: Frame,
    ) -> Operand | None:  # fmt: skip
        """Return the operand of an argument, or None if a copy is needed; an object is bound at once."""
        wanted = types.substitute(caller.facts.declared[parameter], substitution)
        expression = argument.value if argument is not None else None
        if isinstance(wanted, types.Object):
            found = self.object_of(expression, caller) if expression is not None else None
            callee.bindings[parameter] = found
            return None
        if argument is None:
            if parameter.default is None:
                return None
            return self.lower(parameter.default, callee, wanted)
        if expression is None:
            return None
        if parameter.direction == "out" and isinstance(expression, tree.Slice):
            return None
        return self.lower(expression, caller, wanted)


def _run_all(copies: list[Callable[[Frame], None]], frame: Frame) -> None:
    for copy in copies:
        copy(frame)


def _resolved(target: Target, frame: Frame) -> dict[types.Variable, types.Type]:
    return {v: types.substitute(t, frame.substitution) for v, t in target.substitution.items()}


def _drop_last_leave(part: Part) -> None:
    if part.items and isinstance(part.items[-1], Leave) and part.items[-1].label is part.label:
        part.items.pop()
