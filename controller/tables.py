"""The pipeline's tables as typed values: what an entry means, and how it is written and read.

Every class here is one row of one table of p4src/. `entry()` has its numbers, which `controller.encoding`
puts into P4Runtime's messages; `of()` reads it back. MAC and IPv4 addresses are text; UDP ports, switch ports
and ids are numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum, IntEnum
from functools import cache
from ipaddress import IPv4Address
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias, get_type_hints

import finsy as fy
from finsy.proto import p4r
from typing_extensions import Self

from foundation.protocol import addressing
from foundation.protocol.header import LANES

CPU_PORT = addressing.CPU_PORT
ROWS = 8192
SLOTS = 4096
INGRESS = "HotlineIngress."


class Change(IntEnum):
    """Type of a P4Runtime update."""

    INSERT = p4r.Update.INSERT
    MODIFY = p4r.Update.MODIFY
    DELETE = p4r.Update.DELETE


class Replica(NamedTuple):
    """A copy of a multicast packet: egress port, and its number there (`egress_rid`)."""

    port: int
    instance: int = 0


class TableEntry(NamedTuple):
    """A table entry in numbers: full P4 names, exact match fields and action parameters in their order."""

    table: str
    key: tuple[int, ...]
    action: str
    args: tuple[int, ...]


class MulticastGroup(NamedTuple):
    """An entry of the packet replication engine."""

    group: int
    replicas: tuple[Replica, ...]


def _mac(value: int) -> str:
    return str(fy.MACAddress(value))


def _ipv4(value: int) -> str:
    return str(IPv4Address(value))


class CallerKind(IntEnum):
    """Kind of a caller in table `workers`. A privileged caller also reaches entries that are moving."""

    WORKER = 0
    PRIVILEGED = 1


Mac: TypeAlias = Annotated[str, _mac]
Ipv4: TypeAlias = Annotated[str, _ipv4]


@dataclass(frozen=True, slots=True)
class Row:
    """One table entry: the table's match fields, then the parameters of its action, as P4 names them."""

    TABLES: ClassVar[tuple[str, ...]]
    ACTION: ClassVar[str]
    MATCHED: ClassVar[int] = 1
    """How many of the fields are matched on."""
    CONTROL: ClassVar[str] = INGRESS
    """That has the tables."""

    @property
    def identity(self) -> tuple[object, ...]:
        """What no other entry of the switch has."""
        values = (getattr(self, field.name) for field in fields(self)[: self.MATCHED])
        return (*self.TABLES, *values)

    def entry(self) -> TableEntry | MulticastGroup:
        """Return the row as the switch has it."""
        numbers = tuple(_number(getattr(self, field.name)) for field in fields(self))
        key, args = numbers[: self.MATCHED], numbers[self.MATCHED :]
        return TableEntry(self.CONTROL + self.TABLES[0], key, self.CONTROL + self.ACTION, args)

    @classmethod
    def of(cls, entry: fy.P4TableEntry) -> Self:
        """Read an entry of the row's tables."""
        args = _action(entry).args
        readers = _readers(cls)  # type: ignore[arg-type]  # mypy does not know that classes are hashable
        numbers = (entry[name] if at < cls.MATCHED else args[name] for at, name in enumerate(readers))
        return cls(*(read(number) for read, number in zip(readers.values(), numbers, strict=True)))


@dataclass(frozen=True, slots=True)
class Job(Row):
    """Table `jobs`: how the switch treats one job."""

    TABLES = ("identify.jobs",)
    ACTION = "identify.set_job"
    job: int
    offload: bool
    proxy: bool


@dataclass(frozen=True, slots=True)
class Server(Row):
    """Table `servers`: where a job's PS is, and the service address that workers know it by."""

    TABLES = ("identify.servers",)
    ACTION = "identify.set_server"
    MATCHED = 2
    job: int
    ps: int
    mac: Mac
    addr: Ipv4
    udp_port: int
    port: int
    service_mac: Mac
    service_addr: Ipv4
    service_port: int


@dataclass(frozen=True, slots=True)
class Worker(Row):
    """Table `workers`: a caller of one job. `row` is its index in the exactly-once cells, < `ROWS`."""

    TABLES = ("identify.workers",)
    ACTION = "identify.set_worker"
    MATCHED = 3
    job: int
    worker: int
    epoch: int
    row: int
    mac: Mac
    addr: Ipv4
    udp_port: int
    port: int
    kind: int = CallerKind.WORKER


@dataclass(frozen=True, slots=True)
class Route(Row):
    """Table `forward`: the port of a host, for traffic that is not ours."""

    TABLES = ("forward.forward",)
    ACTION = "forward.forward_to"
    dst_addr: Mac
    port: int


class State(Enum):
    """State of a key in the switch; the values are the actions of `hot_params`."""

    HOT = "hot"
    RESERVED = "reserved"
    DRAINING = "draining"
    PARKED = "parked"


@dataclass(frozen=True, slots=True)
class HotParam(Row):
    """Table `hot_params` of one lane: a key of a job, the register slot that it has, and its state."""

    TABLES = tuple(f"lookup_{lane:02d}.hot_params" for lane in range(LANES))
    job: int
    key: int
    lane: int
    slot: int
    state: State

    @property
    def identity(self) -> tuple[object, ...]:
        """What no other entry of the switch has."""
        return self.TABLES[self.lane], self.job, self.key

    def entry(self) -> TableEntry:
        """Return the row as the switch has it."""
        action = f"{INGRESS}lookup_{self.lane:02d}.{self.state.value}"
        return TableEntry(INGRESS + self.TABLES[self.lane], (self.job, self.key), action, (self.slot,))

    @classmethod
    def of(cls, entry: fy.P4TableEntry) -> Self:
        """Read an entry of any lane."""
        action = _action(entry)
        state = State(action.name.rpartition(".")[2])
        return cls(entry["job"], entry["key"], int(entry.table_id[7:9]), action.args["slot"], state)


@dataclass(frozen=True, slots=True)
class Group(Row):
    """A multicast group: a copy for each port, told from the others by its number there (`egress_rid`)."""

    TABLES = ()
    group: int
    replicas: tuple[Replica, ...]

    @property
    def identity(self) -> tuple[object, ...]:
        """What no other group of the switch has."""
        return "multicast", self.group

    def entry(self) -> MulticastGroup:
        """Return the group as the switch has it."""
        return MulticastGroup(self.group, self.replicas)


@dataclass(frozen=True, slots=True)
class Update:
    """One table update."""

    change: Change
    row: Row


Settings: TypeAlias = Row
"""What is in the switch from the beginning: rows of tables, and multicast groups."""


@cache
def _readers(kind: type[Row]) -> dict[str, Callable[[int], Any]]:
    """Field -> what makes its value of a number."""
    hints = get_type_hints(kind, include_extras=True)
    kinds = {field.name: hints[field.name] for field in fields(kind)}
    return {name: getattr(hint, "__metadata__", (hint,))[0] for name, hint in kinds.items()}


def _action(entry: fy.P4TableEntry) -> fy.P4TableAction:
    if not isinstance(entry.action, fy.P4TableAction):
        raise TypeError(f"entry of {entry.table_id} has no action")
    return entry.action


def _number(value: int | str) -> int:
    """Of a number, a MAC or an IPv4 address."""
    if isinstance(value, int):
        return int(value)
    return int(value.replace(":", ""), 16) if ":" in value else int(IPv4Address(value))
