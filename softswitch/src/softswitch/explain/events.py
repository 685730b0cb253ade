"""What a trace consists of. An event is one line of JSON; docs/explain.md has the table of all kinds.

Values of fields, keys and registers are hexadecimal texts ("0x1f"), as they may be wider than JSON's numbers,
and so are bytes, without the 0x. Ports, indices, lengths and times are numbers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple


class Context(NamedTuple):
    """Where an event belongs; a text that is empty is left out of the JSON."""

    packet: int
    """Number of the frame that came in, from 1."""
    copy: int
    """0 is the frame itself; clones, replicas, and those that go round again have numbers of their own."""
    part: str
    """`parser`, the name of a control, `deparser`, or `switch` for what is done between them."""
    state: str = ""
    table: str = ""
    action: str = ""
    source: str = ""
    """File and line of the P4 source, where p4c has recorded them."""


class Value(NamedTuple):
    """A name with a value."""

    name: str
    value: str


class KeyPart(NamedTuple):
    """A field of a table's key: its value, how it is compared, and what the entry asks of it (if one hit)."""

    name: str
    value: str
    match: str
    entry: str | None


@dataclass(frozen=True)
class Event:
    """What all kinds have: a context."""

    KIND: ClassVar[str] = ""
    context: Context


# -- the packet's way


@dataclass(frozen=True)
class Begin(Event):
    """A frame arrived, or a packet was made of the copy `parent`; `data` is what the parser reads."""

    KIND: ClassVar[str] = "begin"
    origin: str
    parent: int | None
    port: int
    data: str


@dataclass(frozen=True)
class Queue(Event):
    """The packet goes to egress, for a port."""

    KIND: ClassVar[str] = "queue"
    port: int


@dataclass(frozen=True)
class Drop(Event):
    """Nothing more happens to the packet."""

    KIND: ClassVar[str] = "drop"
    reason: str


@dataclass(frozen=True)
class Deparse(Event):
    """Headers that are valid, in order, and what follows them, are a frame."""

    KIND: ClassVar[str] = "deparse"
    headers: tuple[str, ...]
    payload: int
    data: str


@dataclass(frozen=True)
class Send(Event):
    """A frame leaves the switch; it is shorter than what was deparsed where it is truncated."""

    KIND: ClassVar[str] = "send"
    port: int
    data: str


@dataclass(frozen=True)
class Request(Event):
    """An action asked for something that is done later.

    `what` is `clone`, `resubmit`, `recirculate`, `digest`, `truncate` or `exit`; `value` is the session of a
    clone, the length to truncate to, and the number of a list of fields otherwise.
    """

    KIND: ClassVar[str] = "request"
    what: str
    value: int | None


# -- the parser


@dataclass(frozen=True)
class State(Event):
    """The parser is in a state."""

    KIND: ClassVar[str] = "state"


@dataclass(frozen=True)
class Extract(Event):
    """A header is filled from the packet, from byte `start` on; its bits are those of all its fields."""

    KIND: ClassVar[str] = "extract"
    header: str
    start: int
    length: int
    fields: tuple[Value, ...]


@dataclass(frozen=True)
class Advance(Event):
    """The parser skips bytes."""

    KIND: ClassVar[str] = "advance"
    start: int
    length: int


@dataclass(frozen=True)
class Select(Event):
    """The next state; `next` null: the parser accepts, `key` null: without a choice."""

    KIND: ClassVar[str] = "select"
    key: str | None
    next: str | None


@dataclass(frozen=True)
class Parsed(Event):
    """The parser has ended; `taken` bytes are in headers or skipped, the rest is payload."""

    KIND: ClassVar[str] = "parsed"
    error: str
    taken: int


# -- controls


@dataclass(frozen=True)
class Enter(Event):
    """A control begins."""

    KIND: ClassVar[str] = "enter"


@dataclass(frozen=True)
class Condition(Event):
    """An `if` of a control or of an action; `text` is empty where p4c quotes none."""

    KIND: ClassVar[str] = "condition"
    text: str
    holds: bool


@dataclass(frozen=True)
class Table(Event):
    """A table was applied.

    `action` of the context runs then, with `data`; it is left out where there is none. `member` or `group`
    is what the entry has in an action profile.
    """

    KIND: ClassVar[str] = "table"
    key: tuple[KeyPart, ...]
    hit: bool
    priority: int | None
    member: int | None
    group: int | None
    data: tuple[Value, ...]


# -- what changes headers and metadata


@dataclass(frozen=True)
class Assign(Event):
    """A field has another value; `width` in bits, which of a varbit field is that of now."""

    KIND: ClassVar[str] = "assign"
    field: str
    width: int
    before: str
    after: str


@dataclass(frozen=True)
class Validity(Event):
    """A header has become valid or invalid (extraction apart)."""

    KIND: ClassVar[str] = "validity"
    header: str
    valid: bool


@dataclass(frozen=True)
class Cursor(Event):
    """The `next` position of a header stack has changed (extraction apart)."""

    KIND: ClassVar[str] = "cursor"
    stack: str
    before: int
    after: int


# -- externs


@dataclass(frozen=True)
class Register(Event):
    """A cell was read or written: `op` is `read` or `write`.

    `before` is what it held, null for an index that is outside; `after` what it holds then.
    """

    KIND: ClassVar[str] = "register"
    op: str
    name: str
    index: int
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Counter(Event):
    """The packet was counted; `packets` and `bytes` are what the cell has now, null for an index outside.

    `index` is null for the direct counter of a table's entry.
    """

    KIND: ClassVar[str] = "counter"
    name: str
    index: int | None
    packets: int | None
    bytes: int | None


@dataclass(frozen=True)
class Meter(Event):
    """A meter has given the packet a colour, null for an index outside; `index` as of a counter."""

    KIND: ClassVar[str] = "meter"
    name: str
    index: int | None
    colour: str | None


@dataclass(frozen=True)
class Hash(Event):
    """A hash or checksum over the bytes `data`."""

    KIND: ClassVar[str] = "hash"
    name: str
    algorithm: str
    data: str
    value: str


@dataclass(frozen=True)
class Checksum(Event):
    """A checksum field was compared or stored: `op` is `verify` or `update`."""

    KIND: ClassVar[str] = "checksum"
    op: str
    field: str
    value: str
    expected: str
    right: bool


@dataclass(frozen=True)
class Random(Event):
    """A number from `low` to `high` was drawn; null where there is none."""

    KIND: ClassVar[str] = "random"
    low: int
    high: int
    value: int | None


@dataclass(frozen=True)
class Digest(Event):
    """Values for the control plane."""

    KIND: ClassVar[str] = "digest"
    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Log(Event):
    """A text that the program logged; `failed`: of an `assert`, `assume` or loop that drops the packet."""

    KIND: ClassVar[str] = "log"
    text: str
    failed: bool


KINDS: dict[str, type[Event]] = {kind.KIND: kind for kind in Event.__subclasses__()}
"""All kinds of events by name."""
_NAMED = (Value, KeyPart)


def to_dict(event: Event) -> dict[str, Any]:
    """The event as JSON has it: kind, context, and what the kind has."""
    context = {name: value for name, value in event.context._asdict().items() if value != ""}
    own = {f.name: _plain(getattr(event, f.name)) for f in fields(event) if f.name != "context"}
    return {"kind": event.KIND, **context, **own}


def to_json(event: Event) -> str:
    """The event as one line."""
    return json.dumps(to_dict(event), separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, _NAMED):
        return value._asdict()
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
