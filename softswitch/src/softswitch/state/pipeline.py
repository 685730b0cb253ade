"""What the control plane may do to a pipeline, where its state lies in a `Memory` (`softswitch.pipeline`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from softswitch import ir
from softswitch.memory.layout import Layout
from softswitch.memory.output import DIGEST, HEAD_BYTES, LOG, read_head, read_values
from softswitch.memory.rows import Words
from softswitch.messages import format_message
from softswitch.pipeline import (
    ActionCall,
    CounterValue,
    DigestMessage,
    EntryAction,
    EntryKey,
    EntryWrite,
    LogRecord,
    MeterConfig,
    Notice,
    Output,
    Replica,
    StoredEntry,
)
from softswitch.state.cells import Cells
from softswitch.state.entries import Entries, Offsets
from softswitch.state.memory import Memory
from softswitch.state.profiles import Profile
from softswitch.state.replication import Replication


class StatePipeline:
    """All of `Pipeline` but to run packets."""

    def __init__(self, program: ir.Program, layout: Layout, memory: Memory) -> None:
        self.program = program
        self._layout = layout
        self._memory = memory
        self._profiles = [Profile(program, profile, memory) for profile in layout.profiles]
        self._profile_index = {profile.name: i for i, profile in enumerate(program.profiles)}
        self._entries = Entries(program, layout, memory, self._profiles)
        self._replication = Replication(layout.replication, memory)
        self._cells = Cells(program, layout, memory)
        self._notices: list[Notice] = []

    # -- what packets have left

    def _outputs(self, records: Iterable[tuple[int, bytes]]) -> list[Output]:
        """The frames, by kind and data of all records; what is none is kept for `take_notices`."""
        outputs: list[Output] = []
        for kind, data in records:
            if is_notice(kind):
                self._notices.append(decode_notice(self.program, kind, data))
            else:
                outputs.append(Output(kind, data))
        return outputs

    def take_notices(self) -> list[Notice]:
        """What packets told since the last call (`Pipeline.take_notices`)."""
        taken, self._notices = self._notices, []
        return taken

    def decode_notice(self, record: bytes) -> Notice:
        """A notice as the ports hand it over: a record without its padding."""
        kind, _ = read_head(record)
        return decode_notice(self.program, kind, record[HEAD_BYTES:])

    # -- random numbers

    def seed_random(self, seed: int) -> None:
        """Start the sequence of `random` anew (`Pipeline.seed_random`)."""
        with self._memory.locked():
            self._memory.store(self._layout.random, [seed])

    # -- tables

    def write_entries(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        """Apply writes in order as one batch (`Pipeline.write_entries`)."""
        return self._entries.write(writes)

    def apply_all_or_none(self, ops: Words, starts: Offsets) -> bool:
        """Do operations of exact tables as one batch, if all can be done and no two have the same key."""
        return self._entries.apply_all_or_none(ops, starts)

    def row_of(self, table: str) -> int:
        """By which operations name a table."""
        return self._entries.row_of(table)

    def key_words(self, table: str) -> int:
        """Words that an operation has of a key."""
        return self._layout.tables[table].key_words

    def invocation(self, table: str, call: ActionCall) -> ir.Invocation:
        """An action of a table's entries, resolved."""
        return self.program.invocation(self.program.tables[table], call.name, call.args)

    def find_entries(self, entries: Sequence[EntryKey]) -> list[StoredEntry | None]:
        """Entries as they are now (`Pipeline.find_entries`)."""
        return self._entries.find(entries)

    def read_entries(self, table: str) -> Iterator[StoredEntry]:
        """All entries of a table (`Pipeline.read_entries`)."""
        return self._entries.read(table)

    def entry_count(self, table: str) -> int:
        """Entries of a table (`Pipeline.entry_count`)."""
        return self._entries.count(table)

    def set_default(self, table: str, action: EntryAction | None) -> None:
        """Replace or restore a table's default action (`Pipeline.set_default`)."""
        self._entries.set_default(table, action)

    def entry_counter(self, entry: EntryKey) -> CounterValue:
        """Read an entry's direct counter (`Pipeline.entry_counter`)."""
        return self._entries.counter(entry)

    def set_entry_counter(self, entry: EntryKey, value: CounterValue) -> None:
        """Write an entry's direct counter (`Pipeline.set_entry_counter`)."""
        self._entries.set_counter(entry, value)

    def set_entry_meter(self, entry: EntryKey, config: MeterConfig | None) -> None:
        """Configure an entry's direct meter (`Pipeline.set_entry_meter`)."""
        self._entries.set_meter(entry, config)

    def last_hits(self, entries: Sequence[EntryKey]) -> list[int]:
        """When each entry was last hit (`Pipeline.last_hits`)."""
        return self._entries.last_hits(entries)

    # -- action profiles and replication

    def write_member(self, profile: str, member: int, action: ActionCall | None) -> None:
        """Add, change or remove a member (`Pipeline.write_member`)."""
        self._profiles[self._profile_index[profile]].write_member(member, action)

    def write_group(self, profile: str, group: int, members: Sequence[int] | None) -> None:
        """Add, change or remove a group (`Pipeline.write_group`)."""
        self._profiles[self._profile_index[profile]].write_group(group, members)

    def write_multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        """Replace the copies of a group (`Pipeline.write_multicast_group`)."""
        self._replication.write_multicast_group(group, replicas)

    def write_clone_session(self, session: int, replicas: Sequence[Replica], length: int = 0) -> None:
        """Replace the copies of a session (`Pipeline.write_clone_session`)."""
        self._replication.write_clone_session(session, replicas, length)

    # -- counters, meters, registers, value sets

    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]:
        """Read counter cells (`Pipeline.read_counter`)."""
        return self._cells.read_counter(name, start, stop)

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        """Write a counter cell (`Pipeline.write_counter`)."""
        self._cells.write_counter(name, index, value)

    def write_meter(self, name: str, index: int, config: MeterConfig | None) -> None:
        """Configure a meter cell (`Pipeline.write_meter`)."""
        self._cells.write_meter(name, index, config)

    def read_register(self, name: str, start: int, stop: int) -> list[int]:
        """Read register cells (`Pipeline.read_register`)."""
        return self._cells.read_register(name, start, stop)

    def write_register(self, name: str, index: int, value: int) -> None:
        """Write a register cell (`Pipeline.write_register`)."""
        self._cells.write_register(name, index, value)

    def write_value_set(self, name: str, members: Sequence[tuple[int, ...]]) -> None:
        """Replace the members of a value set (`Pipeline.write_value_set`)."""
        self._cells.write_value_set(name, members)


def is_notice(kind: int) -> bool:
    """Whether a record is not a frame."""
    return kind >= LOG


def decode_notice(program: ir.Program, kind: int, data: bytes) -> Notice:
    """A record that is not a frame."""
    values = read_values(data)
    if kind & DIGEST:
        return DigestMessage(kind ^ DIGEST, tuple(values))
    message = kind ^ LOG
    return LogRecord(format_message(program.messages[message], values), message in program.assertions)
