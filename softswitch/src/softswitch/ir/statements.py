"""Statements of actions, some of which the parser runs too. They mean what BMv2's primitives mean."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.ir.expressions import Expression, FieldRef, HeaderRef, LValue


@dataclass(frozen=True, slots=True)
class Assign:
    """Store the value modulo 2^width of the target."""

    target: LValue
    value: Expression


@dataclass(frozen=True, slots=True)
class AssignVarbit:
    """Copy a varbit field with its length."""

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
    """Make a header valid; its fields become 0 and the packet longer if it was not."""

    header: HeaderRef


@dataclass(frozen=True, slots=True)
class SetInvalid:
    """Make a header invalid, and the packet shorter if it was valid."""

    header: HeaderRef


@dataclass(frozen=True, slots=True)
class Shift:
    """`push_front` (count > 0) or `pop_front` (count < 0) of a stack, or of all of a stack of unions.

    `sources` has the position that each element's content comes from; None makes it invalid.
    """

    stacks: tuple[int, ...]
    count: int
    sources: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """Count the packet in one cell of an indirect counter; out of range does nothing."""

    counter: int
    index: Expression


@dataclass(frozen=True, slots=True)
class ExecuteMeter:
    """Meter the packet in one cell and store its colour; out of range does nothing."""

    meter: int
    index: Expression
    target: LValue


@dataclass(frozen=True, slots=True)
class RegisterRead:
    """Read one cell; out of range leaves the target alone."""

    target: LValue
    register: int
    index: Expression


@dataclass(frozen=True, slots=True)
class RegisterWrite:
    """Write one cell; out of range does nothing."""

    register: int
    index: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class Hash:
    """Store `base + hash % size`; a size of 0 counts as 1. Base, size and sum are taken modulo 2^64."""

    target: LValue
    base: Expression
    calculation: int
    size: Expression


@dataclass(frozen=True, slots=True)
class Random:
    """Store a number from `low` to `high`, all equally likely; nothing where low > high."""

    target: LValue
    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True)
class MarkToDrop:
    """`mark_to_drop`: the drop port as egress_spec, and no multicast group."""


@dataclass(frozen=True, slots=True)
class Clone:
    """Clone the packet to a session when this pipeline (ingress or egress) ends; the last call counts."""

    session: Expression
    field_list: int


@dataclass(frozen=True, slots=True)
class Resubmit:
    """Start again from the packet as it arrived, when ingress ends; the last call counts."""

    field_list: int


@dataclass(frozen=True, slots=True)
class Recirculate:
    """Start again with the packet as the deparser left it; the last call counts."""

    field_list: int


@dataclass(frozen=True, slots=True)
class Digest:
    """Send a list of fields to the control plane when ingress ends; the last call counts."""

    field_list: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """Send at most `length` bytes; the smallest of several calls counts."""

    length: Expression


@dataclass(frozen=True, slots=True)
class LogMessage:
    """Log a text with the values of its `{}`; `message` indexes `Program.messages`."""

    message: int
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Assert:
    """`assert` and `assume`: where the condition is 0, log the message and drop the packet."""

    condition: Expression
    message: int


@dataclass(frozen=True, slots=True)
class If:
    """One of two statements (p4c writes a choice between headers that way)."""

    condition: Expression
    then: Statement
    otherwise: Statement


@dataclass(frozen=True, slots=True)
class Exit:
    """Leave the control after this action."""


@dataclass(frozen=True, slots=True)
class Jump:
    """Go on at a statement of the action's body, by its position; the body's length ends the action.

    Only bodies of actions have jumps (p4c's `if` and `for` in an action).
    """

    to: int


@dataclass(frozen=True, slots=True)
class JumpIfZero:
    """The same where the condition is 0; else go on behind it."""

    condition: Expression
    to: int


@dataclass(frozen=True, slots=True)
class CountLoop:
    """Stands before a jump back: the `MAX_LOOPS`-th of one action drops the packet and logs the message."""

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


@dataclass(frozen=True, slots=True)
class Action:
    """An action: name, widths of its run-time data, body, and where in the P4 source its statements are.

    `data` has the names of the run-time data.
    """

    name: str
    parameters: tuple[int, ...]
    body: tuple[Statement, ...]
    locations: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
