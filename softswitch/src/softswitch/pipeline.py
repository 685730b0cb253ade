"""The seam of the switch: packets in, packets out, and the state that the control plane may touch.

Nothing here knows sockets, threads or clocks; time comes in as arguments. `InterpretedPipeline` is the
readable oracle and `CompiledPipeline` the fast one; both are bit-exact with BMv2 (docs/softswitch.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from softswitch.ir import Match, Program


class Output(NamedTuple):
    """A frame that leaves the switch: egress port number and bytes."""

    port: int
    frame: bytes


class Waiting(NamedTuple):
    """A packet on its way to egress: port and priority of its queue, its bytes, and the pipeline's part."""

    port: int
    priority: int
    length: int
    packet: object


class Depths(NamedTuple):
    """Packets in a packet's queue: those that it found there, and those that it left behind."""

    enq: int = 0
    deq: int = 0


class Passed(NamedTuple):
    """What came of a packet: frames that leave, and packets that wait for egress, both in order."""

    outputs: list[Output]
    waiting: list[Waiting]


class DigestMessage(NamedTuple):
    """Values that the program sent to the control plane, in the order of the digest's fields."""

    digest: int
    values: tuple[int, ...]


class LogRecord(NamedTuple):
    """A line that the program logged by `log_msg`, or that tells of a failed `assert` or `assume`."""

    text: str
    failed: bool = False


Notice = DigestMessage | LogRecord
"""What a packet tells the control plane. A digest is named by its position in `Program.digests`."""


class ActionCall(NamedTuple):
    """An action by its P4 name with run-time data in declaration order."""

    name: str
    args: tuple[int, ...] = ()


class UseMember(NamedTuple):
    """What an entry of a table with an action profile does: the action of this member."""

    member: int


class UseGroup(NamedTuple):
    """What an entry of a table with a selector does: the action of a member that the hash picks."""

    group: int


EntryAction = ActionCall | UseMember | UseGroup


class Change(Enum):
    """Kind of a table update, as in P4Runtime 1.4 §12."""

    INSERT = 1
    MODIFY = 2
    DELETE = 3


class EntryWrite(NamedTuple):
    """One update of a table. `key` has one match a field, in table order.

    `priority` tells entries with ternary, optional or range matches apart, and the larger wins; others
    have 0.
    """

    change: Change
    table: str
    key: tuple[Match, ...]
    action: EntryAction | None = None
    priority: int = 0


class EntryKey(NamedTuple):
    """An entry of a table by what it matches."""

    table: str
    key: tuple[Match, ...]
    priority: int = 0


class CounterValue(NamedTuple):
    """One counter cell."""

    packets: int
    bytes: int


class StoredEntry(NamedTuple):
    """An entry as it is in a table: what was written, and what packets have left in it.

    A field that may be anything has `Masked(0, 0)`, or in a range field `Between` of all values. `counter`
    is 0 and 0 in a table without direct counter; `last_hit` is in µs since start, 0 for never and in a
    table without idle timeout.
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
    """One copy of a packet: where it goes, and its `egress_rid`."""

    port: int
    instance: int = 0


class ControlPlane(Protocol):
    """A loaded program with its state, which the control plane reads and writes.

    Names are the fully qualified P4 names of BMv2 JSON and P4Info.
    Members, groups, multicast groups and clone sessions have the caller's numbers. What `softswitch.checks`
    refuses raises `StateError` or `TableFull` and changes nothing: a reference to what is not there, one more
    than there is room for. The caller sees to it that nothing is removed that an entry or group refers to.
    """

    @property
    def program(self) -> Program:
        """The program's typed IR."""
        ...

    # -- tables

    def write_entries(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        """Apply the writes in order, as one batch between two packets; one result for each write.

        A result is None, or EntryExists, EntryMissing or TableFull; a failed write changes nothing.
        """
        ...

    def find_entries(self, entries: Sequence[EntryKey]) -> list[StoredEntry | None]:
        """Each of these entries as it is now; None where there is none."""
        ...

    def read_entries(self, table: str) -> Iterator[StoredEntry]:
        """All entries of a table as they are at the time of the call, the program's own ones too.

        They come in the order in which they were inserted, but that an entry may come in the place of one
        that was deleted before. What is written while the iterator runs does not change what it yields, and
        the iterator makes the entries one by one: what it holds is a copy of the records alone.
        """
        ...

    def entry_count(self, table: str) -> int:
        """How many entries a table has now, the program's own ones too."""
        ...

    def set_default(self, table: str, action: EntryAction | None) -> None:
        """Replace the table's default action; None restores the program's own."""
        ...

    def entry_counter(self, entry: EntryKey) -> CounterValue:
        """Read an entry's direct counter; `EntryMissing` where there is no such entry."""
        ...

    def set_entry_counter(self, entry: EntryKey, value: CounterValue) -> None:
        """Write an entry's direct counter; `EntryMissing` where there is no such entry."""
        ...

    def set_entry_meter(self, entry: EntryKey, config: MeterConfig | None) -> None:
        """Configure an entry's direct meter, None for one that is always green; or `EntryMissing`."""
        ...

    def last_hits(self, entries: Sequence[EntryKey]) -> list[int]:
        """When each entry was last hit, in µs since start; 0 for never, -1 where there is no such entry."""
        ...

    # -- action profiles

    def write_member(self, profile: str, member: int, action: ActionCall | None) -> None:
        """Add or change a member; None removes it. `TableFull` if there are `ActionProfile.size` already."""
        ...

    def write_group(self, profile: str, group: int, members: Sequence[int] | None) -> None:
        """Add or change a group; None removes it. Hash h picks `members[h % len(members)]`.

        Nothing is executed for an empty group. `TableFull` where there are `ActionProfile.size` groups
        already, or all groups would list more than `limits.GROUP_SHARE * ActionProfile.size` members.
        """
        ...

    # -- packet replication

    def write_multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        """Make copies of packets of this `mcast_grp`, 1 to 65,535, in this order; none for an empty list."""
        ...

    def write_clone_session(self, session: int, replicas: Sequence[Replica], length: int = 0) -> None:
        """Make copies of packets cloned to a session, 0 to 32,767, cut to `length` bytes unless that is 0."""
        ...

    # -- counters, meters, registers, value sets

    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]:
        """Read cells `start` to `stop` of an indirect counter."""
        ...

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        """Write one cell of an indirect counter."""
        ...

    def write_meter(self, name: str, index: int, config: MeterConfig | None) -> None:
        """Configure one cell of an indirect meter, with full buckets; None for one that is always green."""
        ...

    def read_register(self, name: str, start: int, stop: int) -> list[int]:
        """Read cells `start` to `stop` of a register array."""
        ...

    def write_register(self, name: str, index: int, value: int) -> None:
        """Write one cell of a register array."""
        ...

    def write_value_set(self, name: str, members: Sequence[tuple[int, ...]]) -> None:
        """Replace the members of a parser value set, each with a value for every part of the select."""
        ...


class Pipeline(ControlPlane, Protocol):
    """A loaded program that is given packets by function calls."""

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        """Run one frame. `t_in` is when it arrived and `now` what egress reads, both in µs since start."""
        ...

    def take_notices(self) -> list[Notice]:
        """What packets have told the control plane since the last call, oldest first."""
        ...

    def seed_random(self, seed: int) -> None:
        """Start the sequence of `random` anew."""
        ...


class BufferedPipeline(Pipeline, Protocol):
    """A pipeline with queues between ingress and egress, which are the caller's.

    What `process` runs finds them empty.
    """

    def enter(self, port: int, frame: bytes, t_in: int, now: int) -> Passed:
        """Run a frame as far as the queues. `now` is when it is there, in µs since start, as `t_in`."""
        ...

    def leave(self, waiting: Waiting, depths: Depths, now: int) -> Passed:
        """Run a packet on that has left its queue at `now`. It may come but once."""
        ...
