"""Typed IR of a v1model program.

`load` makes it from p4c's BMv2 JSON; the interpreter runs it and `codegen` turns it into LLVM IR. Names are
resolved: a field is (header index, field index), an action an index. Expressions have BMv2's meaning:
integers without bound, whose wrapping p4c writes out as masks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from softswitch.errors import StateError

DROP_PORT = 511
"""simple_switch's drop port: egress_spec 511 drops."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field of a header type: name and width in bits."""

    name: str
    width: int


@dataclass(frozen=True, slots=True)
class Header:
    """A header instance, or a metadata instance (never on the wire, zeroed for each packet)."""

    name: str
    fields: tuple[FieldType, ...]

    @property
    def bits(self) -> int:
        """Total width on the wire, in bits."""
        return sum(f.width for f in self.fields)


@dataclass(frozen=True, slots=True)
class Stack:
    """A header stack: indices of its elements, which are all of one type."""

    name: str
    headers: tuple[int, ...]


# ---- expressions


@dataclass(frozen=True, slots=True)
class Constant:
    """An integer literal; booleans are 0 and 1."""

    value: int


@dataclass(frozen=True, slots=True)
class FieldRef:
    """Reads, or names as a target, field `field` of header `header`."""

    header: int
    field: int


@dataclass(frozen=True, slots=True)
class IsValid:
    """Validity of a header, 0 or 1 (BMv2's hidden field `$valid$`)."""

    header: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """Run-time data `index` of the action being executed."""

    index: int
    width: int


class Op(Enum):
    """Operators; the value is BMv2's spelling."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    SHL = "<<"
    SHR = ">>"
    AND = "&"
    OR = "|"
    XOR = "^"
    EQ = "=="
    NE = "!="
    LT = "<"
    GT = ">"
    LE = "<="
    GE = ">="
    BOOL_AND = "and"
    BOOL_OR = "or"
    COMPLEMENT = "~"
    NOT = "not"


@dataclass(frozen=True, slots=True)
class Unary:
    """`~x` or `not x`."""

    op: Op
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary operation; comparisons and logic yield 0 or 1."""

    op: Op
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Ternary:
    """`condition ? left : right`."""

    condition: Expression
    left: Expression
    right: Expression


Expression = Constant | FieldRef | IsValid | Parameter | Unary | Binary | Ternary


# ---- statements of actions and parser states


@dataclass(frozen=True, slots=True)
class Assign:
    """Store the value modulo 2^width of the target."""

    target: FieldRef
    value: Expression


@dataclass(frozen=True, slots=True)
class SetValid:
    """Make a header valid; its fields become 0 if it was not."""

    header: int


@dataclass(frozen=True, slots=True)
class SetInvalid:
    """Make a header invalid."""

    header: int


@dataclass(frozen=True, slots=True)
class Shift:
    """`push_front` (count > 0) or `pop_front` (count < 0) of a stack."""

    stack: int
    count: int


@dataclass(frozen=True, slots=True)
class Count:
    """Count the packet in one cell of an indirect counter; out of range does nothing."""

    counter: int
    index: Expression


@dataclass(frozen=True, slots=True)
class RegisterRead:
    """Read one cell; out of range leaves the target alone."""

    target: FieldRef
    register: int
    index: Expression


@dataclass(frozen=True, slots=True)
class RegisterWrite:
    """Write one cell; out of range does nothing."""

    register: int
    index: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class MarkToDrop:
    """`mark_to_drop`: the drop port as egress_spec, and no multicast group."""


@dataclass(frozen=True, slots=True)
class Exit:
    """Leave the control after this action."""


Statement = Assign | SetValid | SetInvalid | Shift | Count | RegisterRead | RegisterWrite | MarkToDrop | Exit


@dataclass(frozen=True, slots=True)
class Extract:
    """Extract a header, or the next element of a stack."""

    header: int | None
    stack: int | None


# ---- parser


@dataclass(frozen=True, slots=True)
class Case:
    """A transition taken when key & mask == value; `state` None accepts."""

    value: int
    mask: int
    state: int | None


@dataclass(frozen=True, slots=True)
class ParserState:
    """Operations, then a select over fields, each padded to whole bytes as in BMv2; no case: accept."""

    name: str
    operations: tuple[Extract | Assign, ...]
    key: tuple[FieldRef, ...]
    cases: tuple[Case, ...]


# ---- match-action


@dataclass(frozen=True, slots=True)
class Action:
    """An action: name, widths of its run-time data, body."""

    name: str
    parameters: tuple[int, ...]
    body: tuple[Statement, ...]


class MatchKind(Enum):
    """How a key field is compared; the value is BMv2's spelling."""

    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    OPTIONAL = "optional"
    RANGE = "range"

    @property
    def takes_priority(self) -> bool:
        """Entries of a table with such a field have a priority (P4Runtime 1.4 §9.1)."""
        return self not in (MatchKind.EXACT, MatchKind.LPM)


class Masked(NamedTuple):
    """Matches what is `value` under `mask` (prefix, ternary, optional). `value & ~mask` is 0."""

    value: int
    mask: int


class Between(NamedTuple):
    """Matches `low` to `high`, both included."""

    low: int
    high: int


Match = int | Masked | Between
"""What an entry asks of one key field; an integer is an exact match."""


@dataclass(frozen=True, slots=True)
class KeyField:
    """One match field: its P4 name, source, width in bits and kind."""

    name: str
    source: FieldRef | IsValid
    width: int
    kind: MatchKind = MatchKind.EXACT


@dataclass(frozen=True, slots=True)
class ConstEntry:
    """An entry of the program's own; `priority` as in P4Runtime, larger wins, 0 where the table has none."""

    key: tuple[Match, ...]
    priority: int
    invocation: Invocation


@dataclass(frozen=True, slots=True)
class Invocation:
    """An action (index into `Program.actions`) with run-time data."""

    action: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `next_nodes` gives for each of its actions the node that follows."""

    name: str
    key: tuple[KeyField, ...]
    actions: tuple[int, ...]
    default: Invocation
    default_is_const: bool
    const_entries: tuple[ConstEntry, ...]
    size: int
    has_counter: bool
    next_nodes: dict[int, str | None]
    next_on_hit: str | None
    next_on_miss: str | None
    branches_on_hit: bool

    @property
    def is_exact(self) -> bool:
        """All fields match exactly: an entry is found by its key alone."""
        return all(part.kind is MatchKind.EXACT for part in self.key)

    @property
    def has_priority(self) -> bool:
        """Entries carry a priority; otherwise the longest prefix wins."""
        return any(part.kind.takes_priority for part in self.key)

    def rank(self, key: tuple[Match, ...], priority: int) -> int:
        """Which of several matching entries wins: the largest, at least 1."""
        prefixes = (match.mask.bit_count() for match in key if isinstance(match, Masked))
        return 1 + (priority if self.has_priority else sum(prefixes))


@dataclass(frozen=True, slots=True)
class Conditional:
    """An `if` between tables."""

    name: str
    condition: Expression
    if_true: str | None
    if_false: str | None


@dataclass(frozen=True, slots=True)
class Control:
    """Ingress or egress: a graph of tables and conditionals by name, entered at `start`."""

    name: str
    start: str | None
    nodes: dict[str, Table | Conditional]


# ---- externs and checksums


@dataclass(frozen=True, slots=True)
class Counter:
    """An indirect counter array."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Register:
    """A register array of `bit<width>`."""

    name: str
    size: int
    width: int


@dataclass(frozen=True, slots=True)
class Checksum:
    """csum16 over the inputs, in order, stored to or compared with `target` where `condition` holds."""

    target: FieldRef
    inputs: tuple[FieldRef | Constant, ...]
    input_widths: tuple[int, ...]
    condition: Expression


@dataclass(frozen=True)
class Program:
    """A whole v1model program."""

    headers: tuple[Header, ...]
    stacks: tuple[Stack, ...]
    errors: dict[str, int]
    parser: tuple[ParserState, ...]
    start_state: int
    verify: tuple[Checksum, ...]
    actions: tuple[Action, ...]
    ingress: Control
    egress: Control
    update: tuple[Checksum, ...]
    deparser: tuple[int, ...]
    counters: tuple[Counter, ...]
    registers: tuple[Register, ...]
    field_index: dict[tuple[str, str], FieldRef] = field(repr=False)

    @cached_property
    def tables(self) -> dict[str, Table]:
        """All tables of both controls, by name."""
        nodes = [*self.ingress.nodes.values(), *self.egress.nodes.values()]
        return {node.name: node for node in nodes if isinstance(node, Table)}

    def standard(self, name: str) -> FieldRef:
        """The field of `standard_metadata` called `name`."""
        return self.field_index["standard_metadata", name]

    def width(self, ref: FieldRef) -> int:
        """Width of a field, in bits."""
        return self.headers[ref.header].fields[ref.field].width

    def invocation(self, table: Table, action: str, args: tuple[int, ...]) -> Invocation:
        """The call of one of the table's actions by name (p4c repeats some names for other tables)."""
        for index in table.actions:
            if self.actions[index].name == action:
                if len(args) != len(self.actions[index].parameters):
                    expected = len(self.actions[index].parameters)
                    raise StateError(f"action {action} takes {expected} parameters, not {len(args)}")
                return Invocation(index, args)
        raise StateError(f"table {table.name} has no action {action}")
