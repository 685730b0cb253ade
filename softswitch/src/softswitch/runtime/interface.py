"""The calls of the service `softswitch.v1.Runtime`, and what they carry (docs/commands.md).

A request is a JSON object with the arguments by name, a response `{"answer": ...}` with what is returned. A
P4 value is text in hexadecimal (`"0x0a000101"`), a match of an entry `"0xa"`, `"0xa/8"`, `"0xa&&&0xff"` or
`"0x1->0x5"`. Tables, actions, registers and so on have their fully qualified P4 names. Handles are BMv2's:
numbers from 0, of entries for each table, of members and groups for each action profile. Priorities are
BMv2's too: the smallest wins, and tables whose entries have none take 0.
"""

from __future__ import annotations

from typing import Protocol, TypedDict

SERVICE = "softswitch.v1.Runtime"


class Doing(TypedDict, total=False):
    """What an entry does: an action with its data, or a member or a group by its handle."""

    action: str
    data: list[str]
    member: int
    group: int


class Life(TypedDict):
    """How an entry ages, in ms; a timeout of 0 is none."""

    timeout: int
    idle: int


class Entry(TypedDict):
    """An entry of a table; `priority` is -1 and `life` None where the table's entries have none."""

    handle: int
    match: list[str]
    priority: int
    doing: Doing
    life: Life | None


class Member(TypedDict):
    """A member of an action profile."""

    handle: int
    action: str
    data: list[str]


class Group(TypedDict):
    """A group of an action profile, with the handles of its members."""

    handle: int
    members: list[int]


class Count(TypedDict):
    """A counter."""

    packets: int
    bytes: int


class Rate(TypedDict):
    """A rate of a meter in units/µs and its burst in units, which are packets or bytes."""

    rate: float
    burst: int


class Node(TypedDict):
    """A node of a multicast group: its `egress_rid`, and where it sends copies."""

    handle: int
    rid: int
    ports: list[int]
    lags: list[int]


class McGroup(TypedDict):
    """A multicast group with its nodes, in the order of the copies."""

    group: int
    nodes: list[Node]


class Lag(TypedDict):
    """A link aggregation group."""

    lag: int
    ports: list[int]


class Multicast(TypedDict):
    """All multicast groups and link aggregation groups."""

    groups: list[McGroup]
    lags: list[Lag]


class Mirror(TypedDict):
    """Where a mirroring session sends copies: to a port, or to the copies of a multicast group."""

    port: int | None
    group: int | None


class Port(TypedDict):
    """A port of the switch."""

    port: int
    interface: str
    is_up: bool


class Time(TypedDict):
    """The switch's clock in µs: since its start, and since 1970."""

    elapsed: int
    epoch: int


class Crc(TypedDict):
    """The parameters of a CRC of 16 or 32 bits."""

    polynomial: int
    initial: int
    final: int
    reflect_data: bool
    reflect_remainder: bool


class Info(TypedDict):
    """What switch it is."""

    device_id: int
    version: str
    has_p4info: bool


class Runtime(Protocol):
    """What can be asked of a switch. A call that fails raises `SwitchError` and changes nothing."""

    # -- the program

    def info(self) -> Info:
        """What switch it is."""
        ...

    def config(self) -> str:
        """The BMv2 JSON of the program that commands are about."""
        ...

    def load_config(self, config: str) -> None:
        """Make ready a program by its BMv2 JSON; commands are about it from now on."""
        ...

    def swap_configs(self) -> None:
        """Run the program that was made ready."""
        ...

    def reset_state(self) -> None:
        """Make all state what it was when the program was loaded."""
        ...

    def state(self) -> str:
        """All state as text: P4Runtime's entities, as protobuf text of a `p4.v1.ReadResponse`."""
        ...

    # -- tables

    def table_add(self, table: str, match: list[str], priority: int, doing: Doing) -> int:
        """Insert an entry; its handle."""
        ...

    def table_modify(self, table: str, handle: int, doing: Doing) -> None:
        """Change what an entry does."""
        ...

    def table_delete(self, table: str, handle: int) -> None:
        """Delete an entry."""
        ...

    def table_clear(self, table: str) -> None:
        """Delete all entries; the default stays."""
        ...

    def table_entries(self, table: str) -> list[Entry]:
        """All entries, by handle."""
        ...

    def table_entry(self, table: str, handle: int) -> Entry:
        """The entry with a handle."""
        ...

    def table_find(self, table: str, match: list[str], priority: int) -> Entry:
        """The entry with a key."""
        ...

    def table_size(self, table: str) -> int:
        """How many entries a table has now."""
        ...

    def table_default(self, table: str) -> Doing | None:
        """What a miss does; None for nothing."""
        ...

    def table_set_default(self, table: str, doing: Doing | None) -> None:
        """Replace what a miss does; None restores the program's own."""
        ...

    def table_set_timeout(self, table: str, handle: int, timeout: int) -> None:
        """Tell controllers of an entry that is idle for so many ms; 0 for never."""
        ...

    # -- action profiles

    def member_create(self, profile: str, action: str, data: list[str]) -> int:
        """Add a member; its handle."""
        ...

    def member_modify(self, profile: str, member: int, action: str, data: list[str]) -> None:
        """Change what a member does."""
        ...

    def member_delete(self, profile: str, member: int) -> None:
        """Remove a member that nothing uses."""
        ...

    def members(self, profile: str) -> list[Member]:
        """All members, by handle."""
        ...

    def group_create(self, profile: str) -> int:
        """Add a group without members; its handle."""
        ...

    def group_delete(self, profile: str, group: int) -> None:
        """Remove a group that nothing uses."""
        ...

    def group_add(self, profile: str, group: int, member: int) -> None:
        """Put a member into a group."""
        ...

    def group_remove(self, profile: str, group: int, member: int) -> None:
        """Take a member out of a group."""
        ...

    def groups(self, profile: str) -> list[Group]:
        """All groups, by handle."""
        ...

    # -- registers, counters, meters, value sets; those of an entry by its table and handle

    def register_read(self, register: str, index: int | None) -> list[str]:
        """One cell, or all."""
        ...

    def register_write(self, register: str, index: int | None, value: str) -> None:
        """Write one cell, or all."""
        ...

    def counter_read(self, counter: str, index: int) -> Count:
        """Read one cell."""
        ...

    def counter_write(self, counter: str, index: int | None, packets: int, octets: int) -> None:
        """Write one cell, or all."""
        ...

    def entry_counter_read(self, table: str, handle: int) -> Count:
        """Read an entry's counter."""
        ...

    def entry_counter_write(self, table: str, handle: int | None, packets: int, octets: int) -> None:
        """Write the counter of one entry, or of all."""
        ...

    def meter_rates(self, meter: str, index: int) -> list[Rate]:
        """The committed rate and the peak rate of a cell; none where it is not configured."""
        ...

    def meter_set_rates(self, meter: str, index: int | None, rates: list[Rate]) -> None:
        """Set both rates of one cell, or of all, and fill the buckets."""
        ...

    def entry_meter_rates(self, table: str, handle: int) -> list[Rate]:
        """Both rates of an entry's meter; none where it is not configured."""
        ...

    def entry_meter_set_rates(self, table: str, handle: int | None, rates: list[Rate]) -> None:
        """Set both rates of one entry's meter, or of all entries'."""
        ...

    def value_set(self, name: str) -> list[str]:
        """The members of a parser value set; each is its parts one behind the other, without padding."""
        ...

    def value_set_write(self, name: str, values: list[str]) -> None:
        """Replace the members."""
        ...

    # -- multicast and mirroring

    def mc_group_create(self, group: int) -> None:
        """Make a group without nodes."""
        ...

    def mc_group_destroy(self, group: int) -> None:
        """Remove a group; its nodes stay."""
        ...

    def mc_node_create(self, rid: int, ports: list[int], lags: list[int]) -> int:
        """Make a node that is in no group; its handle."""
        ...

    def mc_node_update(self, node: int, ports: list[int], lags: list[int]) -> None:
        """Replace where a node sends."""
        ...

    def mc_node_destroy(self, node: int) -> None:
        """Remove a node, also from its group."""
        ...

    def mc_node_associate(self, group: int, node: int) -> None:
        """Put a node into a group, behind the others."""
        ...

    def mc_node_dissociate(self, group: int, node: int) -> None:
        """Take a node out of its group."""
        ...

    def mc_set_lag(self, lag: int, ports: list[int]) -> None:
        """Set the ports of a link aggregation group."""
        ...

    def multicast(self) -> Multicast:
        """All groups with their nodes, and all LAGs."""
        ...

    def mirror_set(self, session: int, port: int | None, group: int | None) -> None:
        """Have a mirroring session send to a port or to a multicast group."""
        ...

    def mirror_delete(self, session: int) -> None:
        """Have a mirroring session send nowhere."""
        ...

    def mirror(self, session: int) -> Mirror:
        """Where a mirroring session sends."""
        ...

    # -- the device

    def ports(self) -> list[Port]:
        """All ports."""
        ...

    def port_add(self, port: int, interface: str) -> None:
        """Take an interface as a port."""
        ...

    def port_remove(self, port: int) -> None:
        """Give a port's interface back."""
        ...

    def queue_set(self, port: int | None, priority: int | None, rate: int | None, depth: int | None) -> None:
        """Set what queues send, in packets/s (0: no limit), or hold, in packets.

        Those of one priority of a port, of a port, or of all ports.
        """
        ...

    def time(self) -> Time:
        """The switch's clock."""
        ...

    def crc_set(self, calculation: str, width: int, crc: Crc) -> None:
        """Set the parameters of a calculation by a custom CRC of so many bits."""
        ...
