"""Let direct meters store their colours where the actions of their tables copy them to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from softswitch import ir
from softswitch.p4.action_bodies import Jumping, shortened
from softswitch.p4.lowering_state import TableSpec
from softswitch.p4.storage_bits import StorageBits


def with_direct_colours(program: ir.Program, specs: Mapping[str, TableSpec]) -> ir.Program:
    """Return a program without the copies of colours that all actions of a table begin with.

    A table that misses runs no meter, so a default action of its own need not copy the colour.
    """
    bits = StorageBits(program)
    actions = list(program.actions)
    targets: dict[str, ir.FieldRef] = {}
    for name, table in program.tables.items():
        if table.meter is None:
            continue
        references = zip(specs[name].declaration.actions, table.actions, strict=False)
        hit_actions = [i for each, i in references if "defaultonly" not in {a.name for a in each.annotations}]
        copies = {i: _copy_of_colour(actions[i], table.meter.target, bits) for i in hit_actions}
        found = {target for target, _ in copies.values()}
        if len(found) == 1 and (target := found.pop()) is not None:
            targets[name] = target
            for i, (_, position) in copies.items():
                actions[i] = shortened(actions[i], {position})
    ingress, egress = (
        replace(control, nodes={n: _metered(node, targets) for n, node in control.nodes.items()})
        for control in (program.ingress, program.egress)
    )
    return replace(program, actions=tuple(actions), ingress=ingress, egress=egress)


def _metered(
    node: ir.Table | ir.Conditional, targets: Mapping[str, ir.FieldRef]
) -> ir.Table | ir.Conditional:
    if isinstance(node, ir.Conditional) or node.meter is None or node.name not in targets:
        return node
    return replace(node, meter=replace(node.meter, target=targets[node.name]))


def _copy_of_colour(
    action: ir.Action, colour: ir.FieldRef, bits: StorageBits
) -> tuple[ir.FieldRef | None, int]:
    """Return to what an action copies the colour, and where, if that can be done before the action."""
    mentioned = [bits.mentioned(each) for each in action.body]
    for position, statement in enumerate(action.body):
        match statement:
            case ir.Assign(ir.FieldRef() as target, source) if source == colour:
                is_early = not any(each & bits.field(target) for each in mentioned[:position])
                is_only_copy = sum(bool(each & bits.field(colour)) for each in mentioned) == 1
                return target if is_early and is_only_copy else None, position
            case _ if isinstance(statement, Jumping):
                return None, position
    return None, 0
