"""Events of a trace. An event is one line of JSON; docs/explain.md has the table of all kinds.

Values of fields, keys and registers are hexadecimal strings ("0x1f"), as they may be wider than JSON's
numbers, and so are bytes, without the 0x. Ports, indices, lengths and times are numbers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple


class Context(NamedTuple):
    """Place of an event; the JSON omits empty strings."""

    packet: int  # number of the frame that arrived, from 1
    copy: int  # 0 for the frame itself
    part: str  # parser, verify, a control, update, deparser or switch
    state: str = ""
    table: str = ""
    action: str = ""
    source: str = ""  # file and line of the P4 program


class Value(NamedTuple):
    name: str
    value: str
    width: int  # in bits


class KeyPart(NamedTuple):
    name: str
    value: str
    match: str  # the kind of match
    entry: str | None
    width: int  # in bits
    field: str  # whose value it is; empty for the validity of a header


@dataclass(frozen=True)
class Event:
    KIND: ClassVar[str]  # the class's name in lower case, without `Event`
    context: Context

    def __init_subclass__(cls) -> None:
        cls.KIND = cls.__name__.removesuffix("Event").lower()


# -- packets


@dataclass(frozen=True)
class BeginEvent(Event):
    origin: str  # arrival, or how the packet was made of the copy `parent`
    parent: int | None
    port: int
    data: str


@dataclass(frozen=True)
class QueueEvent(Event):
    port: int


@dataclass(frozen=True)
class DropEvent(Event):
    reason: str


@dataclass(frozen=True)
class DeparseEvent(Event):
    headers: tuple[str, ...]
    payload: int  # bytes
    data: str


@dataclass(frozen=True)
class SendEvent(Event):
    port: int
    data: str


@dataclass(frozen=True)
class RequestEvent(Event):
    what: str  # an operation that an action asked for and that is done later, such as "clone"
    value: int | None  # its session, length or list of fields


# -- the parser


@dataclass(frozen=True)
class StateEvent(Event): ...


@dataclass(frozen=True)
class ExtractEvent(Event):
    header: str
    start: int  # bytes, as `length`
    length: int
    fields: tuple[Value, ...]


@dataclass(frozen=True)
class AdvanceEvent(Event):
    start: int  # bytes, as `length`
    length: int


@dataclass(frozen=True)
class SelectEvent(Event):
    key: str | None
    next: str | None


@dataclass(frozen=True)
class ParsedEvent(Event):
    error: str
    taken: int  # bytes before the payload


# -- controls


@dataclass(frozen=True)
class EnterEvent(Event): ...


@dataclass(frozen=True)
class ConditionEvent(Event):
    """An `if` of a control or action was evaluated; `text` is empty if p4c has not recorded it."""

    text: str
    holds: bool


@dataclass(frozen=True)
class TableEvent(Event):
    """A table was applied; the context's `action` runs next with `data`, both empty if there is none."""

    key: tuple[KeyPart, ...]
    hit: bool
    priority: int | None
    member: int | None
    group: int | None
    data: tuple[Value, ...]


# -- changes of headers and metadata


@dataclass(frozen=True)
class AssignEvent(Event):
    """A field changed its value; `width` is in bits, the new one for a varbit field."""

    field: str
    width: int
    before: str
    after: str
    valid: bool  # whether its header is, without which the deparser leaves it out; true for metadata


@dataclass(frozen=True)
class ValidityEvent(Event):
    header: str
    valid: bool


@dataclass(frozen=True)
class CursorEvent(Event):
    stack: str
    before: int
    after: int


# -- externs


@dataclass(frozen=True)
class RegisterEvent(Event):
    op: str  # read or write
    name: str
    index: int
    before: str | None
    after: str | None


@dataclass(frozen=True)
class CounterEvent(Event):
    """`packets` and `bytes` are the new counts, null for an index out of range."""

    name: str
    index: int | None
    packets: int | None
    bytes: int | None


@dataclass(frozen=True)
class MeterEvent(Event):
    """A meter gave the packet a colour, null for an index out of range; a direct meter has no index."""

    name: str
    index: int | None
    colour: str | None


@dataclass(frozen=True)
class HashEvent(Event):
    name: str
    algorithm: str
    data: str
    value: str


@dataclass(frozen=True)
class ChecksumEvent(Event):
    op: str  # verify or update
    field: str
    value: str
    expected: str
    right: bool


@dataclass(frozen=True)
class RandomEvent(Event):
    """A random number from `low` to `high` was drawn; null for an empty range."""

    low: int
    high: int
    value: int | None


@dataclass(frozen=True)
class DigestEvent(Event):
    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class LogEvent(Event):
    text: str
    failed: bool  # whether it is an `assert` or `assume` that drops the packet


KINDS: dict[str, type[Event]] = {kind.KIND: kind for kind in Event.__subclasses__()}
_RECORDS = (Value, KeyPart)


def to_dict(event: Event) -> dict[str, object]:
    context = {name: value for name, value in event.context._asdict().items() if value != ""}
    event_fields = {
        f.name: _to_json_value(getattr(event, f.name)) for f in fields(event) if f.name != "context"
    }
    return {"kind": event.KIND, **context, **event_fields}


def to_json(event: Event) -> str:
    return json.dumps(to_dict(event), separators=(",", ":"))


def _to_json_value(value: object) -> object:
    if isinstance(value, _RECORDS):
        return value._asdict()
    return [_to_json_value(item) for item in value] if isinstance(value, tuple) else value
