"""What a data plane has, read from its own memory: `stored` for a plain model, `exact` for what was undone.

Nothing here asks the P4Runtime server, so both can be compared with the same model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softswitch import ir
from softswitch.interpreter import InterpretedPipeline
from softswitch.memory.coding import read_data
from softswitch.memory.layout import (
    HEADER_WORDS,
    METER_WORDS,
    NO_ACTION,
    SESSION_WORDS,
    TableLayout,
    group_reference,
    member_reference,
)
from softswitch.memory.words import HALF, LOW_HALF_MASK, join_words
from softswitch.pipeline import ActionCall, EntryKey, Pipeline, Replica, StoredEntry, UseGroup, UseMember
from softswitch.state.pipeline import StatePipeline
from softswitch.v1model import CLONE_SESSIONS, MULTICAST_GROUPS

Stored = dict[tuple[Any, ...], Any]
Buckets = tuple[tuple[float, int], ...]
"""Rate per µs and burst of both token buckets of a meter; none if it is always green."""


def stored(pipeline: Pipeline) -> Stored:
    """All that the control plane has written, by kind and number or name; empty groups are left out.

    An action of an entry is resolved to the calls that it can execute, in order.
    """
    reader = _reader(pipeline)
    found: Stored = {}
    for name, table in pipeline.program.tables.items():
        found["default", name] = reader.default(name)
        for entry in pipeline.tables.read(name):
            meter = reader.entry_meter(EntryKey(name, entry.key, entry.priority)) if table.meter else ()
            found["entry", name, entry.key, entry.priority] = (
                reader.calls(table, entry),
                tuple(entry.counter),
                meter,
            )
    for number, profile in enumerate(pipeline.program.profiles):
        for member, call in reader.members(number).items():
            found["member", profile.name, member] = call
        for group, members in reader.groups(number).items():
            found["group", profile.name, group] = tuple(members)
    found |= reader.replication()
    for counter in pipeline.program.counters:
        found["counter", counter.name] = [
            tuple(c) for c in pipeline.cells.read_counter(counter.name, 0, counter.size)
        ]
    for register in pipeline.program.registers:
        found["register", register.name] = pipeline.cells.read_register(register.name, 0, register.size)
    for number, meter_array in enumerate(pipeline.program.meters):
        found["meter", meter_array.name] = reader.meters(number)
    for number, value_set in enumerate(pipeline.program.value_sets):
        found["value set", value_set.name] = reader.value_set(number)
    return found


def exact(pipeline: Pipeline) -> list[Any]:
    """All of the state, to the last word and free slot, to compare before and after what was undone."""
    state: list[Any] = _reader(pipeline).exact()
    return state


def _reader(pipeline: Any) -> Any:
    if isinstance(pipeline, InterpretedPipeline):
        return _Interpreted(pipeline)
    assert isinstance(pipeline, StatePipeline)
    return _Words(pipeline)


class _Resolver:
    pipeline: Any

    def members(self, profile: int) -> dict[int, ActionCall]:
        raise NotImplementedError  # each kind of pipeline has its own state

    def groups(self, profile: int) -> dict[int, list[int]]:
        raise NotImplementedError  # each kind of pipeline has its own state

    def calls(self, table: ir.Table, entry: StoredEntry) -> tuple[ActionCall, ...]:
        if isinstance(entry.action, ActionCall):
            return (entry.action,)
        assert table.profile is not None
        members = self.members(table.profile)
        if isinstance(entry.action, UseMember):
            return (members[entry.action.member],)
        assert isinstance(entry.action, UseGroup)
        return tuple(members[member] for member in self.groups(table.profile)[entry.action.group])


class _Interpreted(_Resolver):
    def __init__(self, pipeline: Any) -> None:
        self.pipeline, self.traffic = pipeline, pipeline._traffic

    def default(self, table: str) -> ActionCall | None:
        action = self.pipeline._controls.tables[table].default
        if not isinstance(action, ir.Invocation):
            return None
        return ActionCall(self.pipeline.program.actions[action.action].name, action.args)

    def entry_meter(self, key: EntryKey) -> Buckets:
        return _buckets(self.pipeline.tables._entry(key).meter)

    def members(self, profile: int) -> dict[int, ActionCall]:
        return dict(self.pipeline._controls.profiles[profile]._members)

    def groups(self, profile: int) -> dict[int, list[int]]:
        return {g: list(m) for g, m in self.pipeline._controls.profiles[profile]._groups.items()}

    def replication(self) -> Stored:
        groups = {
            ("multicast", number): list(copies) for number, copies in self.traffic.groups.items() if copies
        }
        sessions = {
            ("clone", number): (list(session.replicas), session.length)
            for number, session in self.traffic.sessions.items()
            if session.replicas or session.length
        }
        return {**groups, **sessions}

    def meters(self, number: int) -> list[Buckets]:
        return [_buckets(cell) for cell in self.pipeline._externs.meters[number]]

    def value_set(self, number: int) -> list[int]:
        return list(self.traffic.value_sets[number])

    def exact(self) -> list[Any]:
        entries = [
            [
                (key, vars(entry) | {"count": list(entry.count), "meter": _buckets(entry.meter)})
                for key, entry in table._entries.items()
            ]
            for table in self.pipeline._controls.tables.values()
        ]
        profiles = [
            (dict(p._members), dict(p._groups), p._grouped_member_count)
            for p in self.pipeline._controls.profiles
        ]
        return [entries, profiles, list(self.pipeline.replication._replica_count), stored(self.pipeline)]


def _buckets(cell: Any) -> Buckets:
    return tuple((bucket.rate, bucket.burst) for bucket in cell._buckets)


class _Words(_Resolver):
    def __init__(self, pipeline: Any) -> None:
        self.pipeline, self.layout = pipeline, pipeline._layout
        self.words = pipeline._memory.words

    def _take(self, offset: int, count: int) -> list[int]:
        taken: list[int] = self.words[offset : offset + count].tolist()
        return taken

    def _call(self, words: list[int]) -> ActionCall | None:
        if words[0] == NO_ACTION:
            return None
        invocation = read_data(self.pipeline.program, words)
        return ActionCall(self.pipeline.program.actions[invocation.action].name, invocation.args)

    def default(self, table: str) -> ActionCall | None:
        layout: TableLayout = self.layout.tables[table]
        if layout.table.profile is not None:
            return None
        count = layout.stride - layout.parameters
        start = layout.default
        return self._call(
            [*self._take(start + layout.action, 1), *self._take(start + layout.parameters, count)]
        )

    def entry_meter(self, key: EntryKey) -> Buckets:
        entries = self.pipeline.tables
        record = int(entries._look_up(entries._encode_keys([key]))[0])
        return self._meter(record + self.layout.tables[key.table].meter)

    def _meter(self, offset: int) -> Buckets:
        is_configured, *buckets = self._take(offset, METER_WORDS)
        if not is_configured:
            return ()
        rates = np.array(buckets[::4], dtype=np.uint64).view(np.float64).tolist()
        return tuple(zip(rates, buckets[1::4], strict=True))

    def members(self, profile: int) -> dict[int, ActionCall]:
        state, layout = self.pipeline.profiles.by_position[profile], self.layout.profiles[profile]
        calls = {}
        for member, slot in state._members.by_number.items():
            assert state.uses[member_reference(slot)] == UseMember(member)
            call = self._call(self._take(layout.members + slot * layout.stride, layout.stride))
            assert call is not None
            calls[member] = call
        return calls

    def groups(self, profile: int) -> dict[int, list[int]]:
        state, layout = self.pipeline.profiles.by_position[profile], self.layout.profiles[profile]
        groups = {}
        for group, slot in state._groups.by_number.items():
            assert state.uses[group_reference(slot)] == UseGroup(group)
            references = self._run(layout.groups + slot, layout.pool)
            groups[group] = [state.uses[reference].member for reference in references]
        assert len(state.uses) == len(state._members.by_number) + len(groups)
        return groups

    def _run(self, offset: int, pool: int) -> list[int]:
        word = int(self.words[offset])
        return self._take(pool + (word >> HALF), word & LOW_HALF_MASK)

    def replication(self) -> Stored:
        layout, found = self.layout.replication, Stored()
        for number in np.flatnonzero(
            self.words[layout.multicast : layout.multicast + MULTICAST_GROUPS]
        ).tolist():
            if copies := self._replicas(layout.multicast + number):
                found["multicast", number] = copies
        sessions = self.words[layout.sessions : layout.sessions + SESSION_WORDS * CLONE_SESSIONS]
        for number in {offset // SESSION_WORDS for offset in np.flatnonzero(sessions).tolist()}:
            offset = layout.sessions + SESSION_WORDS * number
            copies, length = self._replicas(offset), int(self.words[offset + 1])
            if copies or length:
                found["clone", number] = copies, length
        return found

    def _replicas(self, offset: int) -> list[Replica]:
        run = self._run(offset, self.layout.replication.pool)
        return [Replica(word >> HALF, word & LOW_HALF_MASK) for word in run]

    def meters(self, number: int) -> list[Buckets]:
        size = self.pipeline.program.meters[number].size
        return [self._meter(self.layout.meters[number] + METER_WORDS * index) for index in range(size)]

    def value_set(self, number: int) -> list[int]:
        offset, count = self.layout.value_sets[number], self.layout.value_words[number]
        members = range(int(self.words[offset]))
        return [join_words(self._take(offset + 1 + count * member, count)) for member in members]

    def exact(self) -> list[Any]:
        memory = self.pipeline._memory
        parts: list[Any] = []
        for words in (memory.words, getattr(memory, "_written_state", memory.words)):
            copy = words[: self.layout.work].copy()
            for table in self.layout.tables.values():  # working memory of lookups (`state.ranked`)
                if table.is_ranked:
                    start = table.header + HEADER_WORDS
                    copy[start : start + table.field_words + 1] = 0
            used = np.flatnonzero(copy)
            parts.append((used.tobytes(), copy[used].tobytes()))
        for profile in self.pipeline.profiles.by_position:
            slots = [(dict(s.by_number), list(s._free)) for s in (profile._members, profile._groups)]
            parts.append((slots, dict(profile.uses), _pool(profile._pool)))
        return [*parts, _pool(self.pipeline.replication._pool), len(getattr(memory, "_pending_changes", ()))]


def _pool(pool: Any) -> object:
    return dict(pool._runs), pool._end, pool.used
