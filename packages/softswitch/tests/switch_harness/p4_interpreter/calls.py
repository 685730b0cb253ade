"""Calls with copy-in and copy-out (specification, §6.8), and methods of headers and stacks."""

from __future__ import annotations

from collections.abc import Callable

from softswitch.p4 import tree, types
from softswitch.p4.scopes import CallTarget, Facts
from switch_harness.p4_interpreter import values
from switch_harness.p4_interpreter.instances import (
    Activation,
    Bound,
    ExitSignal,
    ExternInstance,
    Instance,
    ParserReject,
    ReturnSignal,
)
from switch_harness.p4_interpreter.statements import Statements
from switch_harness.p4_interpreter.values import Fill, Header, Place, Stack, Storage, Value

_Copies = list[tuple[Place, Storage]]


class Calls(Statements):
    def __init__(self, facts: Facts, fill: Fill) -> None:
        super().__init__(facts, fill)
        self._returned: dict[Activation, types.Type] = {}

    def returned_type(self, activation: Activation) -> types.Type | None:
        return self._returned.get(activation)

    def call(self, call: tree.Call, activation: Activation, wanted: types.Type | None = None) -> Value:
        target = self.facts.calls[call]
        match target.kind:
            case "size":
                assert target.type is not None
                bits = self._bits(types.substitute(target.type, activation.substitution))
                return -(-bits // 8) if target.name.endswith("Bytes") else bits
            case "builtin":
                return self._builtin(target, activation)
            case "table":
                self.apply_table(call, activation)
                return None
            case "action":
                assert isinstance(target.declaration, tree.Action)
                self.run_action(target.declaration, target, call, activation)
                return None
            case "apply" | "direct":
                self._apply(call, target, activation)
                return None
            case "function" if (
                isinstance(target.declaration, tree.Function) and target.declaration.body is not None
            ):
                return self._function(call, target, target.declaration, activation)
            case "function":
                return self.extern_function(target, activation)
            case "method":
                assert target.receiver is not None
                receiver = self.bound(target.receiver, activation)
                if isinstance(receiver, ExternInstance):
                    self.extern_method(receiver, target, activation)
                    return None
                return self.packet_method(receiver, target, activation)
        raise AssertionError(f"{call.position.line}: expected a call, got {target.kind}")

    def packet_method(self, receiver: Bound, target: CallTarget, activation: Activation) -> Value:
        raise NotImplementedError

    def run_parser(self, found: Instance, inner: Activation) -> None:
        raise NotImplementedError

    def instance(
        self, declaration: tree.Control | tree.Parser, bindings: dict[tree.Declaration, Bound],
        substitution: types.Substitution,
    ) -> Instance:  # fmt: skip
        raise NotImplementedError

    def extern_function(self, target: CallTarget, activation: Activation) -> Value:
        raise NotImplementedError

    def extern_method(self, found: ExternInstance, target: CallTarget, activation: Activation) -> None:
        raise NotImplementedError

    def _bits(self, given: types.Type) -> int:
        given = types.representation(given)
        if isinstance(given, types.Bits):
            return given.width
        if isinstance(given, types.Stack):
            return given.size * self._bits(given.element)
        if given == types.BOOL:
            return 1
        return sum(map(self._bits, values.element_types(given, self.facts).values()))

    # -- headers and stacks

    def _builtin(self, target: CallTarget, activation: Activation) -> Value:
        assert target.receiver is not None
        if target.name == "isValid":
            header = self.part_of(target.receiver, activation)
            assert isinstance(header, Header)
            return bool(self.fill.bits(1)) if header.valid is None else header.valid
        place = self.place(target.receiver, activation)
        if isinstance(place, Header):
            if target.name == "setInvalid":
                place.valid = False
            elif place.valid is not None:
                place.set_valid()
            return None
        assert isinstance(place, Stack)
        [argument] = target.arguments
        assert argument is not None
        assert argument.value is not None
        count = self.integer(argument.value, activation)
        shift(place, count if target.name == "push_front" else -count)
        return None

    # -- arguments

    def bind(self, target: CallTarget, call: tree.Node, caller: Activation, inner: Activation) -> _Copies:
        """Evaluate the arguments as they are written; return what is copied out, and to where."""
        written = call.arguments if isinstance(call, tree.Call) else []
        pairs = list(zip(target.parameters, target.arguments, strict=True))
        if written:
            pairs.sort(key=lambda pair: written.index(pair[1]) if pair[1] in written else len(written))
        copies: _Copies = []
        for parameter, argument in pairs:
            given = types.substitute(self.facts.declared[parameter], inner.substitution)
            expression = argument.value if argument is not None else parameter.default
            if isinstance(given, types.Object):
                assert expression is not None
                inner.names[parameter] = self.bound(expression, caller)
                continue
            made = values.uninitialised(given, self.facts)
            inner.names[parameter] = made
            if parameter.direction in ("out", "inout") and expression is not None:
                place = self.place(expression, caller)
                copies.append((place, made))
                if parameter.direction == "inout":
                    values.store(made, self.read(place))
            elif expression is not None:
                scope = caller if argument is not None else inner
                values.store(made, self.evaluate(expression, scope, given))
        return copies

    def run(self, body: Callable[[], None], copies: _Copies) -> Value:
        """Run a body, and copy out what it has computed also if it ends early.

        The results of a parser that rejects are copied, as softswitch has them in the caller's variables.
        The specification (section 13) identifies its reject with the caller's, and copies nothing.
        """
        result: Value = None
        try:
            body()
        except ReturnSignal as signal:
            result = signal.value
        except (ExitSignal, ParserReject):
            self._copy_out(copies)
            raise
        self._copy_out(copies)
        return result

    def _copy_out(self, copies: _Copies) -> None:
        for place, made in copies:
            values.store(place, values.load(made))

    # -- bodies

    def _function(
        self, call: tree.Call, target: CallTarget, declaration: tree.Function, activation: Activation
    ) -> Value:
        known = self.resolved(target, activation)
        inner = Activation(None, known)
        copies = self.bind(target, call, activation, inner)
        self._returned[inner] = types.substitute(self.facts.returns[declaration], known)
        body = declaration.body
        assert body is not None
        try:
            return self.run(lambda: self.execute(body, inner), copies)
        finally:
            del self._returned[inner]

    def resolved(self, target: CallTarget, activation: Activation) -> dict[types.Variable, types.Type]:
        return {v: types.substitute(t, activation.substitution) for v, t in target.substitution.items()}

    def run_action(
        self, action: tree.Action, target: CallTarget, call: tree.Node, activation: Activation,
        data: dict[tree.Declaration, Storage] | None = None,
    ) -> None:  # fmt: skip
        """Run an action; `data` has the parameters that an entry gives."""
        root = activation.root
        inner = Activation(root.instance, root.substitution, root)
        copies = self.bind(target, call, activation, inner)
        inner.names.update(data or {})
        self.run(lambda: self.execute(action.body, inner), copies)

    def _apply(self, call: tree.Call, target: CallTarget, activation: Activation) -> None:
        if target.kind == "direct":
            root = activation.root.instance
            assert root is not None
            if call not in root.anonymous:
                assert isinstance(target.declaration, tree.Control | tree.Parser)
                root.anonymous[call] = self.instance(
                    target.declaration, {}, self.resolved(target, activation)
                )
            found: Bound = root.anonymous[call]
        else:
            assert target.receiver is not None
            found = self.bound(target.receiver, activation)
        assert isinstance(found, Instance)
        known = {**found.substitution, **self.resolved(target, activation)}
        inner = Activation(found, known)
        bound = CallTarget(target.kind, parameters=found.declaration.parameters, arguments=target.arguments)
        copies = self.bind(bound, call, activation, inner)
        self.run(lambda: self.run_callable(found, inner), copies)

    def run_callable(self, found: Instance, inner: Activation) -> None:
        for local in found.declaration.locals:
            if isinstance(local, tree.Variable):
                self.declare(local, inner)
        if isinstance(found.declaration, tree.Parser):
            self.run_parser(found, inner)
        else:
            self.execute(found.declaration.body, inner)


def shift(stack: Stack, count: int) -> None:
    """Shift the elements of a stack to higher indices by `count`, or to lower ones if it is negative."""
    size = len(stack.elements)
    old = [values.copied(each) for each in stack.elements]
    for i, element in enumerate(stack.elements):
        assert isinstance(element, Header)
        if 0 <= i - count < size:
            values.store(element, values.load(old[i - count]))
        else:
            element.valid = False
    stack.next_index = max(0, min(size, stack.next_index + count))
