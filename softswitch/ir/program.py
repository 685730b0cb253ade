"""A whole v1model program, with headers, tables and externs; the rest of `ir` is what they are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from softswitch.errors import StateError
from softswitch.ir.expressions import Expression, FieldRef, Target
from softswitch.ir.parser import Advance, Extract, ParserState, ValueSet, Verify
from softswitch.ir.statements import Assert, CountLoop, If, Statement
from softswitch.ir.tables import Action, Control, Invocation, Table
from softswitch.v1model import STANDARD_METADATA


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field of a header type: name and width in bits; of a varbit field the largest width."""

    name: str
    width: int
    signed: bool = False
    varbit: bool = False

    @property
    def least(self) -> int:
        """The least value of the field."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def most(self) -> int:
        """The largest value that it keeps: BMv2 wraps a signed field only beyond `bit<width>` (fields.h)."""
        return (1 << self.width) - 1

    @property
    def kept_bits(self) -> int:
        """Bits that hold every value from `least` to `most`."""
        return self.width + self.signed


@dataclass(frozen=True, slots=True)
class Header:
    """A header instance, or a metadata instance (never on the wire, zeroed for each packet)."""

    name: str
    fields: tuple[FieldType, ...]
    metadata: bool = False

    @property
    def bits(self) -> int:
        """Width of the fixed fields on the wire, in bits."""
        return sum(f.width for f in self.fields if not f.varbit)

    @property
    def varbit(self) -> int | None:
        """Position of the varbit field, of which a header has at most one."""
        return next((i for i, f in enumerate(self.fields) if f.varbit), None)

    @property
    def most_bytes(self) -> int:
        """Bytes on the wire with a varbit field at its longest."""
        return sum(f.width for f in self.fields) // 8


@dataclass(frozen=True, slots=True)
class Stack:
    """A header stack: indices of its elements, which are all of one type.

    A stack of unions is one stack for each member of the union; they share `cursor`, the number of the
    `next` position.
    """

    name: str
    headers: tuple[int, ...]
    cursor: int


# ---- externs and checksums


@dataclass(frozen=True, slots=True)
class Counter:
    """An indirect counter array."""

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


@dataclass(frozen=True, slots=True)
class SizedConstant:
    """A literal of `width` bits among the inputs of a calculation or the values of a digest."""

    value: int
    width: int


@dataclass(frozen=True, slots=True)
class WholeHeader:
    """All fields of a header, in order."""

    header: int


CalculationInput = FieldRef | SizedConstant | WholeHeader


@dataclass(frozen=True, slots=True)
class Calculation:
    """A hash or checksum over inputs joined bit by bit and padded with 0 to whole bytes.

    Inputs of invalid headers are left out. `algorithm` is BMv2's name, one of `hashing.ALGORITHMS`. With
    `payload` the bytes that the parser did not take follow.
    """

    name: str
    algorithm: str
    inputs: tuple[CalculationInput, ...]
    payload: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True)
class Checksum:
    """A calculation that is stored to or compared with `target` where `condition` holds."""

    target: FieldRef
    calculation: int
    condition: Expression


@dataclass(frozen=True, slots=True)
class ActionProfile:
    """Members (an action each), and groups of them where a `selector` calculation picks one by hash."""

    name: str
    size: int
    selector: int | None


@dataclass(frozen=True, slots=True)
class FieldList:
    """What a clone, resubmit or recirculate keeps, or what a digest sends."""

    id: int
    name: str
    values: tuple[FieldRef | SizedConstant, ...]


@dataclass(frozen=True, kw_only=True)
class Program:
    """A whole v1model program. References are positions in these tuples."""

    headers: tuple[Header, ...]
    stacks: tuple[Stack, ...]
    unions: tuple[tuple[int, ...], ...] = ()
    errors: dict[str, int]
    parser: tuple[ParserState, ...]
    start_state: int
    value_sets: tuple[ValueSet, ...] = ()
    verify: tuple[Checksum, ...] = ()
    actions: tuple[Action, ...]
    ingress: Control
    egress: Control
    update: tuple[Checksum, ...] = ()
    deparser_body: tuple[Statement, ...] = ()
    deparser: tuple[int, ...]
    counters: tuple[Counter, ...] = ()
    meters: tuple[Meter, ...] = ()
    registers: tuple[Register, ...] = ()
    profiles: tuple[ActionProfile, ...] = ()
    calculations: tuple[Calculation, ...] = ()
    field_lists: tuple[FieldList, ...] = ()
    digests: tuple[FieldList, ...] = ()
    messages: tuple[str, ...] = ()
    field_index: dict[tuple[str, str], FieldRef] = field(repr=False)

    @cached_property
    def tables(self) -> dict[str, Table]:
        """All tables of both controls, by name."""
        nodes = [*self.ingress.nodes.values(), *self.egress.nodes.values()]
        return {node.name: node for node in nodes if isinstance(node, Table)}

    @cached_property
    def siblings(self) -> dict[int, tuple[int, ...]]:
        """For each member of a header union the other members: one valid at a time (P4_16 §8.20)."""
        return {
            member: tuple(other for other in union if other != member)
            for union in self.unions
            for member in union
        }

    @cached_property
    def statements(self) -> tuple[Statement | Extract | Advance | Verify, ...]:
        """Everything that actions, parser and deparser do, branches of an `If` included."""
        bodies = [*(a.body for a in self.actions), *(s.operations for s in self.parser), self.deparser_body]
        found = [statement for body in bodies for statement in body]
        for statement in found:
            if isinstance(statement, If):
                found += [statement.then, statement.otherwise]
        return tuple(found)

    @cached_property
    def assertions(self) -> frozenset[int]:
        """Positions of the messages of `assert`, `assume` and loops without end."""
        return frozenset(s.message for s in self.statements if isinstance(s, Assert | CountLoop))

    def has(self, kind: type) -> bool:
        """Whether the program has a statement of a kind anywhere."""
        return any(isinstance(statement, kind) for statement in self.statements)

    def sets_standard(self, name: str) -> bool:
        """Whether the program can give a field of `standard_metadata` a value."""
        ref = self.standard(name)
        lists = (values.values for values in self.field_lists)
        return any(getattr(s, "target", None) == ref for s in self.statements) or any(ref in v for v in lists)

    def standard(self, name: str) -> FieldRef:
        """The field of `standard_metadata` called `name`."""
        return self.field_index[STANDARD_METADATA, name]

    def type_of(self, ref: Target) -> FieldType:
        """Declaration of a field."""
        header = ref.header if isinstance(ref, FieldRef) else self.stacks[ref.element.stack].headers[0]
        return self.headers[header].fields[ref.field]

    def width(self, ref: Target) -> int:
        """Width of a field, in bits."""
        return self.type_of(ref).width

    @cached_property
    def profile_actions(self) -> tuple[dict[str, int], ...]:
        """For each profile the actions that its members can have, by name (p4c has one for each table)."""
        return tuple(
            {
                self.actions[index].name: index
                for table in self.tables.values()
                if table.profile == profile
                for index in table.actions
            }
            for profile in range(len(self.profiles))
        )

    def call(self, action: int, args: tuple[int, ...]) -> Invocation:
        """An action with run-time data; `StateError` where it takes more or less."""
        expected = len(self.actions[action].parameters)
        if len(args) != expected:
            name = self.actions[action].name
            raise StateError(f"action {name} takes {expected} parameters, not {len(args)}")
        return Invocation(action, args)

    def invocation(self, table: Table, action: str, args: tuple[int, ...]) -> Invocation:
        """The call of one of the table's actions by name; `StateError` where there is none such."""
        index = self._action_index.get((table.name, action))
        if index is None:
            raise StateError(f"table {table.name} has no action {action}")
        return self.call(index, args)

    @cached_property
    def _action_index(self) -> dict[tuple[str, str], int]:
        """Actions by table and name (p4c repeats some names for other tables)."""
        return {
            (name, self.actions[index].name): index
            for name, table in self.tables.items()
            for index in reversed(table.actions)
        }
