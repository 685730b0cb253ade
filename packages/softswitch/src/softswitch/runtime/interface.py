"""The calls of the service `softswitch.v1.Runtime`, and their data (docs/commands.md).

A request is a JSON object with the arguments by name, a response `{"answer": ...}` with the returned value. A
P4 value is text in hexadecimal (`"0x0a000101"`), a match of an entry `"0xa"`, `"0xa/8"`, `"0xa&&&0xff"` or
`"0x1->0x5"`. Tables, actions, registers and so on have their fully qualified P4 names. Handles are BMv2's:
numbers from 0, separate for each table's entries and each action profile's members and groups. Priorities
are BMv2's too: the smallest wins, and for tables without priorities callers pass 0.
"""

from __future__ import annotations

from typing import Protocol, TypedDict

SERVICE = "softswitch.v1.Runtime"


class TableAction(TypedDict, total=False):
    """The action of an entry: an action with its data, or the handle of a member or of a group."""

    action: str
    data: list[str]
    member: int
    group: int


class IdleTimes(TypedDict):
    """Idle timeout and time since the last hit of an entry, ms; a timeout of 0 is none."""

    timeout: int
    idle: int


class RuntimeEntry(TypedDict):
    """An entry with its action (`doing`); `priority` is -1, and `life` None, if the table has none."""

    handle: int
    match: list[str]
    priority: int
    doing: TableAction
    life: IdleTimes | None


class Member(TypedDict):
    handle: int
    action: str
    data: list[str]


class Group(TypedDict):
    handle: int
    members: list[int]  # handles


class RuntimeCount(TypedDict):
    packets: int
    bytes: int


class RuntimeRate(TypedDict):
    """A rate of a meter in units/µs and its burst in units, which are packets or bytes."""

    rate: float
    burst: int


class RuntimeNode(TypedDict):
    """A node of a multicast group: its `egress_rid`, and the ports and LAGs to which it sends copies."""

    handle: int
    rid: int
    ports: list[int]
    lags: list[int]


class McGroup(TypedDict):
    group: int
    nodes: list[RuntimeNode]  # in the order of the copies


class Lag(TypedDict):  # a link aggregation group
    lag: int
    ports: list[int]


class Multicast(TypedDict):
    groups: list[McGroup]
    lags: list[Lag]


class Mirror(TypedDict):
    port: int | None
    group: int | None  # a multicast group, if there is no port


class RuntimePort(TypedDict):
    port: int
    interface: str
    is_up: bool


class Time(TypedDict):
    """The switch's clock in µs: since its start, and since 1970."""

    elapsed: int
    epoch: int


class RuntimeCrc(TypedDict):
    polynomial: int
    initial: int
    final: int
    reflect_data: bool
    reflect_remainder: bool


class Info(TypedDict):
    device_id: int
    version: str
    has_p4info: bool


class Runtime(Protocol):
    """The calls on a switch. A call that fails raises SwitchError and changes nothing.

    Calls that add or create return the handle of the new object; entries, members and groups are listed in
    the order of their handles; an index or handle of None selects all.
    """

    # -- the program

    def info(self) -> Info: ...

    def config(self) -> str:
        """Return the BMv2 JSON of the program that calls refer to."""

    def load_config(self, config: str) -> None:
        """Load a program, given as BMv2 JSON, without running it; from now on calls refer to it."""

    def swap_configs(self) -> None:
        """Run the program that was loaded last."""

    def reset_state(self) -> None: ...

    def state(self) -> str:
        """Return all P4Runtime entities as protobuf text of a `p4.v1.ReadResponse`."""

    # -- tables

    def table_add(self, table: str, match: list[str], priority: int, doing: TableAction) -> int: ...

    def table_modify(self, table: str, handle: int, doing: TableAction) -> None: ...

    def table_delete(self, table: str, handle: int) -> None: ...

    def table_clear(self, table: str) -> None:
        """Delete all entries except the default entry."""

    def table_entries(self, table: str) -> list[RuntimeEntry]: ...

    def table_entry(self, table: str, handle: int) -> RuntimeEntry: ...

    def table_find(self, table: str, match: list[str], priority: int) -> RuntimeEntry: ...

    def table_size(self, table: str) -> int: ...

    def table_default(self, table: str) -> TableAction | None: ...

    def table_set_default(self, table: str, doing: TableAction | None) -> None:
        """Replace the default action; None restores the program's default action."""

    def table_set_timeout(self, table: str, handle: int, timeout: int) -> None:
        """Notify controllers when an entry has been idle for `timeout` ms; 0 for never."""

    # -- action profiles

    def member_create(self, profile: str, action: str, data: list[str]) -> int: ...

    def member_modify(self, profile: str, member: int, action: str, data: list[str]) -> None: ...

    def member_delete(self, profile: str, member: int) -> None:
        """Remove a member that is not in use."""

    def members(self, profile: str) -> list[Member]: ...

    def group_create(self, profile: str) -> int: ...

    def group_delete(self, profile: str, group: int) -> None:
        """Remove a group that is not in use."""

    def group_add(self, profile: str, group: int, member: int) -> None: ...

    def group_remove(self, profile: str, group: int, member: int) -> None: ...

    def groups(self, profile: str) -> list[Group]: ...

    # -- registers, counters, meters, value sets; direct counters and meters by table and handle

    def register_read(self, register: str, index: int | None) -> list[str]: ...

    def register_write(self, register: str, index: int | None, value: str) -> None: ...

    def counter_read(self, counter: str, index: int) -> RuntimeCount: ...

    def counter_write(self, counter: str, index: int | None, packets: int, octets: int) -> None: ...

    def entry_counter_read(self, table: str, handle: int) -> RuntimeCount: ...

    def entry_counter_write(self, table: str, handle: int | None, packets: int, octets: int) -> None: ...

    def meter_rates(self, meter: str, index: int) -> list[RuntimeRate]:
        """Return the committed and the peak rate of a cell; an empty list if it is not configured."""

    def meter_set_rates(self, meter: str, index: int | None, rates: list[RuntimeRate]) -> None:
        """Set both rates of one cell, or of all cells, and fill the buckets."""

    def entry_meter_rates(self, table: str, handle: int) -> list[RuntimeRate]:
        """Return both rates of an entry's meter; an empty list if it is not configured."""

    def entry_meter_set_rates(self, table: str, handle: int | None, rates: list[RuntimeRate]) -> None: ...

    def value_set(self, name: str) -> list[str]:
        """Return the members of a parser value set, each the concatenation of its fields without padding."""

    def value_set_write(self, name: str, values: list[str]) -> None: ...

    # -- multicast and mirroring

    def mc_group_create(self, group: int) -> None: ...

    def mc_group_destroy(self, group: int) -> None:
        """Remove a group; its nodes remain, in no group."""

    def mc_node_create(self, rid: int, ports: list[int], lags: list[int]) -> int: ...

    def mc_node_update(self, node: int, ports: list[int], lags: list[int]) -> None: ...

    def mc_node_destroy(self, node: int) -> None:
        """Remove a node, also from its group."""

    def mc_node_associate(self, group: int, node: int) -> None: ...

    def mc_node_dissociate(self, group: int, node: int) -> None: ...

    def mc_set_lag(self, lag: int, ports: list[int]) -> None: ...

    def multicast(self) -> Multicast: ...

    def mirror_set(self, session: int, port: int | None, group: int | None) -> None: ...

    def mirror_delete(self, session: int) -> None: ...

    def mirror(self, session: int) -> Mirror: ...

    # -- the device

    def ports(self) -> list[RuntimePort]:
        """Return all ports, ordered by number."""

    def port_add(self, port: int, interface: str) -> None: ...

    def port_remove(self, port: int) -> None: ...

    def queue_set(self, port: int | None, priority: int | None, rate: int | None, depth: int | None) -> None:
        """Set rate (packets/s; 0: unlimited) and depth (packets) of queues, each unless it is None.

        A `port` or `priority` of None selects all.
        """

    def time(self) -> Time: ...

    # `width` is 16 or 32 bits.
    def crc_set(self, calculation: str, width: int, crc: RuntimeCrc) -> None: ...
