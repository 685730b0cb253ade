"""Rules for entries, default actions and cases of `select` (specification, §13.6 and §14.2)."""

from __future__ import annotations

from dataclasses import fields

from softswitch.p4 import tree, types
from softswitch.p4.constants import Evaluator
from softswitch.p4.diagnostics import SourceError, SourceFiles
from softswitch.p4.scopes import Facts


def can_select(found: types.Type) -> bool:
    base = types.base_of(found)
    if isinstance(base, types.Tuple):
        return all(map(can_select, base.elements))
    if isinstance(base, types.Set | types.Variable):
        return True
    return isinstance(base, types.Bits | types.Enum) or base in (types.BOOL, types.ERROR, types.UNKNOWN)


def same_tree(left: object, right: object, evaluator: Evaluator) -> bool:
    """Return whether two parts of a program have the same text, or are constants of one value."""
    if isinstance(left, tree.Expression) and isinstance(right, tree.Expression):
        value = evaluator.value(left)
        if value is not None and value == evaluator.value(right):
            return True
    if isinstance(left, tree.StructExpression) and isinstance(right, tree.StructExpression):
        one, other = (sorted(each.fields, key=lambda field: field.name) for each in (left, right))
        return left.has_rest == right.has_rest and same_tree(one, other, evaluator)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            same_tree(one, other, evaluator) for one, other in zip(left, right, strict=True)
        )
    if not isinstance(left, tree.Node) or type(left) is not type(right):
        return left == right
    return all(
        same_tree(getattr(left, field.name), getattr(right, field.name), evaluator)
        for field in fields(left)
        if field.name != "position"
    )


def check_scope_of_action(
    table: tree.Table, value: tree.Expression, annotation: str, use: str, facts: Facts
) -> None:
    """Raise `SourceError` if an action is used in a way that `@tableonly` or `@defaultonly` excludes."""
    target = facts.calls.get(value)
    for reference in table.actions:
        is_same = target is not None and facts.references.get(reference) is target.declaration
        if is_same and any(each.name == annotation for each in reference.annotations):
            text = f"expected an action without `@{annotation}` in {use}"
            raise SourceError(value, f"{text}, got `{reference.name}`")


def check_entries(table: tree.Table, facts: Facts, evaluator: Evaluator, sources: SourceFiles) -> None:
    """Check that the kinds of match allow the sets of entries, and that no exact key is there twice."""
    kinds = [element.kind for element in table.key]
    seen: set[tuple[object, ...]] = set()
    for entry in table.entries:
        if len(entry.keys) != len(kinds):
            continue
        for kind, element, key in zip(kinds, table.key, entry.keys, strict=True):
            try:
                check_set(kind, key, facts.types.get(element.expression, types.UNKNOWN), evaluator)
            except SourceError as error:  # those of other entries are reported, too
                sources.error(error.position, error.message)
        if all(kind == "exact" for kind in kinds):
            pairs = zip(entry.keys, table.key, strict=True)
            values = tuple(
                str(
                    evaluator.convert(
                        evaluator.value(key), facts.types.get(element.expression, types.UNKNOWN)
                    )
                )
                for key, element in pairs
            )
            if values in seen and "None" not in values:
                shown = ", ".join(values)
                raise SourceError(entry, f"expected different keys of the entries, got ({shown}) twice")
            seen.add(values)


def check_set(kind: str, key: tree.Expression, found: types.Type, evaluator: Evaluator) -> None:
    """Check one set of an entry against the kind of its match."""
    if kind == "optional" and isinstance(key, tree.Mask | tree.Range):
        what = "a mask" if isinstance(key, tree.Mask) else "a range"
        raise SourceError(key, f"expected one value for a match of kind optional, got {what}")
    if kind == "range" and isinstance(key, tree.Mask):
        raise SourceError(key, "expected a value or a range for a match of kind range, got a mask")
    if kind in ("lpm", "ternary") and isinstance(key, tree.Range):
        raise SourceError(key, f"expected a value or a mask for a match of kind {kind}, got a range")
    bits = types.representation(found)
    if kind == "lpm" and isinstance(key, tree.Mask) and isinstance(bits, types.Bits):
        mask = evaluator.value(key.mask)
        if isinstance(mask, int):
            rest = ~mask & ((1 << bits.width) - 1)  # one that does not fit is truncated
            if rest & (rest + 1):
                text = (
                    f"expected a mask of ones followed by zeros in {bits.width} bits for a match of kind lpm"
                )
                raise SourceError(key, f"{text}, got {mask:#x}")


def can_end(parser: tree.Parser) -> bool:
    """Return whether a state that accepts or rejects can be reached from `start`."""
    states = {state.name: state for state in parser.states}
    seen, reached = {"start"}, ["start"]
    while reached:
        state = states.get(reached.pop())
        if state is None or state.next is None:
            return True
        if isinstance(state.next, str):
            following = [state.next]
        elif any(isinstance(case.keys[0], tree.Default) for case in state.next.cases):
            following = [case.state for case in state.next.cases]
        else:
            return True  # what no case matches is rejected
        reached += [name for name in following if name not in seen]
        seen.update(following)
    return False


def check_properties(table: tree.Table, evaluator: Evaluator) -> None:
    """Check the properties that give entries their priorities (specification, §14.2.1.4)."""
    largest = table.properties.get("largest_priority_wins")
    if largest is not None and not isinstance(largest.value, tree.Boolean):
        raise SourceError(largest, "expected true or false as `largest_priority_wins`")
    if (delta := table.properties.get("priority_delta")) is not None:
        value = evaluator.value(delta.value)
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            given = str(value) if isinstance(value, int) else "something else"
            raise SourceError(delta, f"expected a constant above 0 as `priority_delta`, got {given}")
    has_priorities = any(entry.priority is not None for entry in table.entries)
    needs_priorities = any(element.kind in ("ternary", "range", "optional") for element in table.key)
    if has_priorities and not needs_priorities:
        kinds = ", ".join(element.kind for element in table.key)
        raise SourceError(table.key[0], f"expected entries without priorities, as the key has only {kinds}")
    if has_priorities and table.entries[0].priority is None:
        raise SourceError(table.entries[0], "expected a priority of the first entry, as others have one")


def check_no_action(table: tree.Table, found: object) -> None:
    """Check that an action `NoAction` without parameters is there, which runs on a miss by default."""
    if "default_action" in table.properties:
        return
    if found is None:
        text = f"expected a `default_action` of the table `{table.name}`, or `NoAction` of core.p4"
        raise SourceError(table, f"{text}, which is not included")
    if not isinstance(found, tree.Action) or found.parameters:
        position = found.position if isinstance(found, tree.Node) else table.position
        raise SourceError(
            position, f"expected `NoAction` to be an action without parameters, as `{table.name}` runs it"
        )
