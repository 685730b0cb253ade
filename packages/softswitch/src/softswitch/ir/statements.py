"""Statements of actions, with the semantics of BMv2's primitives. The parser runs some of them, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from softswitch.ir.expressions import Expression, FieldRef, HeaderRef, LValue


@dataclass(frozen=True, slots=True)
class Assign:
    """Store a value modulo 2^width of the target."""

    target: LValue
    value: Expression


@dataclass(frozen=True, slots=True)
class AssignVarbit:
    target: FieldRef
    source: FieldRef


@dataclass(frozen=True, slots=True)
class AssignHeader:
    """Copy a header with its validity; an invalid source only makes the target invalid."""

    target: HeaderRef
    source: HeaderRef


@dataclass(frozen=True, slots=True)
class CopyCursor:
    """Copy a stack's `next` position (part of the assignment of whole stacks)."""

    target: int
    source: int


@dataclass(frozen=True, slots=True)
class SetValid:
    """Make a header valid. If the header was invalid, its fields become 0 and the packet longer."""

    header: HeaderRef


@dataclass(frozen=True, slots=True)
class SetInvalid:
    """Make a header invalid, and the packet shorter if the header was valid."""

    header: HeaderRef


@dataclass(frozen=True, slots=True)
class Shift:
    """`push_front` (count > 0) or `pop_front` (count < 0) of a stack, or of all parts of a stack of unions.

    `sources` is the position from which each element is copied. Elements at `invalid_positions` become
    invalid and keep their fields.
    """

    stacks: tuple[int, ...]
    count: int
    sources: tuple[int, ...]
    invalid_positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """Count the packet in one cell of an indirect counter; an index out of range does nothing."""

    counter: int
    index: Expression


@dataclass(frozen=True, slots=True)
class ExecuteMeter:
    """Meter the packet in one cell and store its colour; an index out of range does nothing."""

    meter: int
    index: Expression
    target: LValue


@dataclass(frozen=True, slots=True)
class RegisterRead:
    """Read one cell; an index out of range leaves the target unchanged."""

    target: LValue
    register: int
    index: Expression


@dataclass(frozen=True, slots=True)
class RegisterWrite:
    """Write one cell; an index out of range does nothing."""

    register: int
    index: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class Hash:
    """Store `base + hash % size`; a size of 0 counts as 1. Base, size and sum are modulo 2^64."""

    target: LValue
    base: Expression
    calculation: int
    size: Expression


@dataclass(frozen=True, slots=True)
class Random:
    """Store a uniformly distributed number from `low` to `high`; do nothing if low > high."""

    target: LValue
    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True)
class MarkToDrop:
    """Set egress_spec to the drop port and mcast_grp to 0, in `standard_metadata` or a copy of it."""

    egress_spec: FieldRef
    mcast_grp: FieldRef | None


@dataclass(frozen=True, slots=True)
class Clone:
    """Clone the packet to a session at the end of this control, ingress or egress; the last call is used."""

    session: Expression
    field_list: int


@dataclass(frozen=True, slots=True)
class Resubmit:
    """Restart with the packet as it arrived, at the end of ingress; the last call is used."""

    field_list: int


@dataclass(frozen=True, slots=True)
class Recirculate:
    """Restart with the packet as deparsed; the last call is used."""

    field_list: int


@dataclass(frozen=True, slots=True)
class Digest:
    """Send a field list to the control plane at the end of ingress; the last call is used."""

    field_list: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """Send at most `length` bytes; the smallest length of several calls applies."""

    length: Expression


@dataclass(frozen=True, slots=True)
class LogMessage:
    """Log a text whose `{}` are replaced by values; `message` is an index of `Program.messages`."""

    message: int
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Assert:
    """`assert` and `assume`: if the condition is 0, log the message and drop the packet."""

    condition: Expression
    message: int


@dataclass(frozen=True, slots=True)
class If:
    """Run one of two statements; p4c writes a conditional assignment of headers this way."""

    condition: Expression
    then: Statement
    otherwise: Statement


@dataclass(frozen=True, slots=True)
class Exit:
    """Leave the control after this action."""


@dataclass(frozen=True, slots=True)
class Jump:
    """Continue at a statement of the action's body (p4c's `if`, `for`), or end the body at its length."""

    target_position: int


@dataclass(frozen=True, slots=True)
class JumpIfZero:
    condition: Expression
    target_position: int
    text: str = field(default="", compare=False, repr=False)
    """The condition in the source; empty if the compiler has made it."""


@dataclass(frozen=True, slots=True)
class CountLoop:
    """Count the backward jump that follows; after `limits.MAX_BACKWARD_JUMPS`, log the message and drop."""

    message: int


Statement = (
    Assign
    | AssignVarbit
    | AssignHeader
    | CopyCursor
    | SetValid
    | SetInvalid
    | Shift
    | Count
    | ExecuteMeter
    | RegisterRead
    | RegisterWrite
    | Hash
    | Random
    | MarkToDrop
    | Clone
    | Resubmit
    | Recirculate
    | Digest
    | Truncate
    | LogMessage
    | Assert
    | If
    | Exit
    | Jump
    | JumpIfZero
    | CountLoop
)


def target_fields(statement: Statement) -> Iterator[FieldRef]:
    """Yield the fields that a statement assigns to, except those of elements at computed positions."""
    if isinstance(statement, If):
        yield from (*target_fields(statement.then), *target_fields(statement.otherwise))
    target = getattr(statement, "target", None)
    if isinstance(target, FieldRef):
        yield target


@dataclass(frozen=True, slots=True)
class Action:
    """An action; `parameters` are their widths in bits, `locations` the source line of each statement."""

    name: str
    parameters: tuple[int, ...]
    body: tuple[Statement, ...]
    locations: tuple[str, ...] = ()
    parameter_names: tuple[str, ...] = ()


def shift_sources(size: int, count: int) -> tuple[int, ...]:
    """Return the old position of each element after a shift by BMv2's swaps (stacks.cpp, StackP4_16)."""
    order = list(range(size))
    if count > 0:
        swaps = [(i, i - count) for i in range(size - 1, count - 1, -1)]
    else:
        swaps = [(i, i - count) for i in range(size + count)]
    for left, right in swaps:
        order[left], order[right] = order[right], order[left]
    return tuple(order)
