"""Find the metadata fields that serve as variables of a control, and hold a value for a few of its nodes.

p4c declares a field for each temporary and each local variable of a control. Outside the control, no part of
the program and no copy of the packet needs such a field, and it is 0 where the control begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from operator import attrgetter

from softswitch.ir.calculations import WholeHeader
from softswitch.ir.expressions import FieldRef
from softswitch.ir.graph import Node, successors, topological_order
from softswitch.ir.headers import Header
from softswitch.ir.statements import (
    Action,
    Assign,
    AssignHeader,
    Jump,
    JumpIfZero,
    Statement,
    target_fields,
)
from softswitch.ir.tables import Control, Table

_MAX_NODES = 16
"""Most nodes before which a local field may hold a value that is needed. A processor has few registers, so
fields that hold values for long would be stored to memory in any case."""


def find_local_fields(
    headers: tuple[Header, ...],
    actions: tuple[Action, ...],
    controls: Iterable[Control],
    other_parts: tuple[object, ...],
) -> Iterator[FieldRef]:
    """Yield the local fields; `other_parts` are all parts of the program that are in none of the controls."""
    whole_headers = {header for part in (actions, other_parts) for header in _whole_headers(part)}
    fields_of_other_parts = set(_fields_in(other_parts))
    flows = [_Flow(control, actions) for control in controls]
    n_controls = Counter(ref for flow in flows for ref in flow.used)
    for flow in flows:
        for ref in sorted(flow.used - fields_of_other_parts, key=attrgetter("header", "field")):
            header = headers[ref.header]
            is_variable = (
                header.metadata and ref.header not in whole_headers and not header.fields[ref.field].varbit
            )
            if is_variable and n_controls[ref] == 1 and flow.nodes_with_value[ref] <= _MAX_NODES:
                yield ref


@dataclass(frozen=True)
class _Uses:
    """The fields that a node or an action reads and assigns."""

    read: frozenset[FieldRef]
    """Read, possibly before the node has assigned them."""
    assigned: frozenset[FieldRef]
    """Assigned, perhaps under a condition."""
    replaced: frozenset[FieldRef]
    """Assigned in any case."""


class _Flow:
    """The nodes of a control at which fields hold values that later nodes read."""

    def __init__(self, control: Control, actions: tuple[Action, ...]) -> None:
        self._nodes = control.nodes
        self._order = topological_order(control)
        of_action = {index: _uses_of_action(actions[index]) for index in _actions_of(control)}
        self._uses = {name: _uses_of_node(self._nodes[name], of_action) for name in self._order}
        self.used = {ref for uses in self._uses.values() for ref in (*uses.read, *uses.assigned)}
        needed, assigned = self._needed_before(), self._assigned_before()
        self.nodes_with_value = Counter(ref for name in self._order for ref in needed[name] & assigned[name])
        """Number of nodes before which a field may have been assigned, and may be read later."""

    def _needed_before(self) -> dict[str, frozenset[FieldRef]]:
        needed: dict[str, frozenset[FieldRef]] = {}
        for name in reversed(self._order):
            uses = self._uses[name]
            after = _union(needed[successor] for successor in successors(self._nodes[name]))
            needed[name] = uses.read | (after - uses.replaced)
        return needed

    def _assigned_before(self) -> dict[str, frozenset[FieldRef]]:
        assigned = dict.fromkeys(self._order, frozenset[FieldRef]())
        for name in self._order:
            after = assigned[name] | self._uses[name].assigned
            for successor in successors(self._nodes[name]):
                assigned[successor] |= after
        return assigned


def _actions_of(control: Control) -> set[int]:
    return {index for node in control.nodes.values() if isinstance(node, Table) for index in node.actions}


def _uses_of_node(node: Node, of_action: Mapping[int, _Uses]) -> _Uses:
    own = _Uses(frozenset(_fields_in(node)), frozenset(), frozenset())
    if not isinstance(node, Table):
        return own
    actions = [of_action[index] for index in node.actions]
    targets = frozenset((node.meter.target,)) if node.meter else frozenset[FieldRef]()
    # Without a default action, or with an empty group of an action profile, no action runs.
    runs_action = actions and node.default is not None and node.profile is None
    replaced = [action.replaced for action in actions] if runs_action else []
    return _Uses(
        read=own.read | _union(action.read for action in actions),
        assigned=targets | _union(action.assigned for action in actions),
        replaced=frozenset.intersection(*replaced) if replaced else frozenset(),
    )


def _uses_of_action(action: Action) -> _Uses:
    read: set[FieldRef] = set()
    assigned: set[FieldRef] = set()
    replaced: set[FieldRef] = set()
    has_jump = False
    for statement in action.body:
        has_jump = has_jump or isinstance(statement, Jump | JumpIfZero)
        read |= set(_fields_read(statement)) - replaced
        assigned |= set(target_fields(statement))
        if isinstance(statement, Assign) and isinstance(statement.target, FieldRef) and not has_jump:
            replaced.add(statement.target)
    return _Uses(frozenset(read), frozenset(assigned), frozenset(replaced))


def _fields_read(statement: Statement) -> Iterator[FieldRef]:
    """Yield the fields in a statement except what it assigns to; of some statements, these too."""
    return _fields_in(statement.value if isinstance(statement, Assign) else statement)


def _union(sets: Iterable[frozenset[FieldRef]]) -> frozenset[FieldRef]:
    return frozenset[FieldRef]().union(*sets)


def _fields_in(part: object) -> Iterator[FieldRef]:
    for each in _parts(part):
        if isinstance(each, FieldRef):
            yield each


def _whole_headers(part: object) -> Iterator[int]:
    """Yield the headers that a part of the program copies or hashes as a whole."""
    for each in _parts(part):
        match each:
            case WholeHeader(header):
                yield header
            case AssignHeader(target, source):
                yield from (header for header in (target, source) if isinstance(header, int))


def _parts(part: object) -> Iterator[object]:
    """Yield a part of the program, and the parts of which it is made, at any depth."""
    stack = [part]
    while stack:
        each = stack.pop()
        yield each
        if isinstance(each, tuple):
            stack += each
        elif is_dataclass(each):
            stack += [getattr(each, field.name) for field in fields(each)]
