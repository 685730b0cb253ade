"""Ingress and egress of the BMv2 JSON."""

from __future__ import annotations

from softswitch import ir
from softswitch.errors import UnsupportedConstruct, located
from softswitch.load.expressions import Expressions
from softswitch.load.scope import Json, Scope, source_line, source_text
from softswitch.load.tables import load_table


def load_control(scope: Scope, item: Json, profiles: dict[str, int]) -> ir.Control:
    """One pipeline; `profiles` has the numbers of action profiles by name."""
    nodes: dict[str, ir.Table | ir.Conditional] = {
        table["name"]: load_table(scope, table, profiles) for table in item["tables"]
    }
    for c in item["conditionals"]:
        where = source_line(c)
        with located(where):
            condition = Expressions(scope, where).value(c["expression"])
        nodes[c["name"]] = ir.Conditional(
            c["name"], condition, c["true_next"], c["false_next"], where, source_text(c)
        )
    for call in item.get("action_calls", []):
        raise UnsupportedConstruct(f"action call `{call['name']}` outside a table", source_line(call))
    return ir.Control(item["name"], item["init_table"], nodes)
