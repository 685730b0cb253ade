"""The interpreter as a `Pipeline` (`softswitch.pipeline`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from softswitch import ir
from softswitch.checks import (
    check_clone_session,
    check_index,
    check_multicast_group,
    check_replicas,
    check_value_set,
)
from softswitch.errors import EntryExists, EntryMissing, TableFull
from softswitch.interpreter.controls import Controls
from softswitch.interpreter.expressions import UINT64
from softswitch.interpreter.externs import Externs
from softswitch.interpreter.observer import NULL_OBSERVER, Observer
from softswitch.interpreter.packet import Packet
from softswitch.interpreter.tables import Entry
from softswitch.interpreter.traffic import CloneSession, TrafficManager
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
        return [self._write(write) for write in writes]

    def _write(self, write: EntryWrite) -> Exception | None:
        try:
            self._controls.tables[write.table].write(write)
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
        self._controls.tables[table].set_default(action)

    def entry_counter(self, entry: EntryKey) -> CounterValue:
        return CounterValue(*self._entry(entry).count)

    def set_entry_counter(self, entry: EntryKey, value: CounterValue) -> None:
        self._entry(entry).count = list(value)

    def set_entry_meter(self, entry: EntryKey, config: MeterConfig | None) -> None:
        self._entry(entry).meter.configure(config)

    def last_hits(self, entries: Sequence[EntryKey]) -> list[int]:
        return [
            -1 if stored_entry is None else stored_entry.last_hit
            for stored_entry in self.find_entries(entries)
        ]

    def _entry(self, entry: EntryKey) -> Entry:
        return self._controls.tables[entry.table].entry(entry.key, entry.priority)

    # -- action profiles

    def write_member(self, profile: str, member: int, action: ActionCall | None) -> None:
        self._controls.profiles[self._profile_index[profile]].write_member(member, action)

    def write_group(self, profile: str, group: int, members: Sequence[int] | None) -> None:
        self._controls.profiles[self._profile_index[profile]].write_group(group, members)

    # -- packet replication

    def write_multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        check_multicast_group(group)
        self._check_replicas(self._traffic.groups.get(group, ()), replicas)
        self._traffic.groups[group] = tuple(replicas)

    def write_clone_session(self, session: int, replicas: Sequence[Replica], length: int = 0) -> None:
        check_clone_session(session)
        old_session = self._traffic.sessions.get(session)
        self._check_replicas(old_session.replicas if old_session else (), replicas)
        self._traffic.sessions[session] = CloneSession(tuple(replicas), length)

    def _check_replicas(self, old_replicas: Sequence[Replica], new_replicas: Sequence[Replica]) -> None:
        groups, sessions = self._traffic.groups.values(), self._traffic.sessions.values()
        total = sum(map(len, groups)) + sum(len(session.replicas) for session in sessions)
        check_replicas(total - len(old_replicas) + len(new_replicas))

    # -- counters, meters, registers, value sets

    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]:
        cells = self._externs.counters[self._counter_index[name]]
        return [CounterValue(*cell) for cell in cells[start:stop]]

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        cells = self._externs.counters[self._counter_index[name]]
        check_index(name, index, len(cells))
        cells[index] = list(value)

    def write_meter(self, name: str, index: int, config: MeterConfig | None) -> None:
        cells = self._externs.meters[self._meter_index[name]]
        check_index(name, index, len(cells))
        cells[index].configure(config)

    def read_register(self, name: str, start: int, stop: int) -> list[int]:
        return self._externs.registers[self._register_index[name]][start:stop]

    def write_register(self, name: str, index: int, value: int) -> None:
        cells = self._externs.registers[self._register_index[name]]
        check_index(name, index, len(cells))
        cells[index] = value

    def write_value_set(self, name: str, members: Sequence[tuple[int, ...]]) -> None:
        number = self._value_set_index[name]
        value_set = self.program.value_sets[number]
        check_value_set(value_set, members)
        self._traffic.value_sets[number] = [ir.join_key(member, value_set.widths) for member in members]
