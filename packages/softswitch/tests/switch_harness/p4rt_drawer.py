"""Draws what a P4Runtime server guards, beside what any pipeline takes: removals, weights, one-shots."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from softswitch import ir
from softswitch.pipeline import ControlPlane, CounterValue, Replica
from switch_harness.p4rt_writer import OneShot
from switch_harness.state import StateDrawer, Write


class P4RuntimeDrawer(StateDrawer):
    """Draws writes for a `P4RuntimeWriter`, among them some that a server has to refuse.

    Not drawn is what BMv2 hangs behind (empty groups), and what its server lacks: registers, value sets,
    clone sessions that truncate. A selector's tables get either groups or, with `one_shots`, entries that
    bring their groups (P4Runtime 1.4 §9.2.3).
    """

    def __init__(self, prepared: ControlPlane, random: Random, one_shots: bool = False) -> None:
        self.one_shots = one_shots
        super().__init__(prepared, random)

    def _kinds(self) -> list[Callable[[], Write]]:
        absent = [self.register, self.value_set]
        if self.one_shots:
            absent += [self.member, self.group]
        kinds = [kind for kind in super()._kinds() if kind not in absent]
        if self.group in kinds:
            kinds.append(self.removal)
        for kind in (self.multicast_group, self.clone_session):
            if kind in kinds:
                kinds.append(self.end_of_replication)
        if self.changeable():
            kinds.append(self.default)
        if any(table.has_counter for table in self.program.tables.values()):
            kinds.append(self.entry_counter)
        return kinds

    def changeable(self) -> list[ir.Table]:
        tables = self.program.tables.values()
        return [t for t in tables if t.key and not t.default_is_const and t.profile is None]

    def default(self) -> Write:
        table = self.random.choice(self.changeable())
        calls = [self.program.actions[index] for index in table.actions]
        action = None if self.random.random() < 0.3 else self.call(calls)
        return lambda pipeline: pipeline.tables.set_default(table.name, action)

    def entry_counter(self) -> Write:
        counted = [entry for entry in self.entries if self.program.tables[entry.table].has_counter]
        if not counted:
            return lambda _: None
        entry, value = self.random.choice(counted), CounterValue(self.number(20), self.number(20))
        return lambda pipeline: pipeline.tables.set_counter(entry, value)

    # -- profiles

    def most_entries(self, table: ir.Table) -> int:
        """Return fewer than fit with a profile: BMv2 does not forget a refused entry's use of a member.

        PI does not limit the members that one-shots make, of which an entry has up to three here.
        """
        if table.profile is None:
            return super().most_entries(table)
        return (table.size - 1) // 3 - 1 if self.one_shots else table.size - 4

    def action(self, table: ir.Table) -> Any:
        if table.profile is None or not self.one_shots:
            return super().action(table)
        if self.program.profiles[table.profile].selector is None:
            return None
        calls = [self.program.actions[index] for index in table.actions]
        count = self.random.randrange(1, 4)
        return OneShot(tuple((self.call(calls), self.random.randrange(1, 4)) for _ in range(count)))

    def group(self) -> Write:
        random = self.random
        profile = random.choice([p for p in self.program.profiles if p.selector is not None])
        known = [member for member in self.members[profile.name] if member > 0]
        picked = [m for m in known if random.random() < 0.7] or known[:1]
        chosen = [m for m in picked for _ in range(random.choice([1, 1, 2, 5]))]
        if not chosen:
            return lambda _: None
        random.shuffle(chosen)
        group = random.randrange(1, 5)
        self.members[profile.name][-group] = set(chosen)
        return lambda pipeline: pipeline.profiles.write_group(profile.name, group, chosen)

    def removal(self) -> Write:
        random = self.random
        profile = random.choice(self.program.profiles)
        number = random.randrange(1, 7)
        if profile.selector is not None and random.random() < 0.5:
            return lambda pipeline: pipeline.profiles.write_group(profile.name, number, None)
        return lambda pipeline: pipeline.profiles.write_member(profile.name, number, None)

    # -- replication

    def replicas(self) -> list[Replica]:
        """Draw up to six replicas as for a pipeline, without duplicates, which a server refuses."""
        copies = {*super().replicas(), *super().replicas()}
        return self.random.sample(sorted(copies), len(copies))

    def clone_session(self) -> Write:
        """Replace a session, without a length, which PI refuses for BMv2."""
        session, replicas = self.random.randrange(4), self.replicas()
        return lambda pipeline: pipeline.replication.write_clone_session(session, replicas)

    def end_of_replication(self) -> Write:
        number = self.random.randrange(1, 4)
        if self.random.random() < 0.5:
            return lambda pipeline: pipeline.replication.write_multicast_group(number, [])
        return lambda pipeline: pipeline.replication.write_clone_session(number, [])
