"""Draws control-plane writes for any program: entries, members, groups, replicas, meters, sets, registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from softswitch import ir
from softswitch.errors import StateError
from softswitch.pipeline import (
    ActionCall,
    Change,
    ControlPlane,
    CounterValue,
    EntryAction,
    EntryKey,
    EntryWrite,
    MeterConfig,
    Replica,
    UseGroup,
    UseMember,
)
from softswitch.v1model import Standard

Write = Callable[[ControlPlane], object]
PORTS = (1, 2, 3, 4)


class StateDrawer:
    """Draws writes that any number of pipelines take alike; keeps no more than what refers to what.

    `prepared` is one of them, with the entries that were there before the first write.
    """

    def __init__(self, prepared: ControlPlane, random: Random) -> None:
        self.program = program = prepared.program
        self.random = random
        self.taken = {
            name: {entry.priority for entry in prepared.tables.read(name)} for name in program.tables
        }
        self.entries: list[EntryKey] = []
        self.members: dict[str, dict[int, set[int]]] = {p.name: {} for p in program.profiles}
        self.kinds = self._kinds()

    def _kinds(self) -> list[Callable[[], Write]]:
        program = self.program
        kinds: list[Callable[[], Write]] = []
        if any(table.key and not table.is_immutable for table in program.tables.values()):
            kinds += [self.entry, self.entry, self.entry]
        for present, kind in (
            (program.profiles, self.member),
            (any(p.selector is not None for p in program.profiles), self.group),
            (program.sets_standard_field(Standard.MCAST_GRP), self.multicast_group),
            (program.has(ir.Clone), self.clone_session),
            (program.meters, self.meter),
            (any(table.meter for table in program.tables.values()), self.entry_meter),
            (program.value_sets, self.value_set),
            (program.registers, self.register),
            (program.counters, self.counter),
        ):
            if present:
                kinds.append(kind)
        return kinds

    def draw(self) -> Write:
        return self.random.choice(self.kinds)()

    # -- tables

    def entry(self) -> Write:
        """Insert, modify or delete an entry; now and then of one that is not there, or twice."""
        random = self.random
        names = [name for name, table in self.program.tables.items() if table.key and not table.is_immutable]
        table = self.program.tables[random.choice(names)]
        change = random.choice([Change.INSERT, Change.INSERT, Change.MODIFY, Change.DELETE])
        known = [entry for entry in self.entries if entry.table == table.name]
        is_new = change is Change.INSERT and len(known) < self.most_entries(table)
        if known and (not is_new or random.random() < 0.1):
            entry = random.choice(known)
        else:
            key = tuple(self.match(part) for part in table.key)
            entry = EntryKey(table.name, key, self.priority(table))
            self.entries.append(entry)
        if change is Change.DELETE and random.random() < 0.9:
            self.entries.remove(entry)
        action = None if change is Change.DELETE else self.action(table)
        if change is not Change.DELETE and action is None:
            return lambda _: None
        write = EntryWrite(change, table.name, entry.key, action, entry.priority)
        return lambda pipeline: [type(result) for result in pipeline.tables.write([write])]

    def most_entries(self, table: ir.Table) -> int:
        """Return the number of entries to try, which is more than the table holds."""
        return table.size + 20

    def priority(self, table: ir.Table) -> int:
        """A priority that no entry of the table has: which of two wins is not defined."""
        if not table.has_priority:
            return 0
        drawn = {entry.priority for entry in self.entries if entry.table == table.name}
        taken = self.taken[table.name] | drawn
        return self.random.choice([p for p in range(1, 200 + len(taken)) if p not in taken])

    def match(self, part: ir.KeyField) -> ir.Match:
        """What an entry asks of one field; often something that small numbers match."""
        value, ones = self.number(part.width), (1 << part.width) - 1
        match part.kind:
            case ir.MatchKind.EXACT:
                return value
            case ir.MatchKind.LPM:
                mask = ones & ~(ones >> self.random.randrange(part.width + 1))
                return ir.Masked(value & mask, mask)
            case ir.MatchKind.RANGE:
                low, high = sorted((value, self.number(part.width)))
                return ir.RangeMatch(low, high)
        mask = self.random.choice([0, ones, self.number(part.width)])
        return ir.Masked(value & mask, mask)

    def number(self, width: int) -> int:
        """Draw a number: small, random, or all ones."""
        ones = (1 << width) - 1
        random = self.random
        return random.choice([random.randrange(10), random.getrandbits(width), ones]) & ones

    def action(self, table: ir.Table) -> EntryAction | None:
        """Draw an action of the table, or a member or group of its profile; None if there is none yet."""
        if table.profile is None:
            return self.call([self.program.actions[index] for index in table.actions])
        profile = self.program.profiles[table.profile]
        members = self.members[profile.name]
        uses: list[EntryAction] = [UseMember(m) for m in members if m > 0]
        uses += [UseGroup(-g) for g in members if g < 0]
        return self.random.choice(uses) if uses else None

    def call(self, actions: Sequence[ir.Action]) -> ActionCall:
        action = self.random.choice(actions)
        return ActionCall(action.name, tuple(self.number(width) for width in action.parameters))

    def entry_meter(self) -> Write:
        metered = [p for p in self.entries if self.program.tables[p.table].meter]
        if not metered:
            return lambda _: None
        entry, config = self.random.choice(metered), self.config()
        return lambda pipeline: _outcome(lambda: pipeline.tables.set_meter(entry, config))

    # -- profiles; a group is noted under its negative number

    def member(self) -> Write:
        number = self.random.randrange(len(self.program.profiles))
        profile = self.program.profiles[number]
        names = self.program.profile_actions[number]
        member = self.random.randrange(1, 7)
        call = self.call([self.program.actions[index] for index in names.values()])
        self.members[profile.name][member] = set()
        return lambda pipeline: _outcome(lambda: pipeline.profiles.write_member(profile.name, member, call))

    def group(self) -> Write:
        profile = self.random.choice([p for p in self.program.profiles if p.selector is not None])
        known = [m for m in self.members[profile.name] if m > 0]
        chosen = [m for m in known if self.random.random() < 0.7]
        group = self.random.randrange(1, 5)
        self.members[profile.name][-group] = set(chosen)
        return lambda pipeline: _outcome(lambda: pipeline.profiles.write_group(profile.name, group, chosen))

    # -- replication

    def replicas(self) -> list[Replica]:
        """Draw copies to some ports, several to the same port among them."""
        count = self.random.randrange(4)
        return [Replica(self.random.choice(PORTS), self.random.randrange(4)) for _ in range(count)]

    def multicast_group(self) -> Write:
        group, replicas = self.random.randrange(1, 4), self.replicas()
        return lambda pipeline: pipeline.replication.write_multicast_group(group, replicas)

    def clone_session(self) -> Write:
        session, replicas = self.random.randrange(4), self.replicas()
        length = self.random.choice([0, 0, 5, 14, 60])
        return lambda pipeline: pipeline.replication.write_clone_session(session, replicas, length)

    # -- cells

    def config(self) -> MeterConfig | None:
        """Draw rates that a part of a test's packets exceeds."""
        committed = self.random.randrange(1, 500_000)
        bursts = sorted(self.random.randrange(1, 200) for _ in range(2))
        return self.random.choice([None, MeterConfig(committed, bursts[0], 2 * committed, bursts[1])])

    def meter(self) -> Write:
        meter = self.random.choice(self.program.meters)
        index, config = self.random.randrange(meter.size), self.config()
        return lambda pipeline: pipeline.cells.write_meter(meter.name, index, config)

    def value_set(self) -> Write:
        chosen = self.random.choice(self.program.value_sets)
        members = [
            tuple(self.number(width) for width in chosen.widths)
            for _ in range(self.random.randrange(chosen.size + 1))
        ]
        return lambda pipeline: pipeline.cells.write_value_set(chosen.name, members)

    def register(self) -> Write:
        register = self.random.choice(self.program.registers)
        index, value = self.random.randrange(register.size), self.number(register.width)
        return lambda pipeline: pipeline.cells.write_register(register.name, index, value)

    def counter(self) -> Write:
        counter = self.random.choice(self.program.counters)
        index, value = self.random.randrange(counter.size), CounterValue(*(self.number(20) for _ in range(2)))
        return lambda pipeline: pipeline.cells.write_counter(counter.name, index, value)


def _outcome(write: Callable[[], None]) -> type | None:
    try:
        write()
    except StateError as error:
        return type(error)
    return None


def cells(pipeline: ControlPlane, entries: Sequence[EntryKey] = ()) -> object:
    """All that packets leave behind: registers, counters, entries with their counters and hits."""
    program = pipeline.program
    return (
        [pipeline.cells.read_register(r.name, 0, r.size) for r in program.registers],
        [pipeline.cells.read_counter(c.name, 0, c.size) for c in program.counters],
        [sorted(map(repr, pipeline.tables.read(name))) for name in program.tables],
        pipeline.tables.find(entries),
        pipeline.tables.last_hits([e for e in entries if program.tables[e.table].has_idle_timeout]),
    )
