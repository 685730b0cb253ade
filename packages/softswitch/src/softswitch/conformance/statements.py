"""Statements of STF, p4c's "simple test format", as typed values.

The language is that of p4c's BMv2 runner (tools/stf/stf_parser.py, backends/bmv2/bmv2stf.py), with `&&&` and
`->` in match fields, as in simple_switch_CLI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Number:
    """A literal of `bits` bits; `*` digits are 0 in `value` and `mask`. Decimals have no mask or bits."""

    value: int
    mask: int | None = None
    bits: int | None = None

    @property
    def has_wildcard(self) -> bool:
        return self.bits is not None and self.mask != (1 << self.bits) - 1


@dataclass(frozen=True)
class Prefix:
    value: Number
    length: int


@dataclass(frozen=True)
class MaskedValue:
    value: Number
    mask: Number


@dataclass(frozen=True)
class Span:
    """The match `low->high`, with both bounds included."""

    low: Number
    high: Number


MatchValue = Number | Prefix | MaskedValue | Span


@dataclass(frozen=True)
class Call:
    action: str
    args: tuple[tuple[str, Number], ...]


class Statement: ...


@dataclass(frozen=True)
class StfPacket(Statement):
    port: int
    data: bytes


@dataclass(frozen=True)
class Expect(Statement):
    """Expect a frame: hex digits and `*`, None for any. More bytes may follow unless `exact`."""

    port: int
    data: str | None
    exact: bool = False


@dataclass(frozen=True)
class NoPacket(Statement):
    """Expect that no frame leaves on any port."""


@dataclass(frozen=True)
class Add(Statement):
    """Insert an entry; the highest priority wins. `handle` is its name in `check_counter`."""

    table: str
    priority: int | None
    key: tuple[tuple[str, MatchValue], ...]
    call: Call
    handle: str | None


@dataclass(frozen=True)
class SetDefault(Statement):
    table: str
    call: Call


@dataclass(frozen=True)
class RemoveAll(Statement): ...


@dataclass(frozen=True)
class Wait(Statement):
    """Wait until the switch has processed all earlier packets."""


@dataclass(frozen=True)
class CheckCounter(Statement):
    """Compare a cell, given by its index or its entry's handle (direct), with `value` (in `unit`)."""

    counter: str
    cell: int | str
    unit: str = "packets"  # or "bytes"
    comparison: str = "=="
    value: int = 0


@dataclass(frozen=True)
class MirroringAdd(Statement):
    session: int
    port: int


@dataclass(frozen=True)
class MirroringAddMc(Statement):
    session: int
    group: int


@dataclass(frozen=True)
class MirroringDelete(Statement):
    session: int


@dataclass(frozen=True)
class MirroringGet(Statement):
    session: int


@dataclass(frozen=True)
class McGroupCreate(Statement):
    group: int


@dataclass(frozen=True)
class McNodeCreate(Statement):
    """Create a multicast node; nodes are numbered from 0 in the order of creation."""

    instance: int
    ports: tuple[int, ...]


@dataclass(frozen=True)
class McNodeUpdate(Statement):
    node: int
    ports: tuple[int, ...]


@dataclass(frozen=True)
class McNodeAssociate(Statement):
    group: int
    node: int


@dataclass(frozen=True)
class CounterRead(Statement):
    counter: str
    index: int


@dataclass(frozen=True)
class CounterWrite(Statement):
    counter: str
    index: int
    packets: int
    bytes: int


@dataclass(frozen=True)
class StfRegisterRead(Statement):
    register: str
    index: int


@dataclass(frozen=True)
class StfRegisterWrite(Statement):
    register: str
    index: int
    value: int


@dataclass(frozen=True)
class RegisterReset(Statement):
    register: str


class StfRate(NamedTuple):
    """`rate:burst`: the rate in packets or bytes per µs, and the burst in packets or bytes."""

    rate: float
    burst: int


@dataclass(frozen=True)
class MeterGetRates(Statement):
    meter: str
    index: int


@dataclass(frozen=True)
class MeterSetRates(Statement):
    """Set the two rates of a meter's cell, or of all cells (None): committed and peak."""

    meter: str
    index: int | None
    committed: StfRate
    peak: StfRate


class NumberedStatement(NamedTuple):
    number: int  # of the line, from 1
    statement: Statement
