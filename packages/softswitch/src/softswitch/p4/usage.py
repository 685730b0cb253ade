"""Warnings of declarations that nothing uses, and of variables that are read before they have a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from softswitch.p4 import tree, types
from softswitch.p4.diagnostics import SourceFiles
from softswitch.p4.scopes import Facts
from softswitch.p4.tree_walk import parts, walk

_Names = set[tree.Declaration]


def warn_of_usage(program: tree.Program, facts: Facts, sources: SourceFiles) -> None:
    """Warn of what is within the controls, parsers, actions and functions of a program without errors."""
    used = set(facts.references.values())
    for declaration in program.declarations:
        match declaration:
            case tree.Control() | tree.Parser():
                for local in declaration.locals:
                    _warn_if_unused(local, used, sources)
                    if isinstance(local, tree.Action):
                        _check_body([local.body], used, facts, sources)
                if isinstance(declaration, tree.Control):
                    _check_body([declaration.body], used, facts, sources)
                else:
                    for state in declaration.states:
                        _check_body(state.statements, used, facts, sources)
            case tree.Action(body=body) | tree.Function(body=body) if body is not None:
                _check_body([body], used, facts, sources)


def _warn_if_unused(declaration: tree.Declaration, used: _Names, sources: SourceFiles) -> None:
    kinds: dict[type[tree.Node], str] = {
        tree.Action: "action", tree.Table: "table", tree.Variable: "variable", tree.Constant: "constant",
        tree.ValueSet: "value set",
    }  # fmt: skip
    kind = kinds.get(type(declaration))
    if kind is None or declaration in used:
        return
    if any(each.name in ("noWarn", "hidden") for each in declaration.annotations):
        return
    sources.warn(declaration.position, f"the {kind} `{declaration.name}` is never used")


def _check_body(
    statements: Sequence[tree.Statement], used: _Names, facts: Facts, sources: SourceFiles
) -> None:
    for declaration in _variables(statements):
        _warn_if_unused(declaration, used, sources)
    _Reads(facts, sources).check(statements, set())


def _variables(nodes: Iterable[tree.Node]) -> Iterator[tree.Variable]:
    return (node for node in walk(nodes) if isinstance(node, tree.Variable))


class _Reads:
    """Follows statements in their order; what only some ways assign counts as assigned afterwards."""

    def __init__(self, facts: Facts, sources: SourceFiles) -> None:
        self._facts, self._sources = facts, sources

    def check(self, statements: Iterable[tree.Statement], unset: _Names) -> None:
        for statement in statements:
            self._check(statement, unset)

    def _check(self, statement: tree.Statement, unset: _Names) -> None:
        match statement:
            case tree.Variable(initial=initial):
                if initial is not None:
                    self._read(initial, unset)
                elif _is_scalar(self._facts.declared_type(statement)):
                    unset.add(statement)
            case tree.Assignment(target=target, operator=operator, value=value):
                self._read(value, unset)
                if operator:
                    self._read(target, unset)
                self._assign(target, unset)
            case tree.Block(annotations=annotations) if any(each.name == "noWarn" for each in annotations):
                pass
            case tree.Block(statements=statements):
                self.check(statements, unset)
            case tree.Conditional(condition=condition, then=then, otherwise=otherwise):
                self._read(condition, unset)
                self._branches([[then], [otherwise] if otherwise is not None else []], unset)
            case tree.Switch(value=value, cases=cases):
                self._read(value, unset)
                self._branches([[case.body] for case in cases if case.body is not None], unset)
            case tree.For(initial=initial_statements, condition=condition, updates=updates, body=body):
                self.check(initial_statements, unset)
                self._read(condition, unset)
                self._branches([[body, *updates]], unset)
            case tree.ForIn(body=body):
                unset.discard(self._facts.references[statement])
                self._branches([[body]], unset)
            case tree.CallStatement(call=call):
                self._read(call, unset)
            case tree.Return(value=returned) if returned is not None:
                self._read(returned, unset)

    def _branches(self, branches: Iterable[Iterable[tree.Statement]], unset: _Names) -> None:
        before = set(unset)
        for branch in branches:
            inner = set(before)
            self.check(branch, inner)
            unset &= inner

    def _assign(self, target: tree.Expression, unset: _Names) -> None:
        while isinstance(target, tree.Member | tree.Index | tree.Slice):
            if isinstance(target, tree.Index):
                self._read(target.index, unset)
            target = target.base
        if isinstance(target, tree.Name) and (declaration := self._facts.references.get(target)) is not None:
            unset.discard(declaration)

    def _read(self, expression: tree.Expression, unset: _Names) -> None:
        if not unset:
            return
        assigned: list[tree.Expression] = []
        stack: list[tree.Node] = [expression]
        while stack:
            node = stack.pop()
            if isinstance(node, tree.Call) and (target := self._facts.calls.get(node)) is not None:
                for parameter, argument in zip(target.parameters, target.arguments, strict=False):
                    if argument is not None and argument.value is not None:
                        (assigned if parameter.direction == "out" else stack).append(argument.value)
                stack.append(node.function)
                continue
            if isinstance(node, tree.Name) and (declaration := self._facts.references.get(node)) in unset:
                assert declaration is not None
                text = f"`{node.name}` is read here before it has a value ({declaration.position})"
                self._sources.warn(node.position, text)
                unset.discard(declaration)
            stack.extend(parts(node))
        for target_expression in assigned:
            self._assign(target_expression, unset)


def _is_scalar(found: types.Type) -> bool:
    base = types.base_of(found)
    return isinstance(base, types.Bits | types.Enum) or base in (types.BOOL, types.ERROR)
