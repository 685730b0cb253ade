"""A schedule is played: the loop goes on until something is due, strikes come, and the end is judged."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine, Mapping
from itertools import count
from random import Random
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from controller.controller import Controller
from controller.errors import ControllerError
from experiment.faults import FRAME_FAULTS
from experiment.recovery import keep_switch
from foundation.designs.interface import NEVER
from simulator.faults.bed import Bed
from simulator.faults.clock import VirtualLoop
from simulator.faults.cluster import Virtual
from simulator.faults.model import BLIND, Judgement, judge
from simulator.faults.operations import ENOUGH, FULL, KEYS, WAITING
from simulator.faults.schedule import WORKERS, Schedule, Strike
from simulator.faults.switch import Session
from simulator.loop import CROWDED, LEFT, QUIET
from simulator.state import NOBODY

MS = 1_000_000
"""ns"""
_LONGEST_NS = 1_000_000 * MS
"""After which a schedule that has not come to rest never will."""


class Struck(Protocol):
    """A fault (`simulator.faults.strikes`)."""

    has_happened: bool
    """It has hit something; not before it is over."""

    def strike(self) -> None:
        """Begin, and see to the end."""
        ...


Kinds = Mapping[str, Callable[["Player", Strike], Struck]]
"""What makes a fault of each kind."""


class Outcome(NamedTuple):
    """What came of a schedule."""

    struck: bool
    """The fault did happen, while RPCs were answered."""
    rpcs: int
    during: int
    """RPCs that were answered between a strike and the recovery from it; all of them where the network is
    bad."""
    recovery_ms: float
    """From the end of the last fault until all that was under way had ended."""
    at_rest: bool
    """All came to an end."""
    judgement: Judgement

    @property
    def holds(self) -> bool:
        """Nothing is lost, nothing doubled, and all has ended."""
        return self.at_rest and self.judgement.holds


class Player:
    """One schedule under way."""

    def __init__(self, bed: Bed, schedule: Schedule, kinds: Kinds) -> None:
        self.bed, self.schedule = bed, schedule
        self._kinds = kinds
        self.random = Random(schedule.seed)
        self.wanted = self.random.sample(range(KEYS), schedule.hot)
        bed.reset(schedule, self.wanted)
        self.clock = VirtualLoop()
        self.tasks: set[asyncio.Task[object]] = set()
        self.sessions: list[Session] = []
        self.cluster = Virtual(self)
        self.strikes = list(schedule.strikes)
        self.open = 0
        """Faults that have struck and are not over."""
        self.faults: list[Struck] = []
        """That have struck."""
        self.marks: list[tuple[int, int]] = []
        """When each fault ended, and how many RPCs had been answered when it struck."""
        self.returned: list[tuple[int, int]] = []
        """Workers that came back, and when."""
        self.blind: list[list[int]] = []
        self.is_closing = False
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    # -- the loop

    def run(self) -> Outcome:
        """Play it to its end, and judge that."""
        try:
            for w in range(WORKERS):
                self.bed.ask(w)
            self._keeper = self.begin(keep_switch(self.cluster))
            self._expect()
            at_rest = self._go_on()
            return self._outcome(at_rest)
        finally:
            self._end()

    def _go_on(self) -> bool:
        bed = self.bed
        while True:
            until = min(self._due(), _LONGEST_NS)
            reason = bed.go_on(until)
            if reason == LEFT:
                self._take_left()
            elif reason == ENOUGH:
                self._enough()
            elif reason == FULL:
                self._make_room(int(bed.world.me.who) - WORKERS)
            elif reason == CROWDED:
                return False
            elif reason == QUIET and until == _LONGEST_NS:
                if self.is_closing or (self.open and not self.strikes):
                    return self.is_closing and self._has_ended()
                self._enough()
            elif until == _LONGEST_NS:
                return False
            else:
                bed.now = until
                self._do_due(until)

    def _make_room(self, p: int) -> None:
        """A server's log of contacts is full, or its journal: it makes a checkpoint as soon as it can."""
        server = self.bed.servers[p]
        server.state.header.contacts = 0
        if int(server.state.header.noted) and not server.keep():
            self.bed.world.agents.stalled[WORKERS + p] = self.bed.now + 100_000

    def _due(self) -> int:
        dues = [server.due for server in self.bed.servers if not self._is_dead(WORKERS + server.p)]
        if self._timers:
            dues.append(self._timers[0][0])
        return max(min(self.clock.due(), *dues), self.bed.now) if dues else self.clock.due()

    def _do_due(self, now: int) -> None:
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
        for server in self.bed.servers:
            if server.due <= now and not self._is_dead(WORKERS + server.p):
                server.wake(now)
                self.send_from(server.p)
        self.clock.run_due(now)

    def _take_left(self) -> None:
        for who, octets in self.bed.take_left():
            if who == NOBODY:
                if (primary := self.bed.switch.primary) is not None:
                    primary.arrived.put_nowait(octets[2:])
            else:
                self.bed.servers[who - WORKERS].take(octets)
                self.send_from(who - WORKERS)
        self.clock.run_due(self.bed.now)

    def send_from(self, p: int) -> None:
        """Let a server send what it has to."""
        for frame in self.bed.servers[p].to_send():
            self.bed.send(WORKERS + p, frame)

    def _enough(self) -> None:
        """So many RPCs have been answered that something is due."""
        if self.strikes:
            self._strike_next()
        elif not self.open and not self.is_closing:
            self._close()
        self._expect()

    def _strike_next(self) -> None:
        """Let the next fault strike; one that is due so long behind it has a timer."""
        strike = self.strikes.pop(0)
        self.open += 1
        self.faults.append(self._kinds[strike.kind](self, strike))
        self.faults[-1].strike()
        if self.strikes and (behind := self.strikes[0].behind_us) is not None:
            self.at(behind * 1_000, self._strike_next)

    def _expect(self) -> None:
        """Have the loop come back when the next strike is due, or the end."""
        me = self.bed.operations.me
        if self.strikes:
            me.until = self.strikes[0].after if self.strikes[0].behind_us is None else NEVER
        else:
            me.until = NEVER if self.open or self.is_closing else self.schedule.rpcs

    def at(self, after_ns: int, what: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._timers, (self.bed.now + after_ns, next(self._order), what))

    def begin(self, coroutine: Coroutine[object, None, object]) -> asyncio.Task[object]:
        """Start a coroutine."""
        self.clock.now = self.bed.now
        task = self.clock.begin(coroutine)
        self.tasks.add(task)
        return task

    # -- faults begin and end

    def answered(self) -> int:
        """RPCs so far."""
        return int(self.bed.operations.me.answered) + int(self.bed.world.calls.header.rows.sum())

    def heal(self, before: int) -> None:
        """A fault is over, before which so many RPCs had been answered."""
        self.open -= 1
        self.marks.append((self.bed.now, before))
        self._expect()

    def _close(self) -> None:
        """The network is sound, and no more operations begin."""
        world = self.bed.world
        if not self.marks:
            self.marks.append((self.bed.now, 0))
        for links in (world.up, world.down):
            links.impaired = 0
        self.is_closing = True
        self.bed.operations.me.is_closing = 1
        for w in range(WORKERS):
            self.bed.ask(w)
        if self.bed.keeps_parameters and (self.bed.in_motion() or self.schedule.strikes):
            self.begin(self.load_wanted())

    def _is_dead(self, a: int) -> bool:
        return bool(self.bed.dead[a])

    # -- controllers

    def session(self) -> Session:
        """A controller's connection."""
        session = Session(self.bed.switch, self.random, self.bed.packet_out)
        self.sessions.append(session)
        return session

    async def load(self, session: Session, keys: list[int]) -> None:
        """A controller loads a hot set."""
        async with Controller(switch=session) as controller:
            await controller.load(self.bed.arm.job, keys)

    async def load_wanted(self) -> None:
        """Controllers load the hot set that is wanted, one after the other, until one has done it.

        Another that becomes primary meanwhile may be one that loads what is wanted by then, or that admits a
        worker: what was begun is finished either way.
        """
        await self.at_last(lambda: self.load(self.session(), self.wanted))

    def kill(self, session: Session, task: asyncio.Task[object]) -> None:
        """A controller dies: what it does from now on has no effect."""
        session.killed = True
        if self.bed.switch.primary is session:
            self.bed.switch.primary = None
        task.cancel()
        self.clock.run_due(self.bed.now)

    async def at_last(self, what: Callable[[], Coroutine[object, object, None]]) -> None:
        """Have controllers do something, one after the other, until one has done it."""
        pause_s = 0.002
        while True:
            try:
                await what()
                return
            except ControllerError:
                await asyncio.sleep(pause_s)
                pause_s = min(1.3 * pause_s, 1.0)

    async def until_restored(self, restarts: int) -> None:
        """Wait until a switch has come back that has been started so often."""
        while self.cluster.restarts < restarts:
            await self.cluster.liveness.until_death(self.cluster.liveness.deaths)
        await self.cluster.liveness.until_all_up()

    # -- the end

    def _has_ended(self) -> bool:
        """No operation, no command and no controller is under way."""
        calls, lines = self.bed.world.calls.header, self.bed.operations.lines
        idle = all(
            self._is_dead(w)
            or (calls.pending[w] == 0 and not calls.unreplayed[w] and lines.state[w] == WAITING)
            for w in range(WORKERS)
        )
        tasks = self.tasks - {self._keeper}
        return (
            idle
            and not self._keeper.done()  # which would have ended a run
            and all(task.done() for task in tasks)
            and self.cluster.liveness.all_up
            and not self.bed.in_motion()
        )

    def _outcome(self, at_rest: bool) -> Outcome:
        bed = self.bed
        errors = [task.exception() for task in self.tasks if task.done() and not task.cancelled()]
        for error in errors:
            if error is not None and not isinstance(error, ControllerError):
                raise error
        history, lines = bed.operations.history, bed.operations.lines
        recovered = max((self._first_of(w, end) - end for w, end in self.returned), default=0)
        for end, _ in self.marks:
            for w in range(WORKERS):
                mine = history[w, : int(lines.operations[w])]
                pending = mine.completed[(mine.invoked <= end) & (mine.completed > end)]
                recovered = max(recovered, int(pending.max(initial=end)) - end)
        world = bed.world
        network = [
            sum(int(links[kind.counter].sum()) for links in (world.up, world.down)) > 0
            for kind in FRAME_FAULTS
            if getattr(self.schedule, kind.name)
        ]
        evidence = [*(fault.has_happened for fault in self.faults), *network]
        rpcs = self.answered()
        during = rpcs - min(before for _, before in self.marks) if self.marks else 0
        blind = np.array(self.blind, np.int64).reshape(-1, 2) if self.blind else BLIND
        return Outcome(
            struck=bool(evidence) and all(evidence) and during > 0 and rpcs >= self.schedule.rpcs,
            rpcs=rpcs,
            during=during,
            recovery_ms=recovered / MS,
            at_rest=at_rest,
            judgement=judge(bed.operations, bed.held() + self._owed(), blind, bed.unknown),
        )

    def _owed(self) -> NDArray[np.uint32]:
        """What the logs of workers owe that have died."""
        owed = np.zeros(KEYS, np.uint32)
        for w, log in enumerate(self.bed.logs):
            if self._is_dead(w):
                owed += log.unacked(self.cluster.restarts).sure
        return owed

    def _first_of(self, w: int, since: int) -> int:
        """When a worker has completed an operation for the first time since."""
        completed = self.bed.operations.history[w].completed[: int(self.bed.operations.lines.operations[w])]
        return int(completed[completed > since].min(initial=self.bed.now))

    def _end(self) -> None:
        for session in self.sessions:
            session.killed = True
        for task in self.tasks:
            task.cancel()
        self.clock.run_due(self.clock.now)
        self.clock.close()
