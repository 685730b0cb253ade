"""The interpreter as a `Pipeline` (`softswitch.pipeline`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from softswitch import ir
from softswitch.checks import (
    check_clone_session,
    check_counter,
    check_each_replica,
    check_index,
    check_meter,
    check_multicast_group,
    check_replicas,
    check_value,
    check_value_set,
)
from softswitch.errors import EntryExists, EntryMissing, TableFull
from softswitch.interpreter.controls import Controls
from softswitch.interpreter.expressions import UINT64
from softswitch.interpreter.externs import Externs
from softswitch.interpreter.meters import MeterCell
from softswitch.interpreter.observer import NULL_OBSERVER, Observer
from softswitch.interpreter.packet import Packet
from softswitch.interpreter.tables import Entry
from softswitch.interpreter.traffic import CloneSession, TrafficManager
from softswitch.interpreter.undo import SavedStates
from softswitch.memory.words import HALF
from softswitch.pipeline import (
    ActionCall,
    CounterValue,
    EntryAction,
    EntryKey,
    EntryWrite,
    MeterConfig,
    Notice,
    Output,
    PassResult,
    QueueDepths,
    Replica,
    StoredEntry,
    WaitingPacket,
)


class InterpretedPipeline:
    """A `BufferedPipeline` in plain Python; `BufferedPipeline` documents its methods.

    A packet whose `priority` is not less than `priority_queues` is dropped. `observer` gets all events.
    """

    def __init__(
        self, program: ir.Program, priority_queues: int = 1, observer: Observer[Packet] = NULL_OBSERVER
    ) -> None:
        self.program = program
        self._externs = Externs(program)
        self._controls = Controls(program, self._externs)
        self._traffic = TrafficManager(program, self._externs, self._controls, priority_queues, observer)
        self._counter_index = {counter.name: i for i, counter in enumerate(program.counters)}
        self._meter_index = {meter.name: i for i, meter in enumerate(program.meters)}
        self._register_index = {register.name: i for i, register in enumerate(program.registers)}
        self._profile_index = {profile.name: i for i, profile in enumerate(program.profiles)}
        self._value_set_index = {value_set.name: i for i, value_set in enumerate(program.value_sets)}
        self._replica_count = [0]  # of all multicast groups and clone sessions; a list, which can be saved
        self._saved_states: SavedStates | None = None  # of the current transaction

    # -- transactions

    @contextmanager
    def transaction(self, is_atomic: bool = False) -> Iterator[None]:
        """Restore all states that the block changes if it raises; there are no packets in it."""
        saved_states = self._saved_states = SavedStates()
        try:
            yield
        except BaseException:
            saved_states.restore()
            raise
        finally:
            self._saved_states = None

    def _save(self, state: object) -> None:
        """Save a state that the caller will change, for the current transaction, if any."""
        if self._saved_states is not None:
            self._saved_states.add(state)

    # -- packets

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        return self._traffic.process(port, frame, t_in, now)

    def enter(self, port: int, frame: bytes, t_in: int, now: int) -> PassResult:
        return self._traffic.enter(port, frame, t_in, now)

    def leave(self, waiting: WaitingPacket, depths: QueueDepths, now: int) -> PassResult:
        return self._traffic.leave(waiting, depths, now)

    def report_dropped(self, waiting: WaitingPacket, reason: str) -> None:
        self._traffic.report_dropped(waiting, reason)

    def take_notices(self) -> list[Notice]:
        notices, self._externs.notices = self._externs.notices, []
        return notices

    def seed_random(self, seed: int) -> None:
        self._externs.random.state = seed & UINT64

    # -- tables

    def write_entries(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        for write in writes:
            self._controls.tables[write.table].check(write)
        for name in {write.table for write in writes}:
            self._save(self._controls.tables[name])
        return [self._write(write) for write in writes]

    def _write(self, write: EntryWrite) -> Exception | None:
        table = self._controls.tables[write.table]
        if (entry := table.find(write.key, write.priority)) is not None:
            self._save(entry)
        try:
            table.write(write)
        except (EntryExists, EntryMissing, TableFull) as error:
            return error
        return None

    def find_entries(self, entries: Sequence[EntryKey]) -> list[StoredEntry | None]:
        return [self._find(entry) for entry in entries]

    def _find(self, entry: EntryKey) -> StoredEntry | None:
        table = self._controls.tables[entry.table]
        table_entry = table.find(entry.key, entry.priority)
        return None if table_entry is None else table.stored_entry(table_entry)

    def read_entries(self, table: str) -> Iterator[StoredEntry]:
        state = self._controls.tables[table]
        return iter([state.stored_entry(entry) for entry in state])

    def entry_count(self, table: str) -> int:
        return len(self._controls.tables[table])

    def set_default(self, table: str, action: EntryAction | None) -> None:
        self._save(self._controls.tables[table])
        self._controls.tables[table].set_default(action)

    def entry_counter(self, entry: EntryKey) -> CounterValue:
        return CounterValue(*self._entry(entry).count)

    def set_entry_counter(self, entry: EntryKey, value: CounterValue) -> None:
        check_counter(value)
        table_entry = self._entry(entry)
        self._save(table_entry)
        table_entry.count = list(value)

    def set_entry_meter(self, entry: EntryKey, config: MeterConfig | None) -> None:
        self._configure(self._entry(entry).meter, config)

    def _configure(self, cell: MeterCell, config: MeterConfig | None) -> None:
        if config is not None:
            check_meter(config)
        self._save(cell)
        cell.configure(config)

    def last_hits(self, entries: Sequence[EntryKey]) -> list[int]:
        return [
            -1 if stored_entry is None else stored_entry.last_hit
            for stored_entry in self.find_entries(entries)
        ]

    def _entry(self, entry: EntryKey) -> Entry:
        return self._controls.tables[entry.table].entry(entry.key, entry.priority)

    # -- action profiles

    def write_member(self, profile: str, member: int, action: ActionCall | None) -> None:
        state = self._controls.profiles[self._profile_index[profile]]
        self._save(state)
        state.write_member(member, action)

    def write_group(self, profile: str, group: int, members: Sequence[int] | None) -> None:
        state = self._controls.profiles[self._profile_index[profile]]
        self._save(state)
        state.write_group(group, members)

    # -- packet replication

    def write_multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        check_multicast_group(group)
        traffic = self._traffic
        total = self._replicas_after_change(traffic.groups.get(group, ()), replicas)
        self._save(traffic.groups)
        traffic.groups[group] = tuple(replicas)
        self._replica_count[0] = total

    def write_clone_session(self, session: int, replicas: Sequence[Replica], length: int = 0) -> None:
        check_clone_session(session)
        check_value(f"length of clone session {session}", length, HALF)
        traffic = self._traffic
        old_session = traffic.sessions.get(session)
        total = self._replicas_after_change(old_session.replicas if old_session else (), replicas)
        self._save(traffic.sessions)
        traffic.sessions[session] = CloneSession(tuple(replicas), length)
        self._replica_count[0] = total

    def _replicas_after_change(self, old_replicas: Sequence[Replica], new_replicas: Sequence[Replica]) -> int:
        """Check new replicas; return the number of all replicas after the change."""
        check_each_replica(new_replicas)
        (count,) = self._replica_count
        check_replicas(total := count - len(old_replicas) + len(new_replicas))
        self._save(self._replica_count)
        return total

    # -- counters, meters, registers, value sets

    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]:
        cells = self._externs.counters[self._counter_index[name]]
        return [CounterValue(*cell) for cell in cells[start:stop]]

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        cells = self._externs.counters[self._counter_index[name]]
        check_index(name, index, len(cells))
        check_counter(value)
        self._save(cells)
        cells[index] = list(value)

    def fill_counter(self, name: str, value: CounterValue) -> None:
        for index in range(self.program.counters[self._counter_index[name]].size):
            self.write_counter(name, index, value)

    def write_meter(self, name: str, index: int, config: MeterConfig | None) -> None:
        cells = self._externs.meters[self._meter_index[name]]
        check_index(name, index, len(cells))
        self._configure(cells[index], config)

    def fill_meter(self, name: str, config: MeterConfig | None) -> None:
        for index in range(self.program.meters[self._meter_index[name]].size):
            self.write_meter(name, index, config)

    def read_register(self, name: str, start: int, stop: int) -> list[int]:
        return self._externs.registers[self._register_index[name]][start:stop]

    def write_register(self, name: str, index: int, value: int) -> None:
        number = self._register_index[name]
        cells = self._externs.registers[number]
        check_index(name, index, len(cells))
        check_value(name, value, self.program.registers[number].width)
        self._save(cells)
        cells[index] = value

    def fill_register(self, name: str, value: int) -> None:
        for index in range(self.program.registers[self._register_index[name]].size):
            self.write_register(name, index, value)

    def write_value_set(self, name: str, members: Sequence[tuple[int, ...]]) -> None:
        number = self._value_set_index[name]
        value_set = self.program.value_sets[number]
        check_value_set(value_set, members)
        self._save(self._traffic.value_sets)
        self._traffic.value_sets[number] = [ir.join_key(member, value_set.widths) for member in members]
