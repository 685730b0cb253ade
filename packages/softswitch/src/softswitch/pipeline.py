"""The interface of pipelines: packets in and out, and the state that the control plane reads and writes.

Implementations use no sockets, threads or clocks; times are arguments. `InterpretedPipeline` is the readable
reference, `CompiledPipeline` the fast one; both are bit-exact with BMv2 (docs/softswitch.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from functools import partial
from typing import NamedTuple, Protocol

from softswitch.ir import Match, Program


class Output(NamedTuple):
    """A frame that leaves the switch: egress port number and bytes."""

    port: int
    frame: bytes


class WaitingPacket(NamedTuple):
    """A packet on its way to egress: port and priority of its queue, length in bytes, the pipeline's data."""

    port: int
    priority: int
    length: int
    packet: object


class QueueDepths(NamedTuple):
    """Packets in a queue when a packet was enqueued and when it was dequeued."""

    enq: int = 0
    deq: int = 0


class PassResult(NamedTuple):
    """Results of a pass: frames that leave, and packets that wait for egress, both in order."""

    outputs: list[Output]
    waiting: list[WaitingPacket]


class DigestMessage(NamedTuple):
    """Values of a digest in the order of its fields; `digest` is a position in `Program.digests`."""

    digest: int
    values: tuple[int, ...]


class LogRecord(NamedTuple):
    """A line logged by `log_msg`, or by a failed `assert` or `assume`."""

    text: str
    failed: bool = False  # whether an `assert` or `assume` failed


Notice = DigestMessage | LogRecord
"""A message from a packet to the control plane."""


class ActionCall(NamedTuple):
    """An action by its P4 name with run-time data in declaration order."""

    name: str
    args: tuple[int, ...] = ()


class UseMember(NamedTuple):
    """Action of an entry in a table with an action profile: the action of a member."""

    member: int


class UseGroup(NamedTuple):
    """Action of an entry in a table with a selector: the action of the member that the hash picks."""

    group: int


EntryAction = ActionCall | UseMember | UseGroup


class Change(Enum):
    """Kind of a table update, as in P4Runtime 1.4 §12."""

    INSERT = 1
    MODIFY = 2
    DELETE = 3


class EntryWrite(NamedTuple):
    """One update of a table. `key` has one match per field, in table order.

    `priority` orders entries with ternary, optional or range matches, and the larger wins; others have 0.
    """

    change: Change
    table: str
    key: tuple[Match, ...]
    action: EntryAction | None = None
    priority: int = 0


class EntryKey(NamedTuple):
    table: str
    key: tuple[Match, ...]
    priority: int = 0


class CounterValue(NamedTuple):
    packets: int
    bytes: int

    @classmethod
    def from_cells(cls, cells: Iterable[Iterable[int]]) -> list[CounterValue]:
        """Return the values of cells, (packets, bytes) each."""
        # A counter may have thousands of cells, and `cls(...)` would run Python code for each.
        return list(map(partial(tuple.__new__, cls), cells))


class StoredEntry(NamedTuple):
    """An entry as read from a table: its written fields, and the state that packets have changed.

    A wildcard field is `Masked(0, 0)`, or in a range field `RangeMatch` of all values. `counter` is 0 and 0
    in a table without a direct counter; `last_hit` is in µs since start, 0 for never and in a table without
    idle timeout.
    """

    key: tuple[Match, ...]
    action: EntryAction
    priority: int = 0
    counter: CounterValue = CounterValue(0, 0)
    last_hit: int = 0


class MeterConfig(NamedTuple):
    """Rates of a meter in packets or bytes a second, bursts in packets or bytes (RFC 2698)."""

    committed_rate: float
    committed_burst: int
    peak_rate: float
    peak_burst: int


class Replica(NamedTuple):
    """One copy of a packet: its egress port and `egress_rid`."""

    port: int
    instance: int = 0


class TableOps(Protocol):
    """Entries and default actions of a program's tables."""

    def write(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        """Apply the writes in order, as one batch between two packets; return one result for each write.

        A result is None, or EntryExists, EntryMissing or TableFull; a failed write changes nothing.
        """

    def find(self, entries: Sequence[EntryKey]) -> list[StoredEntry | None]:
        """Return the current state of each entry; None for a missing one."""

    def read(self, table: str) -> Iterator[StoredEntry]:
        """Iterate over all entries of a table as of the call, including constant ones.

        They are in order of insertion, except that an entry may take the place of a deleted one. Later writes
        do not change what the iterator yields. It decodes entries one by one, and holds only a copy of the
        records.
        """

    def count(self, table: str) -> int:
        """Return the number of entries of a table, including constant ones."""

    def set_default(self, table: str, action: EntryAction | None) -> None:
        """Replace the table's default action; None restores the program's own."""

    def counter(self, entry: EntryKey) -> CounterValue:
        """Read an entry's direct counter; this and the next two raise `EntryMissing` for unknown entries."""

    def set_counter(self, entry: EntryKey, value: CounterValue) -> None: ...

    def set_meter(self, entry: EntryKey, config: MeterConfig | None) -> None:
        """Configure an entry's direct meter; None makes it always green."""

    def last_hits(self, entries: Sequence[EntryKey]) -> list[int]:
        """Return the time of each entry's last hit in µs since start; 0 for never, -1 for a missing entry."""


class ProfileOps(Protocol):
    """Members and groups of a program's action profiles.

    The caller assigns their numbers, and must not remove a member or group that an entry or group refers to.
    """

    def write_member(self, profile: str, member: int, action: ActionCall | None) -> None:
        """Add or change a member; None removes it. Raise `TableFull` beyond `ActionProfile.size` members."""

    def write_group(self, profile: str, group: int, members: Sequence[int] | None) -> None:
        """Add or change a group; None removes it. Hash h picks `members[h % len(members)]`.

        An empty group executes no action. Raise `TableFull` beyond `ActionProfile.size` groups, and if all
        groups would list more than `limits.GROUP_MEMBERS_PER_MEMBER * ActionProfile.size` members.
        """


class ReplicationOps(Protocol):
    """Multicast groups and clone sessions, whose numbers the caller assigns."""

    def write_multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        """Replicate packets of an `mcast_grp` (1 to 65,535) in this order; an empty list makes no copies."""

    def write_clone_session(self, session: int, replicas: Sequence[Replica], length: int = 0) -> None:
        """Replicate packets cloned to a session (0 to 32,767), truncated to `length` bytes; 0 is no limit."""


class CellOps(Protocol):
    """Indexed counters, meters and registers, and parser value sets."""

    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]:
        """Return cells `start` to `stop` - 1 of an indirect counter; `read_register` does so for an array."""

    def write_counter(self, name: str, index: int, value: CounterValue) -> None: ...

    def fill_counter(self, name: str, value: CounterValue) -> None:
        """Write all cells, between two packets; so do `fill_meter` and `fill_register`."""

    def write_meter(self, name: str, index: int, config: MeterConfig | None) -> None:
        """Configure one cell of an indirect meter, with full token buckets; None makes it always green."""

    def fill_meter(self, name: str, config: MeterConfig | None) -> None: ...

    def read_register(self, name: str, start: int, stop: int) -> list[int]: ...

    def write_register(self, name: str, index: int, value: int) -> None: ...

    def fill_register(self, name: str, value: int) -> None: ...

    def write_value_set(self, name: str, members: Sequence[tuple[int, ...]]) -> None:
        """Replace the members of a parser value set, each with a value for every part of the select."""


class ControlPlane(Protocol):
    """A loaded program with its state, which the control plane reads and writes, by subject.

    Names are the fully qualified P4 names of BMv2 JSON and P4Info. Arguments that `softswitch.checks`
    refuses, such as an unknown reference or an entry beyond the table's size, raise `StateError` or
    `TableFull` and change nothing.
    """

    @property
    def program(self) -> Program: ...

    @property
    def tables(self) -> TableOps: ...

    @property
    def profiles(self) -> ProfileOps: ...

    @property
    def replication(self) -> ReplicationOps: ...

    @property
    def cells(self) -> CellOps: ...

    def transaction(self, is_atomic: bool = False) -> AbstractContextManager[None]:
        """Return a context that undoes all writes of its block if the block raises.

        If `is_atomic`, packets see all writes at once; raise `BatchTooLarge` if that is impossible, and
        change nothing. Only one thread writes. Transactions do not nest, and nothing is read in them.
        """

    def close(self) -> None:
        """Release memory and descriptors; nothing else may be called then. Closing twice is harmless."""


METHODS: dict[str, tuple[str, ...]] = {
    subject: tuple(name for name in vars(interface) if not name.startswith("_"))
    for subject, interface in (
        ("tables", TableOps),
        ("profiles", ProfileOps),
        ("replication", ReplicationOps),
        ("cells", CellOps),
    )
}
"""Methods of `ControlPlane` by subject, for code that wraps all of them."""


class Pipeline(ControlPlane, Protocol):
    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        """Run one frame; return the frames that leave.

        `t_in` is its time of arrival and `now` its time in egress, both in µs since start.
        """

    def take_notices(self) -> list[Notice]:
        """Return the notices since the last call, oldest first."""

    def seed_random(self, seed: int) -> None: ...


class BufferedPipeline(Pipeline, Protocol):
    """A pipeline whose caller provides the queues before egress; `process` assumes that they are empty."""

    def enter(self, port: int, frame: bytes, t_in: int, now: int) -> PassResult:
        """Run a frame that arrived at `t_in` up to the queues, at `now`; both in µs since start."""

    def leave(self, waiting: WaitingPacket, depths: QueueDepths, now: int) -> PassResult:
        """Run egress of a packet that leaves its queue at `now`; each packet may leave only once."""
