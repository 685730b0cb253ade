"""A pipeline that stores what is written and forwards nothing.

It holds the server to its side of the seam: what is referred to is there, and is not removed before
what refers to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field

from softswitch.errors import EntryExists, EntryMissing, TableFull
from softswitch.ir import Match, Program
from softswitch.limits import GROUP_MEMBERS_PER_MEMBER, MAX_REPLICAS
from softswitch.pipeline import (
    ActionCall,
    Change,
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
    UseGroup,
    UseMember,
)

Key = tuple[tuple[Match, ...], int]


@dataclass
class Profile:
    members: dict[int, ActionCall] = field(default_factory=dict)
    groups: dict[int, list[int]] = field(default_factory=dict)


class ModelPipeline:
    """A `Pipeline` without packets. Its state is in plain attributes, by P4 name.

    It has the methods of all subjects of `ControlPlane`.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.entries: dict[str, dict[Key, StoredEntry]] = {}
        for name, table in program.tables.items():
            entries = [
                StoredEntry(entry.key, self._call(entry.invocation), entry.priority)
                for entry in table.const_entries
            ]
            self.entries[name] = {(entry.key, entry.priority): entry for entry in entries}
        self.defaults: dict[str, EntryAction | None] = {name: None for name in program.tables}
        self.entry_meters: dict[EntryKey, MeterConfig] = {}
        self.profile_states = {profile.name: Profile() for profile in program.profiles}
        self.sizes = {profile.name: profile.size for profile in program.profiles}
        self.multicast: dict[int, list[Replica]] = {}
        self.clones: dict[int, tuple[list[Replica], int]] = {}
        self.counters = {c.name: [CounterValue(0, 0)] * c.size for c in program.counters}
        self.meters: dict[str, list[MeterConfig | None]] = {m.name: [None] * m.size for m in program.meters}
        self.registers = {r.name: [0] * r.size for r in program.registers}
        self.value_sets: dict[str, list[tuple[int, ...]]] = {v.name: [] for v in program.value_sets}
        self.batches: list[int] = []

    @property
    def tables(self) -> ModelPipeline:
        return self

    profiles = replication = cells = tables

    def _call(self, invocation) -> ActionCall:  # type: ignore[no-untyped-def]  # tests are not checked strictly
        return ActionCall(self.program.actions[invocation.action].name, invocation.args)

    def close(self) -> None:
        pass

    @contextmanager
    def transaction(self, is_atomic: bool = False) -> Iterator[None]:
        before = deepcopy({name: value for name, value in vars(self).items() if name != "program"})
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    # -- packets

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        return []

    def take_notices(self) -> list[Notice]:
        return []

    def seed_random(self, seed: int) -> None:
        pass

    def decode_notice(self, data: bytes) -> Notice:
        match json.loads(data):
            case [int(digest), values]:
                return DigestMessage(digest, tuple(values))
            case {"failed": text}:
                return LogRecord(str(text), failed=True)
            case text:
                return LogRecord(str(text))

    # -- tables

    def write(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        self.batches.append(len(writes))
        return [self._write(write) for write in writes]

    def _write(self, write: EntryWrite) -> Exception | None:
        entries, key = self.entries[write.table], (write.key, write.priority)
        old = entries.get(key)
        if write.change is Change.INSERT:
            if old is not None:
                return EntryExists()
            if len(entries) >= self.program.tables[write.table].size:
                return TableFull()
        elif old is None:
            return EntryMissing()
        if write.change is Change.DELETE:
            del entries[key]
            self.entry_meters.pop(EntryKey(write.table, *key), None)
            return None
        assert write.action is not None
        self._check_reference(write.table, write.action)
        if old is None:
            entries[key] = StoredEntry(write.key, write.action, write.priority)
        else:
            entries[key] = old._replace(action=write.action)
        return None

    def _check_reference(self, table: str, action: EntryAction) -> None:
        number = self.program.tables[table].profile
        assert isinstance(action, ActionCall) == (number is None)
        if number is not None:
            profile = self.profile_states[self.program.profiles[number].name]
            match action:
                case UseMember(member):
                    assert member in profile.members
                case UseGroup(group):
                    assert group in profile.groups

    def find(self, keys: Sequence[EntryKey]) -> list[StoredEntry | None]:
        return [self.entries[key.table].get((key.key, key.priority)) for key in keys]

    def read(self, table: str) -> Iterator[StoredEntry]:
        return iter(list(self.entries[table].values()))

    def count(self, table: str) -> int:
        return len(self.entries[table])

    def set_default(self, table: str, action: EntryAction | None) -> None:
        self.defaults[table] = action

    def counter(self, entry: EntryKey) -> CounterValue:
        return self._entry(entry).counter

    def set_counter(self, entry: EntryKey, value: CounterValue) -> None:
        self._update(entry, self._entry(entry)._replace(counter=value))

    def set_meter(self, entry: EntryKey, config: MeterConfig | None) -> None:
        self._entry(entry)
        if config is None:
            self.entry_meters.pop(entry, None)
        else:
            self.entry_meters[entry] = config

    def last_hits(self, entries: Sequence[EntryKey]) -> list[int]:
        return [-1 if found is None else found.last_hit for found in self.find(entries)]

    def hit(self, entry: EntryKey, now: int) -> None:
        self._update(entry, self._entry(entry)._replace(last_hit=now))

    def _entry(self, key: EntryKey) -> StoredEntry:
        (found,) = self.find([key])
        if found is None:
            raise EntryMissing()
        return found

    def _update(self, key: EntryKey, entry: StoredEntry) -> None:
        self.entries[key.table][key.key, key.priority] = entry

    # -- action profiles

    def write_member(self, profile: str, member: int, action: ActionCall | None) -> None:
        members = self.profile_states[profile].members
        if action is None:
            assert not any(member in group for group in self.profile_states[profile].groups.values())
            assert not self._is_used(profile, UseMember(member))
            del members[member]
        else:
            members[member] = action
            assert len(members) <= self.sizes[profile]

    def write_group(self, profile: str, group: int, members: Sequence[int] | None) -> None:
        groups = self.profile_states[profile].groups
        if members is None:
            assert not self._is_used(profile, UseGroup(group))
            del groups[group]
        else:
            assert set(members) <= self.profile_states[profile].members.keys()
            groups[group] = list(members)
            assert len(groups) <= self.sizes[profile]
            assert sum(map(len, groups.values())) <= GROUP_MEMBERS_PER_MEMBER * self.sizes[profile]

    def _is_used(self, profile: str, action: EntryAction) -> bool:
        return any(
            isinstance(entry.action, type(action)) and entry.action == action
            for name, table in self.program.tables.items()
            if table.profile is not None and self.program.profiles[table.profile].name == profile
            for entry in self.entries[name].values()
        )

    # -- packet replication

    def write_multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        self.multicast[group] = list(replicas)

    def write_clone_session(self, session: int, replicas: Sequence[Replica], length: int = 0) -> None:
        self.clones[session] = (list(replicas), length)
        everything = [*self.multicast.values(), *(copies for copies, _ in self.clones.values())]
        assert sum(map(len, everything)) <= MAX_REPLICAS

    # -- counters, meters, registers, value sets

    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]:
        return self.counters[name][start:stop]

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        self.counters[name][index] = value

    def fill_counter(self, name: str, value: CounterValue) -> None:
        self.counters[name] = [value] * len(self.counters[name])

    def write_meter(self, name: str, index: int, config: MeterConfig | None) -> None:
        self.meters[name][index] = config

    def fill_meter(self, name: str, config: MeterConfig | None) -> None:
        self.meters[name] = [config] * len(self.meters[name])

    def read_register(self, name: str, start: int, stop: int) -> list[int]:
        return self.registers[name][start:stop]

    def write_register(self, name: str, index: int, value: int) -> None:
        self.registers[name][index] = value

    def fill_register(self, name: str, value: int) -> None:
        self.registers[name] = [value] * len(self.registers[name])

    def write_value_set(self, name: str, members: Sequence[tuple[int, ...]]) -> None:
        self.value_sets[name] = list(members)
