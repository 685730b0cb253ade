"""The interpreter's state as the control plane reads and writes it (`softswitch.pipeline.ControlPlane`).

Each change saves the old state first, for the current transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from softswitch.interpreter.externs import Externs
from softswitch.interpreter.meters import MeterCell
from softswitch.interpreter.profiles import ProfileState
from softswitch.interpreter.tables import Entry, TableState
from softswitch.interpreter.traffic import CloneSession, TrafficManager
from softswitch.interpreter.undo import Transactions
from softswitch.memory.words import HALF
from softswitch.pipeline import (
    ActionCall,
    CounterValue,
    EntryAction,
    EntryKey,
    EntryWrite,
    MeterConfig,
    Replica,
    StoredEntry,
)


class InterpretedTables:
    def __init__(self, controls: Controls, transactions: Transactions) -> None:
        self._tables: dict[str, TableState] = controls.tables
        self._save = transactions.save

    def write(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        for write in writes:
            self._tables[write.table].check(write)
        for name in {write.table for write in writes}:
            self._save(self._tables[name])
        return [self._write(write) for write in writes]

    def _write(self, write: EntryWrite) -> Exception | None:
        table = self._tables[write.table]
        if (entry := table.find(write.key, write.priority)) is not None:
            self._save(entry)
        try:
            table.write(write)
        except (EntryExists, EntryMissing, TableFull) as error:
            return error
        return None

    def find(self, entries: Sequence[EntryKey]) -> list[StoredEntry | None]:
        return [self._find(entry) for entry in entries]

    def _find(self, entry: EntryKey) -> StoredEntry | None:
        table = self._tables[entry.table]
        table_entry = table.find(entry.key, entry.priority)
        return None if table_entry is None else table.stored_entry(table_entry)

    def read(self, table: str) -> Iterator[StoredEntry]:
        state = self._tables[table]
        return iter([state.stored_entry(entry) for entry in state])

    def count(self, table: str) -> int:
        return len(self._tables[table])

    def set_default(self, table: str, action: EntryAction | None) -> None:
        self._save(self._tables[table])
        self._tables[table].set_default(action)

    def counter(self, entry: EntryKey) -> CounterValue:
        return CounterValue(*self._entry(entry).count)

    def set_counter(self, entry: EntryKey, value: CounterValue) -> None:
        check_counter(value)
        table_entry = self._entry(entry)
        self._save(table_entry)
        table_entry.count = list(value)

    def set_meter(self, entry: EntryKey, config: MeterConfig | None) -> None:
        cell = self._entry(entry).meter
        if config is not None:
            check_meter(config)
        self._save(cell)
        cell.configure(config)

    def last_hits(self, entries: Sequence[EntryKey]) -> list[int]:
        return [-1 if stored is None else stored.last_hit for stored in self.find(entries)]

    def _entry(self, entry: EntryKey) -> Entry:
        return self._tables[entry.table].entry(entry.key, entry.priority)


class InterpretedProfiles:
    def __init__(self, program: ir.Program, controls: Controls, transactions: Transactions) -> None:
        names = (profile.name for profile in program.profiles)
        self._profiles: dict[str, ProfileState] = dict(zip(names, controls.profiles, strict=True))
        self._save = transactions.save

    def write_member(self, profile: str, member: int, action: ActionCall | None) -> None:
        self._save(self._profiles[profile])
        self._profiles[profile].write_member(member, action)

    def write_group(self, profile: str, group: int, members: Sequence[int] | None) -> None:
        self._save(self._profiles[profile])
        self._profiles[profile].write_group(group, members)


class InterpretedReplication:
    def __init__(self, traffic: TrafficManager, transactions: Transactions) -> None:
        self._traffic = traffic
        self._save = transactions.save
        self._replica_count = [0]  # of all multicast groups and clone sessions; a list, which can be saved

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


class InterpretedCells:
    def __init__(
        self, program: ir.Program, externs: Externs, traffic: TrafficManager, transactions: Transactions
    ) -> None:
        self._counters = dict(zip((item.name for item in program.counters), externs.counters, strict=True))
        self._meters = dict(zip((item.name for item in program.meters), externs.meters, strict=True))
        self._registers = dict(zip((item.name for item in program.registers), externs.registers, strict=True))
        self._register_widths = {register.name: register.width for register in program.registers}
        self._value_sets = {declared.name: i for i, declared in enumerate(program.value_sets)}
        self._program = program
        self._traffic = traffic
        self._save = transactions.save

    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]:
        return CounterValue.from_cells(self._counters[name][start:stop])

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        cells = self._counters[name]
        check_index(name, index, len(cells))
        check_counter(value)
        self._save(cells)
        cells[index] = list(value)

    def fill_counter(self, name: str, value: CounterValue) -> None:
        for index in range(len(self._counters[name])):
            self.write_counter(name, index, value)

    def write_meter(self, name: str, index: int, config: MeterConfig | None) -> None:
        cells: list[MeterCell] = self._meters[name]
        check_index(name, index, len(cells))
        if config is not None:
            check_meter(config)
        self._save(cells[index])
        cells[index].configure(config)

    def fill_meter(self, name: str, config: MeterConfig | None) -> None:
        for index in range(len(self._meters[name])):
            self.write_meter(name, index, config)

    def read_register(self, name: str, start: int, stop: int) -> list[int]:
        return self._registers[name][start:stop]

    def write_register(self, name: str, index: int, value: int) -> None:
        cells = self._registers[name]
        check_index(name, index, len(cells))
        check_value(name, value, self._register_widths[name])
        self._save(cells)
        cells[index] = value

    def fill_register(self, name: str, value: int) -> None:
        for index in range(len(self._registers[name])):
            self.write_register(name, index, value)

    def write_value_set(self, name: str, members: Sequence[tuple[int, ...]]) -> None:
        number = self._value_sets[name]
        declared = self._program.value_sets[number]
        check_value_set(declared, members)
        self._save(self._traffic.value_sets)
        self._traffic.value_sets[number] = [ir.join_key(member, declared.widths) for member in members]
