"""Kinds of faults: how each strikes, how it is undone, what must have happened, and its row in the table."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from controller.errors import NotPrimary
from experiment.faults import (
    FRAME_FAULTS,
    PROCESS_KILLS,
    SERVER_KILLED,
    SWITCH_KILLED,
    WORKER_KILLED,
    FrameFault,
)
from foundation.designs.interface import NEVER, Design
from simulator.contents import CONTENTS
from simulator.faults.operations import KEYS
from simulator.faults.player import MS, Player
from simulator.faults.schedule import SERVERS, WORKERS, Strike
from simulator.faults.switch import Session

Need = Literal["durability", "contents"]
"""Journals and replay logs; parameters that controllers have the switch hold."""
_LOOK_NS = 500_000
"""Between two looks whether who is to be killed is there again."""


class Fault(ABC):
    """One that strikes a schedule."""

    name: ClassVar[str]
    row: ClassVar[str]
    """What the table says of it."""
    whom: ClassVar[int] = SERVERS
    """How many it may hit one of."""
    needs: ClassVar[Need | None] = None
    """What a design has to have for it."""

    def __init__(self, player: Player, strike: Strike) -> None:
        self._player, self._strike, self._bed = player, strike, player.bed
        self._before = player.answered()
        self.has_happened = False

    @abstractmethod
    def strike(self) -> None:
        """Begin."""

    def undo(self) -> None:  # noqa: B027  # many end by themselves
        """End it."""

    def happened(self) -> bool:
        """Whether it has hit something, as it ends."""
        return True

    def last(self, ns: int) -> None:
        """Have it undone so much later."""
        self._player.at(ns, self.end)

    def end(self) -> None:
        """It is over."""
        self.undo()
        self.has_happened = self.happened()
        self._player.heal(self._before)

    @property
    def _lasts_ns(self) -> int:
        return self._strike.lasts_us * 1_000

    def _when(self, is_so: bool, then: Callable[[], None]) -> None:
        """Strike now, or look again a little later."""
        if is_so:
            then()
        else:
            self._player.at(_LOOK_NS, self.strike)


class CableSlow(Fault):
    """What goes over a host's cable takes longer."""

    name, row, whom = "delay", "a host's cable takes up to 50 ms longer for a while", WORKERS + SERVERS
    _counts = "frames"

    def strike(self) -> None:
        """Change both ways."""
        world, who = self._bed.world, self._strike.who
        self._links = (world.up[who], world.down[who])
        self._were = self._counted()
        self._change(1)
        self.last(self._lasts_ns)

    def undo(self) -> None:
        """Change them back."""
        self._change(-1)

    def happened(self) -> bool:
        """It had frames meanwhile."""
        return self._counted() != self._were

    def _counted(self) -> list[int]:
        return [int(getattr(link, self._counts)) for link in self._links]

    def _change(self, by: int) -> None:
        for link in self._links:
            link.delay += by * self._strike.amount * 1_000


class CableDown(CableSlow):
    """A host's cable loses all."""

    name, row = "link", "a host's cable is down for a while"
    _counts = "lost"

    def _change(self, by: int) -> None:
        for link in self._links:
            link.down += by


class WorkerKilled(Fault):
    """A worker dies in the middle of an operation; of a sequence of kills, at any time."""

    name, row, whom = WORKER_KILLED.name, WORKER_KILLED.row, WORKERS

    def strike(self) -> None:
        """Kill it, when something is under way."""
        w = self._strike.who
        if self._bed.world.agents.dead[w]:
            self._player.heal(self._before)
        elif self._strike.behind_us is None and not self._bed.world.calls.header.pending[w]:
            self._player.at(self._player.random.randrange(30_000), self.strike)
        else:
            self._player.cluster.kill_worker(w)
            self.follow()

    def follow(self) -> None:
        """It stays dead."""
        self.end()


class WorkerRestarted(WorkerKilled):
    """A worker dies, and comes back."""

    name, row, needs = "worker restarted", "a worker dies and comes back", "durability"

    def follow(self) -> None:
        """It takes a while."""
        self.last(self._lasts_ns)

    def undo(self) -> None:
        """Start another process, which controllers have to admit."""
        player, w = self._player, self._strike.who
        player.cluster.start_worker(w)
        player.begin(player.at_last(lambda: player.cluster.admit(w)))
        player.returned.append((w, self._bed.now))


class ServerRestarted(Fault):
    """A server dies and comes back."""

    name, row = SERVER_KILLED.name, SERVER_KILLED.row
    needs = "durability"

    def strike(self) -> None:
        """Kill it when it lives."""
        self._when(not self._bed.world.agents.dead[WORKERS + self._strike.who], self._kill)

    def _kill(self) -> None:
        p = self._strike.who
        # Of what its journal begins with, its checkpoint may be all.
        self._bed.servers[p].keep_at_times(self._player.random)
        self._player.cluster.kill_server(p)
        self._frames = self._received()
        self.last(self._lasts_ns)

    def undo(self) -> None:
        """Start another process."""
        # What came meanwhile was lost with it.
        self._is_missed = self._received() > self._frames
        self._player.cluster.start_server(self._strike.who)
        self._player.send_from(self._strike.who)

    def happened(self) -> bool:
        """Frames came for it; of a sequence of kills, it was killed."""
        return self._is_missed or self._strike.behind_us is not None

    def _received(self) -> int:
        return int(self._bed.world.down.frames[WORKERS + self._strike.who])


class SwitchRestarted(Fault):
    """The switch dies, and comes back empty."""

    name, row = SWITCH_KILLED.name, SWITCH_KILLED.row
    needs = "durability"

    def strike(self) -> None:
        """Kill it when it has a process."""
        self._when(not self._player.cluster.switch_is_dead, self._kill)

    def _kill(self) -> None:
        player, world = self._player, self._bed.world
        self._had, self._refused = bool(world.calls.replay_log[:, 0].any()), int(world.me.refused)
        player.blind.append([self._bed.now, NEVER])
        player.cluster.kill_switch(self._lasts_ns)
        back = player.begin(player.until_restored(player.cluster.restarts + 1))
        back.add_done_callback(lambda _: self.end())

    def happened(self) -> bool:
        """It held something, and frames came for it; of a sequence of kills, it was killed."""
        is_missed = self._had and int(self._bed.world.me.refused) > self._refused
        return is_missed or self._strike.behind_us is not None


class ControllerKilled(Fault):
    """A controller dies while it moves keys; another one finishes, with another set."""

    name, row = "controller killed", "a controller dies while it moves keys"
    needs = "contents"

    def strike(self) -> None:
        """Have one move keys, and kill it."""
        self._wanted = _another_set(self._player)
        _while_moving(self._player, self._wanted, self._die)

    def happened(self) -> bool:
        """It had not ended before."""
        return self._is_cut

    def _die(self, session: Session, task: asyncio.Task[object]) -> None:
        self._is_cut = not task.done()
        self._player.kill(session, task)
        self._player.at(self._lasts_ns, self._follow)

    def _follow(self) -> None:
        player = self._player
        player.wanted = player.random.choice([self._wanted, _another_set(player)])
        player.begin(player.load_wanted()).add_done_callback(lambda _: self.end())


class SecondController(Fault):
    """Another controller becomes primary while one moves keys."""

    name, row = "second controller", "another controller becomes primary while one moves keys"
    needs = "contents"

    def strike(self) -> None:
        """Have one move keys, and another one load others."""
        _while_moving(self._player, _another_set(self._player), self._supersede)

    def happened(self) -> bool:
        """The first was told."""
        return self._first.done() and isinstance(self._first.exception(), NotPrimary)

    def _supersede(self, _: Session, task: asyncio.Task[object]) -> None:
        player, self._first = self._player, task
        player.wanted = _another_set(player)
        player.begin(player.load_wanted()).add_done_callback(lambda _: self.end())


class HotSetChanges(Fault):
    """Another hot set is loaded while workers push."""

    name, row = "hot set", "the hot set changes"
    needs = "contents"

    def strike(self) -> None:
        """Load it."""
        player = self._player
        player.wanted, self._were = _another_set(player), self._entries()
        player.begin(player.load_wanted()).add_done_callback(lambda _: self.end())

    def happened(self) -> bool:
        """There was something to move."""
        return self._were != self._entries()

    def _entries(self) -> set[tuple[int, object]]:
        return {(entry.key, entry.state) for entry in self._bed.switch.entries}


class DiskFull(Fault):
    """A server can note nothing, so it answers nothing."""

    name, row = "disk full", "a parameter server's disk is full for a while"

    def strike(self) -> None:
        """Have it stand still."""
        self._agent = self._bed.world.agents[WORKERS + self._strike.who]
        self._agent.stalled = self._bed.now + self._lasts_ns
        # Looked at just before it goes on.
        self.last(self._lasts_ns - 1)

    def happened(self) -> bool:
        """Something waits."""
        return int(self._agent.waiting) > 0


def _while_moving(
    player: Player, keys: list[int], what: Callable[[Session, asyncio.Task[object]], None]
) -> None:
    """Do something while a controller loads a hot set, when a random part of what it has to write is written.

    Where it fails before, as the switch is off, or another becomes primary, one tries again.
    """
    session = player.session()
    switch = player.bed.switch
    writes = switch.contents.writes(switch.entries, player.bed.arm.job, keys)
    least = player.random.randrange(max(writes, 2) // 2)
    fired: list[bool] = []

    def look() -> None:
        if session.written > least and not fired:
            fired.append(True)
            player.at(player.random.randrange(200_000), lambda: what(session, task))

    def ended(_: object) -> None:
        if not fired:
            player.at(MS, lambda: _while_moving(player, _another_set(player), what))

    session.on_write = look
    task = player.begin(player.load(session, keys))
    task.add_done_callback(ended)


def _another_set(player: Player) -> list[int]:
    """Of another size than that in the switch, so that there is something to move."""
    now = len(player.bed.switch.entries)
    return player.random.sample(range(KEYS), player.random.choice([k for k in (4, 16, 40) if k != now]))


KINDS: dict[str, type[Fault]] = {
    kind.name: kind
    for kind in (
        CableSlow,
        CableDown,
        WorkerKilled,
        WorkerRestarted,
        ServerRestarted,
        SwitchRestarted,
        ControllerKilled,
        SecondController,
        HotSetChanges,
        DiskFull,
    )
}
NETWORK: Mapping[str, FrameFault] = {kind.name: kind for kind in FRAME_FAULTS}
"""Of the whole network, from the beginning to the end."""
FAULTS: Mapping[str, str] = {
    **{name: kind.row for name, kind in NETWORK.items()},
    **{name: kind.row for name, kind in KINDS.items()},
    "kills": "processes are killed one after the other, also while a switch is restored",
    "everything": "several of these, on a bad network",
}
"""Row of the table -> what it is."""


def kinds_of(design: Design) -> Mapping[str, type[Fault]]:
    """Those that strike a design, by name."""
    has = {None: True, "durability": design.is_durable, "contents": CONTENTS.module_for(design) is not None}
    return {name: kind for name, kind in KINDS.items() if has[kind.needs]}


def faults_of(design: Design) -> tuple[str, ...]:
    """The rows of a design."""
    strike = kinds_of(design)
    kills = {kind.name for kind in PROCESS_KILLS} <= set(strike)
    return tuple(
        name for name in FAULTS if name in strike or (name not in KINDS and (name != "kills" or kills))
    )
