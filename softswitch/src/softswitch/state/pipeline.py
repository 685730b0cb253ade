"""All of `Pipeline` (`softswitch.pipeline`) except packet processing, on state in a `Memory`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from softswitch import ir
from softswitch.memory.layout import Layout
from softswitch.memory.output import DIGEST, HEAD_BYTES, LOG, read_head, read_values, record_head
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
    """All of `Pipeline` except packet processing; methods without docstrings are documented there."""

    def __init__(self, program: ir.Program, layout: Layout, memory: Memory) -> None:
        self.program = program
        self._layout = layout
        self._memory = memory
        self._profiles = [Profile(program, profile, memory) for profile in layout.profiles]
        self._profile_index = {profile.name: i for i, profile in enumerate(program.profiles)}
        self._entries = Entries(program, layout, memory, self._profiles)
        self._replication = Replication(layout.replication, memory)
        self._cells = Cells(program, layout, memory)
        self._notices: list[bytes] = []  # records without padding

    # -- output records

    def _outputs(self, records: Iterable[tuple[int, bytes]]) -> list[Output]:
        """Return the frames among the records (kind, data); collect the notices for `take_notices`."""
        outputs: list[Output] = []
        for kind, data in records:
            if is_notice(kind):
                self._notices.append(record_head(kind, len(data)) + data)
            else:
                outputs.append(Output(kind, data))
        return outputs

    def take_notices(self) -> list[Notice]:
        return [self.decode_notice(record) for record in self.take_notice_records()]

    def take_notice_records(self) -> list[bytes]:
        """Return the notices since the last call as records, which `decode_notice` decodes."""
        records, self._notices = self._notices, []
        return records

    def decode_notice(self, record: bytes) -> Notice:
        """Decode a record without padding."""
        kind, _ = read_head(record)
        return decode_notice(self.program, kind, record[HEAD_BYTES:])

    # -- transactions

    def transaction(self, is_atomic: bool = False) -> AbstractContextManager[None]:
        return self._memory.transaction(is_atomic)

    # -- random numbers

    def seed_random(self, seed: int) -> None:
        with self._memory.locked():
            self._memory.store(self._layout.random, [seed])

    # -- tables

    def write_entries(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        return self._entries.write(writes)

    def apply_all_or_none(self, ops: Words, starts: Offsets) -> bool:
        return self._entries.apply_all_or_none(ops, starts)

    def row_of(self, table: str) -> int:
        return self._entries.row_of(table)

    def key_words(self, table: str) -> int:
        return self._layout.tables[table].key_words

    def invocation(self, table: str, call: ActionCall) -> ir.Invocation:
        return self.program.invocation(self.program.tables[table], call.name, call.args)

    def find_entries(self, entries: Sequence[EntryKey]) -> list[StoredEntry | None]:
        return self._entries.find(entries)

    def read_entries(self, table: str) -> Iterator[StoredEntry]:
        return self._entries.read(table)

    def entry_count(self, table: str) -> int:
        return self._entries.count(table)

    def set_default(self, table: str, action: EntryAction | None) -> None:
        self._entries.set_default(table, action)

    def entry_counter(self, entry: EntryKey) -> CounterValue:
        return self._entries.counter(entry)

    def set_entry_counter(self, entry: EntryKey, value: CounterValue) -> None:
        self._entries.set_counter(entry, value)

    def set_entry_meter(self, entry: EntryKey, config: MeterConfig | None) -> None:
        self._entries.set_meter(entry, config)

    def last_hits(self, entries: Sequence[EntryKey]) -> list[int]:
        return self._entries.last_hits(entries)

    # -- action profiles and replication

    def write_member(self, profile: str, member: int, action: ActionCall | None) -> None:
        self._profiles[self._profile_index[profile]].write_member(member, action)

    def write_group(self, profile: str, group: int, members: Sequence[int] | None) -> None:
        self._profiles[self._profile_index[profile]].write_group(group, members)

    def write_multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        self._replication.write_multicast_group(group, replicas)

    def write_clone_session(self, session: int, replicas: Sequence[Replica], length: int = 0) -> None:
        self._replication.write_clone_session(session, replicas, length)

    # -- counters, meters, registers, value sets

    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]:
        return self._cells.read_counter(name, start, stop)

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        self._cells.write_counter(name, index, value)

    def fill_counter(self, name: str, value: CounterValue) -> None:
        self._cells.fill_counter(name, value)

    def write_meter(self, name: str, index: int, config: MeterConfig | None) -> None:
        self._cells.write_meter(name, index, config)

    def fill_meter(self, name: str, config: MeterConfig | None) -> None:
        self._cells.fill_meter(name, config)

    def read_register(self, name: str, start: int, stop: int) -> list[int]:
        return self._cells.read_register(name, start, stop)

    def write_register(self, name: str, index: int, value: int) -> None:
        self._cells.write_register(name, index, value)

    def fill_register(self, name: str, value: int) -> None:
        self._cells.fill_register(name, value)

    def write_value_set(self, name: str, members: Sequence[tuple[int, ...]]) -> None:
        self._cells.write_value_set(name, members)


def is_notice(kind: int) -> bool:
    # The kind of a notice is LOG or DIGEST, the higher bit, plus a number (`memory.output`).
    return kind >= LOG


def decode_notice(program: ir.Program, kind: int, data: bytes) -> Notice:
    values = read_values(data)
    if kind & DIGEST:
        return DigestMessage(kind ^ DIGEST, tuple(values))
    message = kind ^ LOG
    text = format_message(program.messages[message], values)
    return LogRecord(text, failed=message in program.assertions)
