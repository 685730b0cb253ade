"""The graph of a control: tables, conditions, and tables without a key that run statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from softswitch import ir
from softswitch.ir.graph import successors
from softswitch.ir.names import unique_name
from softswitch.p4.diagnostics import Position, SourceError
from softswitch.p4.flow import EXIT, Apply, Branch, Item, Label, Leave, Loop, Part, Step, Unit
from softswitch.p4.linear import action_body
from softswitch.p4.lowering_state import TableSpec


class GraphBuilder:
    """Builds a control from its end: each item knows the node that follows it."""

    def __init__(
        self,
        name: str,
        specs: Mapping[str, TableSpec],
        actions: list[ir.Action],
        add_message: Callable[[str], int],
        names: set[str],
        make_field: Callable[[], ir.FieldRef],
    ) -> None:
        """`names` collects the names of nodes of all controls.

        `make_field` makes a field of metadata that is 0 at the beginning, for a small number.
        """
        self._name, self._specs, self._actions, self._add_message = name, specs, actions, add_message
        self._nodes: dict[str, ir.Table | ir.Conditional] = {}
        self._labels: dict[Label, str | None] = {EXIT: None}
        self._names = names
        self._blocks: dict[tuple[object, ...], str] = {}
        self._make_field = make_field
        self._places: dict[str, tuple[ir.FieldRef, int]] = {}

    def build(self, items: list[Item], after: list[Item]) -> ir.Control:
        """Build the control from its items; `after` runs at its end, however that is reached."""
        end = self._sequence(after, None)
        self._labels[EXIT] = end
        start = self._sequence(items, end)
        self._check_order()
        return ir.Control(self._name, start, dict(reversed(self._nodes.items())))

    def _sequence(self, items: list[Item], following: str | None) -> str | None:
        """Return the node with which the items begin, if `following` comes after them."""
        items = _reachable(items)
        end = len(items)
        while end:
            item = items[end - 1]
            if isinstance(item, Step | Unit):
                start = end - 1
                while start and isinstance(items[start - 1], Step | Unit):
                    start -= 1
                following = self._block(items[start:end], item.position, following)
                end = start
                continue
            following = self._item(item, following)
            end -= 1
        return following

    def _item(self, item: Item, following: str | None) -> str | None:
        match item:
            case Branch():
                return self._branch(item, following)
            case Apply():
                return self._apply(item, following)
            case Part(label, inner):
                self._labels[label] = following
                return self._sequence(inner, following)
            case Leave(label):
                return self._labels[label]
            case Loop():
                raise SourceError(item, "expected a loop whose repetitions are known when compiling")
        raise SourceError(item, "expected no parser in a control")

    def _place(self, position: Position) -> str:
        file = position.file.rpartition("/")[2].rpartition(".")[0] or "line"
        return "".join(c if c.isalnum() else "_" for c in file) + str(position.line)

    def _block(self, items: list[Item], last: Position, following: str | None) -> str | None:
        """Return a table without a key that runs statements, and goes on."""
        body, locations = action_body(items, self._add_message)
        if not body:
            return following
        position = getattr(items[0], "position", last)
        key = (body, locations, following)
        if key in self._blocks:
            return self._blocks[key]
        place = self._place(position)
        index = len(self._actions)
        name = unique_name(f"$tbl_{place}", self._names)
        self._actions.append(ir.Action(f"${name.removeprefix('$tbl_')}", (), body, locations, ()))
        self._nodes[name] = ir.Table(
            name=name, key=(), actions=(index,), default=ir.Invocation(index, ()), default_is_const=True,
            const_entries=(), size=1024, has_counter=False, next_nodes={index: following}, next_on_hit=None,
            next_on_miss=None, branches_on_hit=False, next_without_action=following,
            location=position.place,
        )  # fmt: skip
        self._blocks[key] = name
        return name

    def _branch(self, item: Branch, following: str | None) -> str | None:
        then = self._sequence(item.then, following)
        otherwise = self._sequence(item.otherwise, following)
        if then == otherwise:
            return then
        name = unique_name(f"$node_{self._place(item.position)}", self._names)
        location = item.position.place
        self._nodes[name] = ir.Conditional(name, item.condition, then, otherwise, location, item.text)
        return name

    def _apply(self, item: Apply, following: str | None) -> str:
        spec = self._specs[item.table]
        is_by_hit = "hit" in item.branches or "miss" in item.branches
        on_hit = on_miss = None
        next_nodes: dict[int, str | None] = dict.fromkeys(spec.actions, None if is_by_hit else following)
        if is_by_hit:
            on_hit = self._sequence(item.branches.get("hit", []), following)
            on_miss = self._sequence(item.branches.get("miss", []), following)
        elif item.branches or item.other is not None:
            other = following if item.other is None else self._sequence(item.other, following)
            built: dict[int, str | None] = {}
            for index in spec.actions:
                items = item.branches.get(index)
                if items is None:
                    next_nodes[index] = other
                    continue
                if id(items) not in built:
                    built[id(items)] = self._sequence(items, following)
                next_nodes[index] = built[id(items)]
        # BMv2 has no default action in tables with an action profile: a miss goes on as after `NoAction`.
        default: ir.Invocation | None = spec.default
        without_action = on_miss if is_by_hit else following
        if spec.profile is not None:
            default = None
            if not is_by_hit and self._does_nothing(spec.default):
                without_action = next_nodes[spec.default.action]
        is_immutable = bool(spec.entries) or spec.declaration.entries_are_const
        table = ir.Table(
            name=spec.name, key=spec.key, actions=spec.actions, default=default,
            default_is_const=default is not None and spec.default_is_const, const_entries=spec.entries,
            size=len(spec.entries) if is_immutable else spec.size,  # BMv2 lets nobody add entries to these
            has_counter=spec.has_counter, next_nodes=next_nodes, next_on_hit=on_hit, next_on_miss=on_miss,
            branches_on_hit=is_by_hit, next_without_action=without_action, profile=spec.profile,
            meter=spec.meter, has_idle_timeout=spec.has_idle_timeout,
            is_immutable=is_immutable,
            location=spec.declaration.position.place,
        )  # fmt: skip
        known = self._nodes.pop(spec.name, None)
        start = spec.name
        if isinstance(known, ir.Table) and known != table:
            table, start = self._add_place(known, table, item)
        # Last, so that the node precedes what follows it when the order is reversed.
        self._nodes[spec.name] = table
        return start

    def _add_place(self, known: ir.Table, table: ir.Table, item: Apply) -> tuple[ir.Table, str]:
        """Return a table that is applied in a further place, and the node with which that place begins.

        The place stores its number before, by which conditions after the table tell the places apart.
        """
        field, number = self._places.get(known.name) or (self._make_field(), 0)
        self._places[known.name] = field, number + 1
        number += 1
        if known.branches_on_hit != table.branches_on_hit:
            known, table = (_by_hit(each, item.position) for each in (known, table))

        def choose(here: str | None, other_node: str | None) -> str | None:
            if here == other_node:
                return here
            name = unique_name(f"$node_{self._place(item.position)}", self._names)
            condition = ir.Binary(ir.Op.EQ, field, ir.Constant(number))
            location = item.position.place
            self._nodes[name] = ir.Conditional(name, condition, here, other_node, location)
            return name

        next_nodes = {i: choose(table.next_nodes[i], known.next_nodes[i]) for i in table.actions}
        merged = replace(
            table,
            next_nodes=next_nodes,
            next_on_hit=choose(table.next_on_hit, known.next_on_hit),
            next_on_miss=choose(table.next_on_miss, known.next_on_miss),
            next_without_action=choose(table.next_without_action, known.next_without_action),
        )
        if merged.branches_on_hit:
            merged = replace(merged, next_without_action=merged.next_on_miss)
        step = Step(ir.Assign(field, ir.Constant(number)), item.position)
        start = self._block([step], item.position, table.name)
        assert start is not None
        return merged, start

    def _check_order(self) -> None:
        """Raise `SourceError` if a table is reached again after it was applied, which BMv2 cannot do."""
        for name in self._places:
            pending, seen = successors(self._nodes[name]), set[str]()
            while pending:
                each = pending.pop()
                if each == name:
                    file, _, line = self._nodes[name].location.rpartition(":")
                    position = Position(file, int(line), 1)
                    raise SourceError(
                        position,
                        f"expected the table {name} to be applied once in each way through the control",
                    )
                if each not in seen:
                    seen.add(each)
                    pending += successors(self._nodes[each])

    def _does_nothing(self, invocation: ir.Invocation) -> bool:
        return not self._actions[invocation.action].body


def _by_hit(table: ir.Table, position: Position) -> ir.Table:
    """Return a table that goes on by hit or miss, if it goes on alike after all actions."""
    if table.branches_on_hit:
        return table
    following = {*table.next_nodes.values(), table.next_without_action}
    if len(following) > 1:
        raise SourceError(
            position, f"expected branches of one kind wherever the table {table.name} is applied"
        )
    [name] = following
    return replace(
        table,
        next_nodes=dict.fromkeys(table.actions),
        next_on_hit=name,
        next_on_miss=name,
        branches_on_hit=True,
    )


def _reachable(items: list[Item]) -> list[Item]:
    for i, item in enumerate(items):
        if isinstance(item, Leave):
            return items[: i + 1]
    return items
