"""Finds what the control plane sees of a program, in the order that p4c has once controls are inlined.

Tables that are not applied, actions that no table has and no control calls, and controls that are not called
are not part of it; instances of externs are, even unused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from softswitch.p4 import tree, types
from softswitch.p4.constants import Evaluator
from softswitch.p4.lower_program import Lowered
from softswitch.p4.objects import CallableObject, ExternObject, control_plane_name
from softswitch.p4.scopes import CallTarget
from softswitch.p4.tree_walk import parts

NO_ACTION = "NoAction"


@dataclass(slots=True, eq=False)
class SeenTable:
    declaration: tree.Table
    owner: CallableObject
    name: str


@dataclass(slots=True, eq=False)
class SeenAction:
    """An action of a control; without `has_data` it is only called, with arguments for all parameters."""

    declaration: tree.Action
    owner: CallableObject
    name: str
    has_data: bool = False
    users: int = 0
    """How many tables and calls p4c makes a copy for."""


@dataclass(slots=True, eq=False)
class SeenValueSet:
    declaration: tree.ValueSet
    owner: CallableObject
    name: str


@dataclass(slots=True)
class FunctionCall:
    """A call of an extern function, with the types of the generic declarations around it."""

    call: tree.Call
    target: CallTarget
    substitution: types.Substitution


Seen = SeenTable | SeenAction | SeenValueSet | ExternObject
ActionKey = tuple[CallableObject | None, tree.Action]


@dataclass(slots=True, eq=False)
class PackageBlock:
    """A parser or control of the package, with all that is called in it."""

    seen: list[Seen] = field(default_factory=list)
    calls: list[FunctionCall] = field(default_factory=list)
    """Calls in the body itself, not in its actions."""


@dataclass(slots=True)
class _Uses:
    """Uses of tables, actions and instances in the bodies of a block."""

    tables: set[tuple[CallableObject, tree.Table]] = field(default_factory=set)
    actions: list[tuple[ActionKey, CallableObject]] = field(default_factory=list)
    """Actions that bodies call, each with the control that does."""
    entered: dict[CallableObject, None] = field(default_factory=dict)
    direct: dict[CallableObject, list[CallableObject]] = field(default_factory=dict)
    """Instances that calls of types make, by the control that calls."""


class ObjectFinder:
    def __init__(self, lowered: Lowered) -> None:
        self._state = lowered.state
        self._facts = lowered.state.facts
        self._made: dict[tuple[tree.Call, CallableObject], CallableObject] = {}

    def blocks(self, lowered: Lowered) -> list[PackageBlock]:
        return [self._block(found) for found in lowered.blocks.values()]

    def globals(self) -> list[ExternObject]:
        return [each for each in self._state.elaborator.globals.values() if isinstance(each, ExternObject)]

    # -- blocks

    def _block(self, found: CallableObject) -> PackageBlock:
        block, uses = PackageBlock(), _Uses()
        self._enter(found, uses, block.calls)
        if isinstance(found.declaration, tree.Parser):
            block.calls.clear()  # p4c looks for them in controls alone
        local = list(self._locals(found, uses))
        actions = self._actions(local, uses)
        for each in local:
            if isinstance(each, SeenAction):
                if (used := actions.get((each.owner, each.declaration))) is not None:
                    block.seen.append(used)
            else:
                block.seen.append(each)
        outer = [used for (owner, _), used in actions.items() if owner is None]
        block.seen[:0] = outer
        return block

    def _locals(self, found: CallableObject, uses: _Uses) -> Iterator[Seen]:
        """Yield what a control declares; what inlined controls declare is in the place of their instances."""
        for local in found.declaration.locals:
            match local:
                case tree.Instance():
                    made = found.bindings.get(local)
                    if isinstance(made, ExternObject):
                        yield made
                    elif isinstance(made, CallableObject) and made in uses.entered:
                        yield from self._locals(made, uses)
                case tree.Table() if (found, local) in uses.tables:
                    yield SeenTable(local, found, control_plane_name(local, found.path))
                case tree.Action():
                    yield SeenAction(local, found, control_plane_name(local, found.path))
                case tree.ValueSet():
                    yield SeenValueSet(local, found, control_plane_name(local, found.path))
        for inner in uses.direct.get(found, []):
            yield from self._locals(inner, uses)

    def _actions(self, local: list[Seen], uses: _Uses) -> dict[ActionKey, SeenAction]:
        """Return the actions that tables have and bodies call, in the order of their first use."""
        actions: dict[ActionKey, SeenAction] = {}
        for each in local:
            if isinstance(each, SeenTable):
                used = {self._key(action, each.owner) for action in self.actions_of(each.declaration)}
                for key in (
                    self._key(action, each.owner) for action in self.ordered_actions(each.declaration)
                ):
                    seen = self._use(key, each.owner, actions)
                    seen.has_data = True
                for key in used:
                    actions[key].users += 1
        for key, owner in uses.actions:
            self._use(key, owner, actions).users += 1
        return actions

    def _use(self, key: ActionKey, owner: CallableObject, actions: dict[ActionKey, SeenAction]) -> SeenAction:
        if key not in actions:
            declaration = key[1]
            path = key[0].path if key[0] is not None else ""
            actions[key] = SeenAction(declaration, key[0] or owner, control_plane_name(declaration, path))
        return actions[key]

    def _key(self, action: tree.Action, owner: CallableObject) -> ActionKey:
        return (owner if action in owner.declaration.locals else None), action

    def actions_of(self, table: tree.Table) -> list[tree.Action]:
        """Return the actions of a table as listed, with the `NoAction` that p4c adds."""
        found = [self._facts.references[each] for each in table.actions]
        actions = [each for each in found if isinstance(each, tree.Action)]
        return [*actions, self.no_action()] if lacks_no_action(table) else actions

    def ordered_actions(self, table: tree.Table) -> list[tree.Action]:
        """Return the actions in the order in which the properties of the table name them."""
        actions = self.actions_of(table)
        default = table.properties.get("default_action")
        if default is not None and table.actions and default.position < table.actions[0].position:
            return [self.default_action(table), *actions]
        return actions

    def default_action(self, table: tree.Table) -> tree.Action:
        default = table.properties.get("default_action")
        if default is None:
            return self.no_action(table)
        found = self._facts.calls[default.value].declaration
        assert isinstance(found, tree.Action)
        return found

    def no_action(self, table: tree.Table | None = None) -> tree.Action:
        """Return `NoAction` of the core library, or an action of a table with this name."""
        listed = [] if table is None else [self._facts.references[each] for each in table.actions]
        found = [*(each for each in listed if each.name == NO_ACTION), *self._facts.globals.names[NO_ACTION]]
        return next(each for each in found if isinstance(each, tree.Action))

    # -- bodies

    def _enter(self, found: CallableObject, uses: _Uses, calls: list[FunctionCall]) -> None:
        uses.entered[found] = None
        declaration = found.declaration
        if isinstance(declaration, tree.Control):
            initial = [each for each in declaration.locals if isinstance(each, tree.Variable)]
            for node in (*initial, declaration.body):
                self._walk(node, found, found.substitution, uses, calls)
            return
        for state in declaration.states:
            for statement in state.statements:
                self._walk(statement, found, found.substitution, uses, calls)

    def function_calls(self, action: SeenAction) -> list[FunctionCall]:
        """Return the calls of extern functions in an action, and in the actions that it calls."""
        calls: list[FunctionCall] = []
        self._walk(action.declaration.body, action.owner, action.owner.substitution, None, calls)
        return calls

    def _walk(
        self, node: tree.Node, owner: CallableObject, substitution: types.Substitution, uses: _Uses | None,
        calls: list[FunctionCall],
    ) -> None:  # fmt: skip
        """Collect what a body calls and applies, but for branches that a constant condition excludes."""
        evaluator = Evaluator(self._facts, owner.bindings, substitution)
        stack = [node]
        while stack:
            each = stack.pop()
            if isinstance(each, tree.Conditional | tree.Ternary):
                holds = evaluator.value(each.condition)
                if isinstance(holds, bool):
                    branches = list(parts(each))[1:]  # after the condition
                    stack += branches[:1] if holds else branches[1:]
                    continue
            if isinstance(each, tree.Call) and each in self._facts.calls:
                self._call(each, self._facts.calls[each], owner, substitution, uses, calls)
            stack += reversed(list(parts(each)))

    def _call(
        self, call: tree.Call, target: CallTarget, owner: CallableObject, substitution: types.Substitution,
        uses: _Uses | None, calls: list[FunctionCall],
    ) -> None:  # fmt: skip
        declaration = target.declaration
        match target.kind:
            case "table" if uses is not None and isinstance(declaration, tree.Table):
                uses.tables.add((owner, declaration))
                for element in declaration.key:
                    self._walk(element.expression, owner, substitution, uses, calls)
            case "action" if isinstance(declaration, tree.Action):
                if uses is not None:
                    uses.actions.append((self._key(declaration, owner), owner))
                else:
                    self._walk(declaration.body, owner, substitution, None, calls)
            case "apply" | "direct" if uses is not None:
                inner = self._called(call, target, owner, uses)
                if inner is not None:
                    self._enter(inner, uses, calls)
            case "function" if isinstance(declaration, tree.Function):
                if declaration.body is None and target.name != "static_assert":
                    calls.append(FunctionCall(call, target, substitution))
                elif declaration.body is not None:
                    known = {v: types.substitute(t, substitution) for v, t in target.substitution.items()}
                    self._walk(declaration.body, owner, known, uses, calls)

    def _called(
        self, call: tree.Call, target: CallTarget, owner: CallableObject, uses: _Uses
    ) -> CallableObject | None:
        if target.kind == "apply" and isinstance(target.receiver, tree.Name):
            declaration = self._facts.references.get(target.receiver)
            made = owner.bindings.get(declaration) if declaration is not None else None
            return made if isinstance(made, CallableObject) else None
        if target.kind == "apply" or not isinstance(target.declaration, tree.Control | tree.Parser):
            return None
        made = self._direct(call, target.declaration, target, owner)
        if made not in uses.entered:
            uses.direct.setdefault(owner, []).append(made)
        return made

    def _direct(
        self,
        call: tree.Call,
        declaration: tree.Control | tree.Parser,
        target: CallTarget,
        owner: CallableObject,
    ) -> CallableObject:
        """Return the instance that a call without one makes, which is lowered if the call can be reached."""
        key = (call, owner)
        lowered = self._state.anonymous.get(key, self._made.get(key))
        if isinstance(lowered, CallableObject):
            return lowered
        known = {v: types.substitute(t, owner.substitution) for v, t in target.substitution.items()}
        path = f"{owner.path}.{declaration.name}"
        self._made[key] = self._state.elaborator.callable(declaration, path, known, {}, call)
        return self._made[key]


def lacks_no_action(table: tree.Table) -> bool:
    """Return whether p4c adds `NoAction` to the actions of a table, for a miss alone."""
    return "default_action" not in table.properties and all(each.name != NO_ACTION for each in table.actions)
