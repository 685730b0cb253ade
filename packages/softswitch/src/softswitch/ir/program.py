"""A whole v1model program, with its counters, meters and registers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from softswitch.errors import StateError
from softswitch.ir.calculations import Calculation, Checksum, FieldList
from softswitch.ir.expressions import FieldRef, LValue
from softswitch.ir.headers import FieldType, Header, Stack
from softswitch.ir.local_fields import find_local_fields
from softswitch.ir.parser import Advance, Extract, ParserState, ValueSet, Verify
from softswitch.ir.stale_fields import StaleFields
from softswitch.ir.statements import Action, Assert, CountLoop, If, Statement
from softswitch.ir.tables import ActionProfile, Control, Invocation, Table
from softswitch.messages import pluralize
from softswitch.v1model import STANDARD_METADATA, Standard


@dataclass(frozen=True, slots=True)
class Counter:
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Meter:
    """An indirect array of two-rate three-colour meters (RFC 2698)."""

    name: str
    size: int
    counts_bytes: bool


@dataclass(frozen=True, slots=True)
class Register:
    """A register array of `bit<width>`."""

    name: str
    size: int
    width: int


@dataclass(frozen=True, kw_only=True)
class Program:
    """A whole v1model program. References are positions in these tuples."""

    headers: tuple[Header, ...]
    stacks: tuple[Stack, ...]
    unions: tuple[tuple[int, ...], ...] = ()  # the member headers of each
    errors: dict[str, int]  # code by name
    parser: tuple[ParserState, ...]
    start_state: int
    value_sets: tuple[ValueSet, ...] = ()
    verify: tuple[Checksum, ...] = ()  # checksums that are verified after parsing
    actions: tuple[Action, ...]
    ingress: Control
    egress: Control
    update: tuple[Checksum, ...] = ()  # checksums that are stored before deparsing
    deparser_body: tuple[Statement, ...] = ()
    deparser: tuple[int, ...]  # headers in the order in which they are emitted
    counters: tuple[Counter, ...] = ()
    meters: tuple[Meter, ...] = ()
    registers: tuple[Register, ...] = ()
    profiles: tuple[ActionProfile, ...] = ()
    calculations: tuple[Calculation, ...] = ()
    field_lists: tuple[FieldList, ...] = ()
    digests: tuple[FieldList, ...] = ()
    messages: tuple[str, ...] = ()  # texts of `LogMessage`, `Assert` and `CountLoop`
    field_index: dict[tuple[str, str], FieldRef] = field(repr=False)

    @cached_property
    def tables(self) -> dict[str, Table]:
        nodes = [*self.ingress.nodes.values(), *self.egress.nodes.values()]
        return {node.name: node for node in nodes if isinstance(node, Table)}

    @cached_property
    def siblings(self) -> dict[int, tuple[int, ...]]:
        """For each member of a union, the other members; at most one is valid at a time (P4_16 §8.20)."""
        return {
            member: tuple(other for other in union if other != member)
            for union in self.unions
            for member in union
        }

    @cached_property
    def statements(self) -> tuple[Statement | Extract | Advance | Verify, ...]:
        bodies = [*(a.body for a in self.actions), *(s.operations for s in self.parser), self.deparser_body]
        statements = [statement for body in bodies for statement in body]
        for statement in statements:  # also visits the branches that are appended here
            if isinstance(statement, If):
                statements += [statement.then, statement.otherwise]
        return tuple(statements)

    @cached_property
    def stale_fields(self) -> StaleFields:
        """Fields that can be other than 0 while their header is invalid."""
        meters = [table.meter.target for table in self.tables.values() if table.meter]
        field_list_fields = [
            ref for values in self.field_lists for ref in values.values if isinstance(ref, FieldRef)
        ]
        return StaleFields(
            self.headers, self.stacks, self.unions, self.statements, [*meters, *field_list_fields]
        )

    @cached_property
    def local_fields(self) -> frozenset[FieldRef]:
        """Fields of metadata that are variables of a control: 0 where it begins, and not needed after it."""
        standard = tuple(ref for (name, _), ref in self.field_index.items() if name == STANDARD_METADATA)
        other_parts = (
            self.parser, self.verify, self.update, self.deparser_body, self.calculations, self.field_lists,
            self.digests, standard,
        )  # fmt: skip
        controls = (self.ingress, self.egress)
        return frozenset(find_local_fields(self.headers, self.actions, controls, other_parts))

    @cached_property
    def assertions(self) -> frozenset[int]:
        # Messages of statements that drop the packet when they log.
        return frozenset(s.message for s in self.statements if isinstance(s, Assert | CountLoop))

    def has(self, kind: type) -> bool:
        return any(isinstance(statement, kind) for statement in self.statements)

    def sets_standard_field(self, name: Standard) -> bool:
        ref = self.standard_field(name)
        targets = {getattr(statement, "target", None) for statement in self.statements}
        targets |= {table.meter.target for table in self.tables.values() if table.meter}
        # The fields of a list are stored in copies of the packet.
        is_in_field_list = any(ref in values.values for values in self.field_lists)
        # The target of an assignment of a whole header is the header's index.
        return is_in_field_list or ref in targets or ref.header in targets

    def standard_field(self, name: Standard) -> FieldRef:
        return self.field_index[STANDARD_METADATA, name]

    def type_of(self, ref: LValue) -> FieldType:
        header = ref.header if isinstance(ref, FieldRef) else self.stacks[ref.element.stack].headers[0]
        return self.headers[header].fields[ref.field]

    def width(self, ref: LValue) -> int:
        return self.type_of(ref).width

    @cached_property
    def entry_actions(self) -> dict[str, Action]:
        """Actions by name, as controllers name them.

        For a direct call p4c prints a copy of the action, in which the call's arguments replace its data, and
        for some calls a table without a key that runs the copy. So actions of tables with a key come first.
        """
        tables = sorted(self.tables.values(), key=lambda table: not table.key)
        of_tables = [self.actions[index] for table in tables for index in table.actions]
        actions: dict[str, Action] = {}
        for action in (*of_tables, *self.actions):
            actions.setdefault(action.name, action)
        return actions

    @cached_property
    def profile_actions(self) -> tuple[dict[str, int], ...]:
        """For each profile, its actions' indices by name; p4c declares an action once for each table."""
        return tuple(
            {
                self.actions[index].name: index
                for table in self.tables.values()
                if table.profile == profile
                for index in table.actions
            }
            for profile in range(len(self.profiles))
        )

    def make_invocation(self, action: int, args: tuple[int, ...]) -> Invocation:
        parameter_count = len(self.actions[action].parameters)
        if len(args) != parameter_count:
            name = self.actions[action].name
            raise StateError(
                f"action {name} takes {pluralize(parameter_count, 'parameter')}, not {len(args)}"
            )
        return Invocation(action, args)

    def invocation(self, table: Table, action: str, args: tuple[int, ...]) -> Invocation:
        index = self._action_index.get((table.name, action))
        if index is None:
            raise StateError(f"table {table.name} has no action {action}")
        return self.make_invocation(index, args)

    @cached_property
    def _action_index(self) -> dict[tuple[str, str], int]:
        # In reverse, so that the first of several actions with one name is taken.
        return {
            (name, self.actions[index].name): index
            for name, table in self.tables.items()
            for index in reversed(table.actions)
        }
