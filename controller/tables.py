"""The pipeline's tables as typed values: what an entry means, and how finsy writes and reads it.

Every class here is one row of one table of p4src/. `entry()` gives finsy's form, `of()` reads it back. MAC
and IPv4 addresses are text, UDP ports, switch ports and ids are numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address
from typing import ClassVar, Protocol, TypeAlias

import finsy as fy
from typing_extensions import Self

from protocol import addressing
from protocol.header import LANES

CPU_PORT = addressing.CPU_PORT
ROWS = 8192
SLOTS = 4096
KIND_WORKER = 0
KIND_PRIVILEGED = 1


class Row(Protocol):
    """One table entry of any of the classes below."""

    def entry(self) -> fy.P4TableEntry:
        """The entry as finsy writes it."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """Table `jobs`: how the switch treats one job."""

    TABLE: ClassVar[str] = "jobs"
    job: int
    offload: bool
    proxy: bool

    @property
    def key(self) -> tuple[object, ...]:
        """What the entry matches on."""
        return (self.TABLE, self.job)

    def entry(self) -> fy.P4TableEntry:
        """The entry as finsy writes it."""
        action = fy.Action("set_job", offload=int(self.offload), proxy=int(self.proxy))
        return fy.P4TableEntry(self.TABLE, match=fy.Match(job=self.job), action=action)

    @classmethod
    def of(cls, entry: fy.P4TableEntry) -> Self:
        """Read an entry of table `jobs`."""
        args = _args(entry)
        return cls(entry["job"], bool(args["offload"]), bool(args["proxy"]))


@dataclass(frozen=True, slots=True)
class Server:
    """Table `servers`: where a job's PS is, and the service address that workers know it by."""

    TABLE: ClassVar[str] = "servers"
    job: int
    ps: int
    mac: str
    addr: str
    udp_port: int
    port: int
    service_mac: str
    service_addr: str
    service_port: int

    @property
    def key(self) -> tuple[object, ...]:
        """What the entry matches on."""
        return (self.TABLE, self.job, self.ps)

    def entry(self) -> fy.P4TableEntry:
        """The entry as finsy writes it."""
        action = fy.Action(
            "set_server",
            mac=self.mac,
            addr=self.addr,
            udp_port=self.udp_port,
            port=self.port,
            service_mac=self.service_mac,
            service_addr=self.service_addr,
            service_port=self.service_port,
        )
        return fy.P4TableEntry(self.TABLE, match=fy.Match(job=self.job, ps=self.ps), action=action)

    @classmethod
    def of(cls, entry: fy.P4TableEntry) -> Self:
        """Read an entry of table `servers`."""
        args = _args(entry)
        return cls(
            job=entry["job"],
            ps=entry["ps"],
            mac=_mac(args["mac"]),
            addr=_ipv4(args["addr"]),
            udp_port=args["udp_port"],
            port=args["port"],
            service_mac=_mac(args["service_mac"]),
            service_addr=_ipv4(args["service_addr"]),
            service_port=args["service_port"],
        )


@dataclass(frozen=True, slots=True)
class Worker:
    """Table `workers`: a caller of one job. `row` is its index in the exactly-once cells, < `ROWS`."""

    TABLE: ClassVar[str] = "workers"
    job: int
    worker: int
    epoch: int
    row: int
    mac: str
    addr: str
    udp_port: int
    port: int
    kind: int = KIND_WORKER

    @property
    def key(self) -> tuple[object, ...]:
        """What the entry matches on."""
        return (self.TABLE, self.job, self.worker, self.epoch)

    def entry(self) -> fy.P4TableEntry:
        """The entry as finsy writes it."""
        action = fy.Action(
            "set_worker",
            row=self.row,
            mac=self.mac,
            addr=self.addr,
            udp_port=self.udp_port,
            port=self.port,
            kind=self.kind,
        )
        match = fy.Match(job=self.job, worker=self.worker, epoch=self.epoch)
        return fy.P4TableEntry(self.TABLE, match=match, action=action)

    @classmethod
    def of(cls, entry: fy.P4TableEntry) -> Self:
        """Read an entry of table `workers`."""
        args = _args(entry)
        return cls(
            job=entry["job"],
            worker=entry["worker"],
            epoch=entry["epoch"],
            row=args["row"],
            mac=_mac(args["mac"]),
            addr=_ipv4(args["addr"]),
            udp_port=args["udp_port"],
            port=args["port"],
            kind=args["kind"],
        )


@dataclass(frozen=True, slots=True)
class Route:
    """Table `forward`: the port of a host, for traffic that is not ours."""

    TABLE: ClassVar[str] = "forward"
    mac: str
    port: int

    @property
    def key(self) -> tuple[object, ...]:
        """What the entry matches on."""
        return (self.TABLE, self.mac)

    def entry(self) -> fy.P4TableEntry:
        """The entry as finsy writes it."""
        action = fy.Action("forward_to", port=self.port)
        return fy.P4TableEntry(self.TABLE, match=fy.Match(dst_addr=self.mac), action=action)

    @classmethod
    def of(cls, entry: fy.P4TableEntry) -> Self:
        """Read an entry of table `forward`."""
        return cls(_mac(entry["dst_addr"]), _args(entry)["port"])


class State(Enum):
    """State of a key in the switch; the values are the actions of `hot_params`."""

    HOT = "hot"
    RESERVED = "reserved"
    DRAINING = "draining"
    PARKED = "parked"


@dataclass(frozen=True, slots=True)
class HotParam:
    """Table `hot_params` of one lane: a key of a job, the register slot that it has, and its state."""

    job: int
    key: int
    lane: int
    slot: int
    state: State

    def entry(self) -> fy.P4TableEntry:
        """The entry as finsy writes it."""
        action = fy.Action(f"lookup_{self.lane:02d}.{self.state.value}", slot=self.slot)
        return fy.P4TableEntry(
            hot_table(self.lane), match=fy.Match(job=self.job, key=self.key), action=action
        )

    @classmethod
    def of(cls, entry: fy.P4TableEntry) -> Self:
        """Read an entry of any lane's `hot_params`."""
        action = _action(entry)
        state = State(action.name.rpartition(".")[2])
        return cls(entry["job"], entry["key"], int(entry.table_id[7:9]), action.args["slot"], state)


def hot_table(lane: int) -> str:
    """P4Info alias of a lane's `hot_params`."""
    return f"lookup_{lane:02d}.hot_params"


HOT_TABLES = tuple(hot_table(lane) for lane in range(LANES))


class UpdateType(Enum):
    """Kind of a table update, as in P4Runtime 1.4 §12."""

    INSERT = "insert"
    MODIFY = "modify"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Update:
    """One table update."""

    type: UpdateType
    row: Row

    def encode(self) -> fy.P4TableEntry:
        """The update as finsy writes it."""
        entry = self.row.entry()
        if self.type is UpdateType.INSERT:
            return +entry
        return ~entry if self.type is UpdateType.MODIFY else -entry


Settings: TypeAlias = Job | Server | Worker | Route
SETTINGS: dict[str, Callable[[fy.P4TableEntry], Settings]] = {
    Job.TABLE: Job.of,
    Server.TABLE: Server.of,
    Worker.TABLE: Worker.of,
    Route.TABLE: Route.of,
}
"""How the entries of each table of settings are read."""


def _action(entry: fy.P4TableEntry) -> fy.P4TableAction:
    if not isinstance(entry.action, fy.P4TableAction):
        raise TypeError(f"entry of {entry.table_id} has no action")
    return entry.action


def _args(entry: fy.P4TableEntry) -> dict[str, int]:
    return _action(entry).args


def _mac(value: int) -> str:
    return str(fy.MACAddress(value))


def _ipv4(value: int) -> str:
    return str(IPv4Address(value))
