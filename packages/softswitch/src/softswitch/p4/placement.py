"""Rules for the places of calls, instances and jumps (specification, §11, §12, §13, §14 and appendix F)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from softswitch.p4 import tree, types
from softswitch.p4.diagnostics import SourceFiles
from softswitch.p4.scopes import Facts
from softswitch.p4.tree_walk import walk

Place = Literal["parser", "control", "action", "function"]
_PARSER_ONLY = ("next", "last", "lastIndex")
_NAMES_OF_PLACES = {
    "parser": "a parser",
    "control": "a control",
    "action": "an action",
    "function": "a function",
}
_APPLIED = {"table": "a table", "apply": "a control or a parser", "direct": "a control or a parser"}


def check_placement(program: tree.Program, facts: Facts, sources: SourceFiles) -> None:
    """Report calls, instances and statements of a checked program that stand where they may not."""
    checker = _PlacementChecker(facts, sources)
    for declaration in program.declarations:
        checker.check_declaration(declaration)


@dataclass(slots=True)
class _PlacementChecker:
    facts: Facts
    sources: SourceFiles

    def check_declaration(self, declaration: tree.Declaration) -> None:
        match declaration:
            case tree.Parser():
                for local in declaration.locals:
                    self._local(local, declaration, "parser")
                for state in declaration.states:
                    self._statements(state.statements, "parser", loops=0)
                    if isinstance(state.next, tree.Select):
                        self._select(state.next)
            case tree.Control():
                for local in declaration.locals:
                    self._local(local, declaration, "control")
                self._statements(declaration.body.statements, "control", loops=0)
            case tree.Action(body=body):
                self._statements(body.statements, "action", loops=0)
            case tree.Function(body=body) if body is not None:
                self._statements(body.statements, "function", loops=0)
            case tree.Instance(body=members):
                for member in members:
                    self.check_declaration(member)

    def _local(self, local: tree.Declaration, owner: tree.Parser | tree.Control, place: Place) -> None:
        match local:
            case tree.Instance():
                made = self.facts.declared.get(local)
                other = tree.Control if place == "parser" else tree.Parser
                if isinstance(made, types.Object) and isinstance(made.declaration, other):
                    kind = "control" if other is tree.Control else "parser"
                    self.sources.error(
                        local.position, f"expected no {kind} within a {place}, got `{local.name}`"
                    )
                self.check_declaration(local)
            case tree.Table():
                self._table(local)
            case tree.Variable() | tree.Constant():
                self._expressions([local], place)
            case _:
                self.check_declaration(local)

    def _table(self, table: tree.Table) -> None:
        for reference in table.actions:
            for call in _calls(reference.arguments):
                if self._kind(call) == "table":
                    text = "expected no call of a table in an argument of an action"
                    self.sources.error(call.position, f"{text}, got `{self._name(call)}.apply()`")
        self._expressions([*table.key, *table.entries, *table.properties.values()], "control")

    def _select(self, select: tree.Select) -> None:
        self._expressions(select.values, "parser")
        for call in _calls(key for case in select.cases for key in case.keys):
            if self._kind(call) not in ("size", "constructor"):
                self.sources.error(
                    call.position, f"expected a set without calls, got one of `{self._name(call)}`"
                )

    # -- statements

    def _statements(self, statements: Iterable[tree.Statement], place: Place, loops: int) -> None:
        for statement in statements:
            self._statement(statement, place, loops)

    def _statement(self, statement: tree.Statement, place: Place, loops: int) -> None:
        position = statement.position
        where = _NAMES_OF_PLACES[place]
        match statement:
            case tree.Instance():
                text = (
                    f"expected the instance `{statement.name}` among the declarations of a control or a "
                    "parser"
                )
                self.sources.error(position, f"{text}, got it among the statements of {where}")
            case tree.Block(statements=statements):
                self._statements(statements, place, loops)
            case tree.Conditional(condition=condition, then=then, otherwise=otherwise):
                self._expressions([condition], place)
                self._statements([then] if otherwise is None else [then, otherwise], place, loops)
            case tree.Switch(value=value, cases=cases):
                if place == "parser":
                    self.sources.error(
                        position, "expected no `switch` in a parser, which has `transition select`"
                    )
                self._expressions([value.base if isinstance(value, tree.Member) else value], place)
                for case in cases:
                    self._expressions([case.label], place)
                    self._statements(case.body.statements if case.body is not None else (), place, loops)
            case tree.For(initial=initial, condition=condition, updates=updates, body=body):
                self._statements([*initial, *updates], place, loops)
                self._expressions([condition], place)
                self._statement(body, place, loops + 1)
            case tree.ForIn(collection=collection, body=body):
                self._expressions([collection], place)
                self._statement(body, place, loops + 1)
            case tree.Break() | tree.Continue() if not loops:
                word = "break" if isinstance(statement, tree.Break) else "continue"
                self.sources.error(position, f"expected `{word}` within a loop, there is none around it")
            case tree.Return() if place == "parser":
                self.sources.error(position, "expected `transition` at the end of a state, got `return`")
            case tree.Exit() if place in ("parser", "function"):
                self.sources.error(position, f"expected `exit` in a control or an action, got it in {where}")
            case _:
                self._expressions([statement], place)

    # -- expressions

    def _expressions(self, nodes: Iterable[tree.Node], place: Place) -> None:
        for node in walk(nodes):
            if isinstance(node, tree.Call):
                self._call(node, place)
            elif isinstance(node, tree.Member):
                self._member(node, place)

    def _member(self, node: tree.Member, place: Place) -> None:
        base = self.facts.types.get(node.base)
        if node.name in _PARSER_ONLY and place != "parser" and isinstance(base, types.Stack):
            where = _NAMES_OF_PLACES[place]
            self.sources.error(
                node.position, f"expected `{node.name}` of a header stack in a parser, got it in {where}"
            )
        if node.name == "action_run" and isinstance(base, types.ApplyResult):
            self.sources.error(
                node.position, "expected `action_run` as the value of a `switch`, got it elsewhere"
            )

    def _call(self, call: tree.Call, place: Place) -> None:
        kind, where = self._kind(call), _NAMES_OF_PLACES[place]
        if kind in _APPLIED and (place in ("action", "function") or (place == "parser" and kind == "table")):
            text = f"expected {_APPLIED[kind]} to be applied in `apply` of a control"
            self.sources.error(call.position, f"{text}, got `{self._name(call)}.apply()` in {where}")
        elif kind == "action" and place in ("parser", "function"):
            text = (
                f"expected actions to be called in controls and actions, got `{self._name(call)}()` in "
                f"{where}"
            )
            self.sources.error(call.position, text)
        elif kind == "function" and self._name(call) == "verify" and place != "parser":
            target = self.facts.calls[call].declaration
            if isinstance(target, tree.Function) and target.body is None:
                self.sources.error(call.position, f"expected `verify` in a parser, got it in {where}")
        elif kind in ("apply", "direct"):
            self._check_kind_of_applied(call, place)

    def _check_kind_of_applied(self, call: tree.Call, place: Place) -> None:
        applied = self.facts.calls[call].declaration
        if place == "parser" and isinstance(applied, tree.Control):
            self.sources.error(call.position, f"expected no control in a parser, got `{applied.name}`")
        elif place == "control" and isinstance(applied, tree.Parser):
            self.sources.error(call.position, f"expected no parser in a control, got `{applied.name}`")

    def _kind(self, call: tree.Call) -> str:
        target = self.facts.calls.get(call)
        return target.kind if target is not None else "none"

    def _name(self, call: tree.Call) -> str:
        target = self.facts.calls.get(call)
        return target.declaration.name if target is not None and target.declaration is not None else "?"


def _calls(nodes: Iterable[tree.Node]) -> Iterator[tree.Call]:
    return (each for each in walk(nodes) if isinstance(each, tree.Call))
