"""Lowering of the actions of tables."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import replace

from softswitch import ir
from softswitch.p4 import arithmetic, tree, types
from softswitch.p4.call_arguments import bind_arguments
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.flow import Item, Label, Part
from softswitch.p4.frames import Frame
from softswitch.p4.linear import action_body
from softswitch.p4.lower_entries import lower_invocation
from softswitch.p4.lower_statements import lower_block
from softswitch.p4.lowering_state import LoweringState, TableSpec
from softswitch.p4.objects import ExternObject, control_plane_name
from softswitch.p4.operands import Scalar


def action_of(
    reference: tree.ActionReference, meter: tuple[ExternObject, ir.DirectMeter] | None, frame: Frame
) -> int:
    declaration = frame.facts.references[reference]
    assert isinstance(declaration, tree.Action)
    is_local = declaration in frame.owner.declaration.locals
    is_shared = not reference.arguments and meter is None and (is_local or not frame.copies_out)
    key = (frame.owner if is_local else None, declaration)
    if is_shared and key in frame.state.shared_actions:
        return frame.state.shared_actions[key]
    index = _make_action(reference, declaration, meter, frame, is_local=is_local)
    if is_shared:
        frame.state.shared_actions[key] = index
    return index


def _make_action(
    reference: tree.ActionReference, declaration: tree.Action,
    meter: tuple[ExternObject, ir.DirectMeter] | None, frame: Frame, *, is_local: bool,
) -> int:  # fmt: skip
    name = control_plane_name(declaration, frame.owner.path if is_local else "")
    part = Part(Label(f"return of {declaration.name}"))
    outer = frame.control_bindings
    inner = replace(
        frame.called(part, ChainMap({}, *outer.maps), outer=outer), body="action",
        direct_meters={meter[0]: meter[1].target} if meter else {},
    )  # fmt: skip
    widths: list[int] = []
    names: list[str] = []
    for parameter in declaration.parameters:
        if not parameter.direction:
            widths.append(_bind_data(parameter, len(widths), inner))
            names.append(parameter.name)
    items: list[Item] = []
    target = frame.facts.calls[reference]
    before = inner.within(items)
    copies = bind_arguments(target, frame.substitution, before, inner, declaration, reference)
    lower_block(declaration.body, inner)
    items.append(part)
    for copy in copies:
        copy(before)
    body, locations = action_body(items, frame.state.add_message)
    frame.state.actions.append(ir.Action(name, tuple(widths), body, locations, tuple(names)))
    return len(frame.state.actions) - 1


def _bind_data(parameter: tree.Parameter, index: int, frame: Frame) -> int:
    """Bind a parameter that the control plane gives, and return its width in bits."""
    given = frame.declared(parameter)
    kind = types.representation(given)
    if kind == types.BOOL:
        width = 1
    elif isinstance(kind, types.Bits):
        width = kind.width
    else:
        raise SourceError(parameter, f"expected bits or a bool as data of an action, got {given}")
    value: ir.Expression = ir.Parameter(index, width)
    if isinstance(kind, types.Bits) and kind.signed:
        value = arithmetic.wrapped(value, kind)
    frame.bindings[parameter] = Scalar(value, given)
    return width


def default_action(table: tree.Table, spec: TableSpec, frame: Frame) -> tuple[ir.Invocation, bool]:
    found = table.properties.get("default_action")
    if found is not None:
        return lower_invocation(found.value, spec, frame), found.is_const
    for index, declaration in spec.action_declarations.items():
        if declaration.name == "NoAction" and frame.state.actions[index].name == "NoAction":
            return ir.Invocation(index, ()), False
    [declaration] = [each for each in frame.facts.globals.names["NoAction"] if isinstance(each, tree.Action)]
    index = _no_action(declaration, frame.state)
    spec.actions = (*spec.actions, index)
    spec.action_declarations[index] = declaration
    return ir.Invocation(index, ()), False


def _no_action(declaration: tree.Action, state: LoweringState) -> int:
    """Return the index of `NoAction` of the core library."""
    key = (None, declaration)
    if key not in state.shared_actions:
        state.shared_actions[key] = len(state.actions)
        state.actions.append(ir.Action("NoAction", (), (), (), ()))
    return state.shared_actions[key]
