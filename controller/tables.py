"""The pipeline's tables as typed rows, and their encoding as P4Runtime messages.

Each class is a row of one table of p4src/. `entry()` returns its numbers, which `RowEncoder` puts into
P4Runtime's messages; `from_entry()` reads a row back. MAC and IPv4 addresses are text, other fields
are numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum, IntEnum
from functools import cache
from ipaddress import IPv4Address
from struct import Struct
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias, get_type_hints

import finsy as fy
from finsy.proto import p4i, p4r
from typing_extensions import Self

from foundation.protocol import addressing
from foundation.protocol.header import LANES, PS_MASK
from foundation.protocol.rows import ONE_VALUE, RowRange, RowRanges, banks_of_row

CPU_PORT = addressing.CPU_PORT
NO_PORT = 511  # of v1model: 9 bits, of which all are 1
INGRESS = "HotlineIngress."
_QUOTA_BYTES = 4
_RANGE = Struct("!QB")  # first key and dim of a range
_LANE_IN_NAME = slice(len("lookup_"), len("lookup_NN"))


class Change(IntEnum):
    INSERT = p4r.Update.INSERT
    MODIFY = p4r.Update.MODIFY
    DELETE = p4r.Update.DELETE


class Replica(NamedTuple):
    port: int
    instance: int = 0


class TableEntry(NamedTuple):
    """A table entry in numbers: full P4 names, exact match fields and action parameters in their order."""

    table: str
    key: tuple[int, ...]
    action: str
    args: tuple[int, ...]
    metadata: bytes = b""  # bytes that the P4Runtime server keeps with the entry for controllers


def _format_mac(value: int) -> str:
    return str(fy.MACAddress(value))


def _format_ipv4(value: int) -> str:
    return str(IPv4Address(value))


class CallerKind(IntEnum):
    """Kind of a caller in table `workers`. A privileged caller also reaches entries that are moving."""

    WORKER = 0
    PRIVILEGED = 1


Mac: TypeAlias = Annotated[str, _format_mac]
Ipv4: TypeAlias = Annotated[str, _format_ipv4]


@dataclass(frozen=True, slots=True)
class TableRow:
    """One table entry: the table's match fields, then the parameters of its action, as P4 names them."""

    TABLES: ClassVar[tuple[str, ...]]
    ACTION: ClassVar[str]
    MATCH_FIELDS: ClassVar[int] = 1
    """Number of match fields, which come first."""
    CONTROL: ClassVar[str] = INGRESS
    """Name of the P4 control with the tables, and a trailing dot."""

    @property
    def identity(self) -> tuple[object, ...]:
        values = (getattr(self, field.name) for field in fields(self)[: self.MATCH_FIELDS])
        return (*self.TABLES, *values)

    def entry(self) -> TableEntry:
        numbers = tuple(_encode_field(getattr(self, field.name)) for field in fields(self))
        key, args = numbers[: self.MATCH_FIELDS], numbers[self.MATCH_FIELDS :]
        return TableEntry(self.CONTROL + self.TABLES[0], key, self.CONTROL + self.ACTION, args)

    @classmethod
    def describes(cls, entry: fy.P4TableEntry) -> bool:
        """Return whether an entry of the kind's table has its action."""
        return _action(entry).name.rpartition(".")[2] == cls.ACTION.rpartition(".")[2]

    @classmethod
    def from_entry(cls, entry: fy.P4TableEntry) -> Self:
        args = _action(entry).args
        decoders = _field_decoders(cls)  # type: ignore[arg-type]  # mypy does not know that classes are hashable
        numbers = (
            entry[name] if position < cls.MATCH_FIELDS else args[name]
            for position, name in enumerate(decoders)
        )
        return cls(*(decode(number) for decode, number in zip(decoders.values(), numbers, strict=True)))


@dataclass(frozen=True, slots=True)
class JobRow(TableRow):
    """Table `jobs`: how the switch treats one job."""

    TABLES = ("identify.jobs",)
    ACTION = "identify.set_job"
    job: int
    offload: bool
    proxy: bool
    quota: int = 0
    """Rows of one value that the job may have while other jobs want slots (`controller/hotset/quotas.py`)."""
    ranges: RowRanges = ONE_VALUE
    """The ranges of the job's keys by the dim of their rows."""

    def entry(self) -> TableEntry:
        # Packets need neither quota nor ranges, so they are in the entry's metadata.
        metadata = _octets(self.quota) if self.quota else b""
        if self.ranges != ONE_VALUE:
            metadata = self.quota.to_bytes(_QUOTA_BYTES, "big")
            metadata += b"".join(_RANGE.pack(first, dim) for first, dim in self.ranges)
        args = (int(self.offload), int(self.proxy))
        return TableEntry(
            self.CONTROL + self.TABLES[0], (self.job,), self.CONTROL + self.ACTION, args, metadata
        )

    @classmethod
    def from_entry(cls, entry: fy.P4TableEntry) -> Self:
        args = _action(entry).args
        quota, ranges = entry.metadata[:_QUOTA_BYTES], entry.metadata[_QUOTA_BYTES:]
        return cls(
            entry["job"], bool(args["offload"]), bool(args["proxy"]), int.from_bytes(quota, "big"),
            tuple(RowRange(*each) for each in _RANGE.iter_unpack(ranges)) or ONE_VALUE,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServerRow(TableRow):
    """Table `servers`: the address of a job's PS, and the service address that workers use for it.

    If a server has several homes, `ps` is its number at this one (`PS_BITS`).
    """

    TABLES = ("identify.servers",)
    ACTION = "identify.set_server"
    MATCH_FIELDS = 2
    job: int
    ps: int
    mac: Mac
    addr: Ipv4
    udp_port: int
    port: int
    service_mac: Mac
    service_addr: Ipv4
    service_port: int

    @property
    def server_id(self) -> int:
        """The number of the server, counted from 0, at all homes."""
        return self.ps & PS_MASK


@dataclass(frozen=True, slots=True)
class HomeRow(TableRow):
    """Table `servers`: a job's PS whose hot set is in another switch, its home, and the ports toward both."""

    TABLES = ("identify.servers",)
    ACTION = "identify.set_home"
    MATCH_FIELDS = 2
    job: int
    ps: int
    home_port: int
    server_port: int = NO_PORT
    """Port toward the PS, if packets from the home come back to this switch on their way."""


@dataclass(frozen=True, slots=True)
class CallerPortRow(TableRow):
    """Table `callers` of a switch that passes packets on: the port toward a caller of one job."""

    TABLES = ("pass_on.callers",)
    ACTION = "pass_on.set_caller_port"
    MATCH_FIELDS = 2
    job: int
    worker: int
    port: int


@dataclass(frozen=True, slots=True)
class UplinkRow(TableRow):
    """Table `bundled_ports`: a port of a bundle, and the first one, which stands for all in other rows."""

    TABLES = ("identify.from_bundle.bundled_ports",)
    ACTION = "identify.from_bundle.set_first"
    port: int
    first: int


@dataclass(frozen=True, slots=True)
class HashedBundleRow(TableRow):
    """Table `bundles`: the first port of a bundle, of which a hash of the flow chooses a member."""

    TABLES = ("to_bundle.bundles",)
    ACTION = "to_bundle.hash_flow"
    port: int
    count: int


@dataclass(frozen=True, slots=True)
class SprayedBundleRow(TableRow):
    """Table `bundles`: the first port of a bundle, whose members take turns."""

    TABLES = ("to_bundle.bundles",)
    ACTION = "to_bundle.take_turns"
    port: int
    count: int


@dataclass(frozen=True, slots=True)
class BundleMemberRow(TableRow):
    """Table `members`: the port of a bundle's member, counted from 0."""

    TABLES = ("to_bundle.members",)
    ACTION = "to_bundle.set_port"
    member: int
    port: int


@dataclass(frozen=True, slots=True)
class WorkerRow(TableRow):
    """Table `workers`: a caller of one job. `caller` is its number in the exactly-once cells, < `CALLERS`."""

    TABLES = ("identify.workers",)
    ACTION = "identify.set_worker"
    MATCH_FIELDS = 3
    job: int
    worker: int
    epoch: int
    caller: int
    mac: Mac
    addr: Ipv4
    udp_port: int
    port: int
    kind: int = CallerKind.WORKER


@dataclass(frozen=True, slots=True)
class Route(TableRow):
    """Table `forward`: the port of a host, for frames that no design processes."""

    TABLES = ("forward.forward",)
    ACTION = "forward.forward_to"
    dst_addr: Mac
    port: int


class KeyState(Enum):
    """State of a key in the switch; the values are the actions of `hot_params`."""

    HOT = "hot"
    RESERVED = "reserved"
    DRAINING = "draining"
    PARKED = "parked"


@dataclass(frozen=True, slots=True)
class HotParam(TableRow):
    """Table `hot_params` of one lane: a job's row of `dim` values, its slot in the banks, and its state."""

    TABLES = tuple(f"lookup_{lane:02d}.hot_params" for lane in range(LANES))
    job: int
    key: int
    lane: int
    slot: int
    state: KeyState
    dim: int = 1

    @property
    def identity(self) -> tuple[object, ...]:
        return self.TABLES[self.lane], self.job, self.dim, self.key

    @classmethod
    def describes(cls, entry: fy.P4TableEntry) -> bool:
        return True  # each state has an action

    @property
    def bank(self) -> int:
        """Return the row's first bank, which counts its pushes."""
        return self.lane * banks_of_row(self.dim)

    @property
    def banks(self) -> range:
        """Return the banks in which the row takes its slot."""
        return range(self.bank, self.bank + banks_of_row(self.dim))

    def entry(self) -> TableEntry:
        action = f"{INGRESS}lookup_{self.lane:02d}.{self.state.value}"
        return TableEntry(
            INGRESS + self.TABLES[self.lane], (self.job, self.dim, self.key), action, (self.slot,)
        )

    @classmethod
    def from_entry(cls, entry: fy.P4TableEntry) -> Self:
        action = _action(entry)
        state = KeyState(action.name.rpartition(".")[2])
        lane = int(entry.table_id[_LANE_IN_NAME])
        return cls(entry["job"], entry["key"], lane, action.args["slot"], state, entry["dim"])


@dataclass(frozen=True, slots=True)
class GroupRow(TableRow):
    """A multicast group, which is in no table."""

    TABLES = ()
    group: int
    replicas: tuple[Replica, ...]

    @property
    def identity(self) -> tuple[object, ...]:
        return "multicast", self.group


@dataclass(frozen=True, slots=True)
class Update:
    change: Change
    row: TableRow


InitialRow: TypeAlias = TableRow
"""A row that a switch has before its agents start: a table entry or a multicast group."""


@cache
def _field_decoders(kind: type[TableRow]) -> dict[str, Callable[[int], Any]]:  # Any: the field's type
    hints = get_type_hints(kind, include_extras=True)
    hints_by_field = {field.name: hints[field.name] for field in fields(kind)}
    # An annotated type has its decoder as metadata; other types, such as int, are their own decoders.
    return {name: getattr(hint, "__metadata__", (hint,))[0] for name, hint in hints_by_field.items()}


def _action(entry: fy.P4TableEntry) -> fy.P4TableAction:
    if not isinstance(entry.action, fy.P4TableAction):
        raise TypeError(f"entry of {entry.table_id} has no action")
    return entry.action


def _encode_field(value: int | str) -> int:
    if isinstance(value, int):
        return int(value)
    return int(value.replace(":", ""), 16) if ":" in value else int(IPv4Address(value))


class _UpdateTemplate(NamedTuple):
    """A message that is changed for each entry of one table and action, and its parts that change."""

    message: p4r.Update
    entry: p4r.TableEntry
    fields: list[p4r.FieldMatch.Exact | p4r.Action.Param]

    @staticmethod
    def of(message: p4r.Update) -> _UpdateTemplate:
        entry = message.entity.table_entry
        match_values = [match.exact for match in entry.match]
        return _UpdateTemplate(message, entry, [*match_values, *entry.action.action.params])


class RowEncoder:
    """Encoder of the rows of one program, whose match fields are all exact."""

    def __init__(self, p4info: p4i.P4Info) -> None:
        self._tables = {
            table.preamble.name: (table.preamble.id, [field.id for field in table.match_fields])
            for table in p4info.tables
        }
        self._actions = {action.preamble.name: action.preamble.id for action in p4info.actions}
        self._templates: dict[tuple[str, str, Change], _UpdateTemplate] = {}

    def update(self, update: Update) -> p4r.Update:
        """Return the P4Runtime update of a row. A DELETE names the entry and has no action."""
        message = p4r.Update()
        self.fill(message, update)
        return message

    def fill(self, message: p4r.Update, update: Update) -> None:
        """Set the fields of an empty message, such as a new one of a request, to those of an update."""
        row, is_deleted = update.row, update.change is Change.DELETE
        message.type = update.change.value
        if isinstance(row, GroupRow):
            group = message.entity.packet_replication_engine_entry.multicast_group_entry
            group.multicast_group_id = row.group
            group.replicas.extend(map(_encode_replica, () if is_deleted else row.replicas))
        else:
            self._fill_table_entry(message.entity.table_entry, row.entry(), is_deleted)

    def append(self, request: p4r.WriteRequest, update: Update) -> None:
        """Append the message of an update to a request; for many entries this is faster than `fill`."""
        row = update.row
        if isinstance(row, GroupRow) or update.change is Change.DELETE:
            self.fill(request.updates.add(), update)
            return
        entry = row.entry()
        kind = entry.table, entry.action, update.change
        template = self._templates.get(kind)
        if template is None:
            template = self._templates[kind] = _UpdateTemplate.of(self.update(update))
        template.entry.metadata = entry.metadata
        for field, number in zip(template.fields, entry.key + entry.args, strict=True):
            field.value = _octets(number)
        request.updates.append(template.message)  # a copy

    def _fill_table_entry(self, message: p4r.TableEntry, entry: TableEntry, is_deleted: bool) -> None:
        message.table_id, field_ids = self._tables[entry.table]
        # Each access to a field that is a message or repeated makes an object, which takes a microsecond.
        add_match = message.match.add
        for field_id, number in zip(field_ids, entry.key, strict=True):
            add_match(field_id=field_id).exact.value = _octets(number)
        if not is_deleted:
            if entry.metadata:
                message.metadata = entry.metadata
            action = message.action.action
            action.action_id = self._actions[entry.action]
            add_param = action.params.add
            for param_id, number in enumerate(entry.args, start=1):
                add_param(param_id=param_id, value=_octets(number))


def _encode_replica(replica: Replica) -> p4r.Replica:
    return p4r.Replica(egress_port=replica.port, instance=replica.instance)


def _octets(number: int) -> bytes:
    """Return the canonical byte string of a number (P4Runtime 1.4 §8.3)."""
    return number.to_bytes((number.bit_length() + 7) // 8 or 1, "big")
