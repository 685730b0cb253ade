"""Lowering of parsers: their states, with those of sub-parsers in the places of calls."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch import ir
from softswitch.ir.names import unique_name
from softswitch.p4 import tree, types
from softswitch.p4.diagnostics import NOWHERE, SourceError
from softswitch.p4.flow import Apply, Branch, Item, Label, Leave, Loop, ParserCall, Part, Step
from softswitch.p4.frames import Frame
from softswitch.p4.lower_statements import lower_locals, lower_statement
from softswitch.p4.lower_transitions import ALL_BITS, Ending, lower_transition
from softswitch.p4.objects import CallableObject
from softswitch.p4.storage import VariableStorage
from softswitch.p4.value_sets import SubParser

MAX_STATES = 1 << 14
Operation = ir.Extract | ir.Advance | ir.Verify | ir.Statement


class StatesBuilder:
    """Builds the states of a parser from their ends: each item knows the state that follows it."""

    def __init__(self, storage: VariableStorage) -> None:
        self._storage = storage
        self._states: list[ir.ParserState | None] = []
        self._names: list[str] = []
        self._taken: set[str] = set()
        self._labels: dict[Label, int | None] = {}

    def add(self, found: CallableObject, frame: Frame, accept: int | None = None, prefix: str = "") -> int:
        declaration = found.declaration
        assert isinstance(declaration, tree.Parser)
        index = {state.name: self._reserve(prefix + state.name) for state in declaration.states}
        targets: dict[str, int | None] = {**index, "accept": accept, "reject": None}
        first: list[Item] = []
        lower_locals(frame.within(first))
        is_entered_again = any("start" in _successors(state) for state in declaration.states)
        for state in declaration.states:
            items: list[Item] = []
            inner = frame.within(items)
            if state.name == "start" and not is_entered_again:
                items.extend(first)
            for statement in state.statements:
                lower_statement(statement, inner)
            ending = lower_transition(state, targets, inner)
            operations, ending = self._split(items, prefix + state.name, ending)
            self._set_state(index[state.name], operations, ending)
        if not is_entered_again or not first:
            return index["start"]
        # Variables are initialised once, before the first state.
        return self._new_state(f"{prefix}start", *self._split(first, prefix, Ending.to(index["start"])))

    def finish(self) -> tuple[ir.ParserState, ...]:
        return tuple(state for state in self._states if state is not None)

    def _reserve(self, name: str) -> int:
        if len(self._states) >= MAX_STATES:
            raise SourceError(NOWHERE, f"expected at most {MAX_STATES} states of the parser, at {name}")
        self._names.append(unique_name(name, self._taken))
        self._states.append(None)
        return len(self._states) - 1

    def _set_state(self, index: int, operations: Sequence[Operation], ending: Ending) -> None:
        name = self._names[index]
        self._states[index] = ir.ParserState(name, tuple(operations), ending.key, ending.cases)

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
                operations, ending = [], Ending.to(self._labels[item.label])
                continue
            following = self._following(operations, ending, name)
            match item:
                case Branch():
                    operations, ending = self._branch(item, name, following)
                case Part(label, inner):
                    self._labels[label] = following
                    operations, ending = self._split(inner, name, Ending.to(following))
                case ParserCall(parser=SubParser(found, frame)):
                    prefix = f"{found.path}."
                    operations, ending = [], Ending.to(self.add(found, frame, following, prefix))
                case Apply() | Loop():
                    raise SourceError(item, "expected no table and no loop in a parser")
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
        flag = self._storage.scalar(types.BOOL, "$tmp", tree.Node(item.position))
        cases = (ir.Case(1, ALL_BITS, targets[0]), ir.Case(0, 0, targets[1]))
        return [ir.Assign(flag, item.condition)], Ending((flag,), cases)


def _successors(state: tree.State) -> list[str]:
    if state.next is None or isinstance(state.next, str):
        return [] if state.next is None else [state.next]
    return [case.state for case in state.next.cases]
