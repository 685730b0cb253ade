"""Which look-ups are prefetched, and where; differential tests check that results do not change."""

from __future__ import annotations

from typing import Any

import pytest

from softswitch import ir
from softswitch.codegen.prefetch_plan import plan_prefetches
from switch_harness.state_programs import key_field, program, table

KEY, COPY, OTHER = ir.FieldRef(1, 0), ir.FieldRef(0, 0), ir.FieldRef(0, 1)
PLAIN, COPIES, CHANGES = range(3)
ACTIONS = (
    ir.Action("plain", (), ()),
    ir.Action("copies", (), (ir.Assign(COPY, KEY),)),
    ir.Action("changes", (), (ir.Assign(KEY, ir.Constant(1)),)),
)


def looked_up(name: str, following: str | None, source: ir.FieldRef = KEY, action: int = PLAIN) -> ir.Table:
    part = key_field(16)
    key = [ir.KeyField(part.name, source, part.width)]
    return table(name, key, 8, actions=(action,), default=None, next_nodes={action: following},
                 next_without_action=following)  # fmt: skip


def does(name: str, action: int, following: str | None) -> ir.Table:
    """Return a table without a key, as p4c makes of an action call."""
    return table(name, [], 1, actions=(action,), default=ir.Invocation(action, ()), default_is_const=True,
                 next_nodes={action: following})  # fmt: skip


def condition(name: str, yes: str | None, no: str | None, of: ir.Expression) -> ir.Conditional:
    return ir.Conditional(name, of, yes, no)


def prefetches(*nodes: ir.Table | ir.Conditional) -> dict[str, list[tuple[str, Any]]]:
    control = ir.Control("ingress", nodes[0].name, {node.name: node for node in nodes})
    found = plan_prefetches(program(actions=ACTIONS, ingress=control), control)
    return {at: [(each.table.name, each.key[0].source) for each in lookups] for at, lookups in found.items()}


def test_two_look_ups_are_prefetched_before_the_first() -> None:
    assert prefetches(looked_up("a", "b"), looked_up("b", None)) == {"a": [("a", KEY), ("b", KEY)]}


def test_a_single_look_up_is_not_prefetched() -> None:
    assert prefetches(looked_up("a", None)) == {}


def test_a_key_is_followed_through_copies() -> None:
    nodes = looked_up("a", "copy"), does("copy", COPIES, "b"), looked_up("b", None, COPY)
    assert prefetches(*nodes) == {"a": [("a", KEY), ("b", KEY)]}


@pytest.mark.parametrize("change", [does("change", CHANGES, "b"), looked_up("change", "b", OTHER, CHANGES)])
def test_no_prefetch_before_a_change_of_the_key(change: ir.Table) -> None:
    found = prefetches(looked_up("a", "change"), change, looked_up("b", None))
    assert ("b", KEY) not in found.get("a", [])


@pytest.mark.parametrize(
    ("of", "found"),
    [(ir.IsValid(1), {"a": [("a", KEY), ("b", KEY)]}), (ir.Binary(ir.Op.EQ, OTHER, ir.Constant(0)), {})],
)
def test_a_look_up_is_prefetched_before_a_condition_on_validity_only(
    of: ir.Expression, found: object
) -> None:
    assert prefetches(looked_up("a", "if"), condition("if", "b", None, of), looked_up("b", None)) == found


def test_a_look_up_in_both_branches_does_not_depend_on_the_condition() -> None:
    of = ir.Binary(ir.Op.EQ, OTHER, ir.Constant(0))
    nodes = condition("if", "a", "b", of), looked_up("a", "b"), looked_up("b", "c"), looked_up("c", None)
    assert prefetches(*nodes) == {"b": [("b", KEY), ("c", KEY)]}


def test_look_ups_in_different_branches_are_not_prefetched() -> None:
    nodes = condition("if", "a", "b", ir.IsValid(1)), looked_up("a", None), looked_up("b", None)
    assert prefetches(*nodes) == {}
