"""Execution of statements (specification, §12)."""

from __future__ import annotations

from softswitch.p4 import tree, types
from switch_harness.p4_interpreter import values
from switch_harness.p4_interpreter.instances import (
    Activation,
    BreakSignal,
    ContinueSignal,
    ExitSignal,
    ReturnSignal,
)
from switch_harness.p4_interpreter.operators import Operators
from switch_harness.p4_interpreter.values import Cell, Stack

MAX_ITERATIONS = 10_000


class Statements(Operators):
    def execute(self, statement: tree.Statement, activation: Activation) -> None:
        match statement:
            case tree.Assignment():
                self._assign(statement, activation)
            case tree.CallStatement(call=call):
                self.call(call, activation)
            case tree.Block(statements=statements):
                for each in statements:
                    self.execute(each, activation)
            case tree.Variable():
                self.declare(statement, activation)
            case tree.Conditional(condition=condition, then=then, otherwise=otherwise):
                if self.holds(condition, activation):
                    self.execute(then, activation)
                elif otherwise is not None:
                    self.execute(otherwise, activation)
            case tree.Return(value=value):
                found = (
                    None
                    if value is None
                    else self.evaluate(value, activation, self.returned_type(activation))
                )
                raise ReturnSignal(found)
            case tree.Exit():
                raise ExitSignal
            case tree.Break():
                raise BreakSignal
            case tree.Continue():
                raise ContinueSignal
            case tree.Switch():
                self._switch(statement, activation)
            case tree.For():
                self._for(statement, activation)
            case tree.ForIn():
                self._for_in(statement, activation)
            case tree.Empty() | tree.Constant():
                pass
            case _:
                raise AssertionError(f"{statement.position.line}: expected a statement, got {statement}")

    def returned_type(self, activation: Activation) -> types.Type | None:
        """Return the type of the values of the function that runs."""
        raise NotImplementedError

    def declare(self, variable: tree.Variable, activation: Activation) -> None:
        given = self.declared(variable, activation)
        made = values.uninitialised(given, self.facts)
        if variable.initial is not None:
            values.store(made, self.evaluate(variable.initial, activation, given))
        activation.names[variable] = made

    def _assign(self, statement: tree.Assignment, activation: Activation) -> None:
        place = self.place(statement.target, activation)
        given = self.type_of(statement.target, activation)
        if not statement.operator:
            values.store(place, self.evaluate(statement.value, activation, given))
            return
        # The target is evaluated once: its value stands in the operation as a variable of its own.
        combined = self.facts.combined[statement]
        variable = tree.Variable(
            statement.position, "target", [], tree.BaseType(statement.position, "_"), None
        )
        name = tree.Name(statement.position, "target")
        activation.names[variable] = Cell(None, self.defined(self.read(place), given))
        self.facts.references[name], self.facts.types[name] = variable, given
        operation = tree.Binary(statement.position, statement.operator, name, statement.value)
        self.facts.types[operation] = self.facts.types[combined]
        values.store(place, self.evaluate(operation, activation, given))

    def _switch(self, statement: tree.Switch, activation: Activation) -> None:
        given = self.type_of(statement.value, activation)
        is_action = isinstance(given, types.ActionRun)
        value = (
            self.evaluate(statement.value, activation)
            if is_action
            else self.scalar(statement.value, activation)
        )
        chosen: int | None = None
        for i, case in enumerate(statement.cases):
            if isinstance(case.label, tree.Default):
                chosen = i if chosen is None else chosen
                continue
            if is_action:
                matches = isinstance(case.label, tree.Name) and case.label.name == value
            else:
                matches = self.equal(value, self.evaluate(case.label, activation, given), given)
            if matches:
                chosen = i
                break
        if chosen is None:
            return
        body = next((case.body for case in statement.cases[chosen:] if case.body is not None), None)
        if body is not None:
            self.execute(body, activation)

    # -- loops

    def _for(self, statement: tree.For, activation: Activation) -> None:
        for each in statement.initial:
            self.execute(each, activation)
        for _ in range(MAX_ITERATIONS):
            if not self.holds(statement.condition, activation) or not self._iterate(
                statement.body, activation
            ):
                return
            for each in statement.updates:
                self.execute(each, activation)
        raise AssertionError(f"{statement.position.line}: expected at most {MAX_ITERATIONS} iterations")

    def _iterate(self, body: tree.Statement, activation: Activation) -> bool:
        """Execute the body of a loop once; return whether the loop goes on."""
        try:
            self.execute(body, activation)
        except BreakSignal:
            return False
        except ContinueSignal:
            pass
        return True

    def _for_in(self, statement: tree.ForIn, activation: Activation) -> None:
        variable = self.facts.references[statement]
        given = self.declared(variable, activation)
        for value in self._collection(statement.collection, given, activation):
            if statement.type is not None:
                activation.names[variable] = values.uninitialised(given, self.facts)
            owner = activation.find(variable)
            assert owner is not None
            place = owner.names[variable]
            assert isinstance(place, Cell | values.Struct | values.Header | Stack)
            values.store(place, value)
            if not self._iterate(statement.body, activation):
                return

    def _collection(
        self, collection: tree.Expression, given: types.Type, activation: Activation
    ) -> list[values.Value]:
        if isinstance(collection, tree.Range):
            low, high = (self.integer(each, activation, given) for each in (collection.low, collection.high))
            return list(range(low, high + 1))
        if isinstance(collection, tree.ListExpression):
            return [self.evaluate(each, activation, given) for each in collection.elements]
        found = self.evaluate(collection, activation)
        if isinstance(found, Stack):
            return [values.load(each) for each in found.elements]
        assert isinstance(found, values.Struct)
        return [values.load(each) for each in found.parts.values()]
