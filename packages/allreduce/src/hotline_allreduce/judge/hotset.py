"""The hot set for the judge: pushes of two keys, which the controller moves between the switch and a server.

A controller's command to the server is one event, as are its writes to the switch; what the server then reads
and adds at the switch are packets, which can be lost, copied and late as those of workers. After a restart of
the switch, events are the steps of its recovery.

In a network of switches (decision 29, docs/decisions/networks.md), each key has a server, whose home switch
alone serves the key. A caller has a window for each home, and an RPC has the keys of one home. Servers are
connected to their home switches, so a frame that is lost between two switches is a packet or an answer of a
worker, which are lost anyway. With one window over all homes, a restart of one of them renews the window's
epoch at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from hotline_allreduce.judge.description import (
    SERVER,
    Description,
    Event,
    JudgedSystem,
    Sendable,
    SentFrame,
    Violation,
    death_of,
    letter,
)
from hotline_allreduce.judge.hotset_rules import (
    DRAINING,
    HOT,
    KEYS,
    LIVES,
    REPLAY,
    RESERVED,
    HotCaller,
    HotOp,
    HotRpc,
    HotServerModel,
    HotSwitchModel,
    HotWorker,
)


@dataclass
class HotMover(HotCaller):
    """The server's moves of keys, and the controller."""

    moves: int = 0  # that the controller may still begin
    key: int | None = None  # that is being moved
    has_moved: bool = False  # whether the value is where it goes


Windows = list[HotWorker]
"""A worker: its window of each home, or one for all homes."""


class HotHome(NamedTuple):
    """A home switch, and what belongs to it."""

    number: int
    keys: tuple[int, ...]
    switch: HotSwitchModel
    server: HotServerModel
    mover: HotMover
    windows: Windows
    """Of each worker, that of this home."""

    def is_late(self, caller: HotCaller) -> bool:
        return caller.epoch != self.switch.epoch_of(caller.caller)


class HotSetDescription(Description):
    def __init__(
        self, workers: int = 2, window: int = 2, pushes: int = 3, moves: int = 0,
        has_successors: bool = False, homes: int = 1, has_window_by_home: bool = True,
        accepts_gaps: bool = False,
    ) -> None:  # fmt: skip
        self.workers, self.window, self.moves, self.chunks = workers, window, moves, range(pushes)
        self.has_successors, self.homes, self.accepts_gaps = has_successors, homes, accepts_gaps
        self.has_window_by_home = has_window_by_home
        self.name = "hotset" if homes == 1 else "hotset in a network"

    # -- homes

    def keys_of(self, home: int) -> tuple[int, ...]:
        """Return the keys of a home's server."""
        return KEYS if self.homes == 1 else (KEYS[home],)

    def first_keys_of(self, home: int) -> tuple[int, ...]:
        """Return the keys that a home has in the beginning."""
        return self.keys_of(home)[:1]

    def keys_to_push(self, number: int, home: int) -> tuple[int, ...]:
        """Return the keys of a push that workers send by way of a home at first."""
        return self.keys_of(home)

    def home_of(self, rpc: HotRpc) -> int:
        if rpc.caller >= self.workers:
            return rpc.caller - self.workers
        return next(home for home in range(self.homes) if rpc.keys[0] in self.keys_of(home))

    def home(self, system: JudgedSystem, number: int) -> HotHome:
        window = number if self.has_window_by_home else 0
        windows = [worker[window] for worker in system.hosts[: self.workers]]
        mover = system.hosts[self.workers + number]
        parts = system.switch[number], system.server[number], mover, windows
        return HotHome(number, self.keys_of(number), *parts)

    def all_homes(self, system: JudgedSystem) -> list[HotHome]:
        return [self.home(system, number) for number in range(self.homes)]

    def system(self) -> JudgedSystem:
        homes = range(self.homes)
        workers = [self.windows_of(worker) for worker in range(self.workers)]
        movers = [HotMover(self.workers + home, window=1, moves=self.moves) for home in homes]
        switches = [
            HotSwitchModel(
                dict.fromkeys(self.first_keys_of(mover.caller - self.workers), HOT),
                mover.caller,
                accepts_gaps=self.accepts_gaps,
            )
            for mover in movers
        ]
        system = JudgedSystem(switches, [*workers, *movers], self.servers())
        for number in self.chunks:
            for home in self.all_homes(system):
                keys = self.keys_to_push(number, home.number)
                for window in home.windows if keys else ():
                    addend = self.addend(window.caller, number)
                    deltas = tuple((key, addend) for key in keys)
                    window.queue.append(HotRpc(window.caller, 1, 0, 0, HotOp.PUSH, number, deltas))
        for windows in workers:
            for window in windows:
                window.send([])
        return system

    def windows_of(self, worker: int) -> Windows:
        return [HotWorker(worker, self.window) for _ in range(self.homes if self.has_window_by_home else 1)]

    def servers(self) -> list[HotServerModel]:
        """Return the server of each home."""
        keys = [self.keys_of(home) for home in range(self.homes)]
        return [HotServerModel(set(home_keys[1:]), keys=home_keys) for home_keys in keys]

    # -- packets

    def sendable(self, host: int, state: Windows | HotMover) -> Iterator[Sendable]:
        for caller in [state] if isinstance(state, HotMover) else state:
            for is_late, rpcs in ((True, caller.earlier), (False, list(caller.outstanding.values()))):
                for rpc in rpcs:
                    yield Sendable(self._name_of(host, rpc), rpc, is_late)

    def _name_of(self, host: int, rpc: HotRpc) -> str:
        if host >= self.workers:
            return f"the server's {rpc.op.value} of key {rpc.keys[0]}"
        place = f"slot {rpc.slot}" if self.homes == 1 else f"slot {rpc.slot}, home {self.home_of(rpc)}"
        name = f"{letter(host)}{'*' if rpc.number == REPLAY else rpc.number} ({place})"
        return f"question about {name}" if rpc.op is HotOp.STATUS else name

    def at_switch(self, system: JudgedSystem, packet: HotRpc) -> list[SentFrame]:
        if not self.passes_transit(system, packet):
            return []
        served = system.switch[self.home_of(packet)].take(packet)
        if served is None:
            return []
        if packet.op is HotOp.PULL:
            values = tuple((key, system.switch[self.home_of(packet)].values[key]) for key in served)
            packet = packet._replace(deltas=values)
        is_answer = packet.caller >= self.workers or set(served) == set(packet.keys)
        return [SentFrame(packet.caller if is_answer else SERVER, packet._replace(served=served))]

    def passes_transit(self, system: JudgedSystem, packet: HotRpc) -> bool:
        """Return whether switches on the way to the home pass a packet on: always, and without a change."""
        return True

    def at_server(self, system: JudgedSystem, packet: HotRpc) -> list[SentFrame]:
        added = system.server[self.home_of(packet)].take(packet)
        return [] if added is None else [SentFrame(packet.caller, packet._replace(added=added))]

    def at_host(self, system: JudgedSystem, host: int, packet: HotRpc) -> None:
        home = self.home(system, self.home_of(packet))
        if host >= self.workers:
            self._at_mover(home, packet)
        else:
            home.windows[host].answer(packet)

    def _at_mover(self, home: HotHome, answer: HotRpc) -> None:
        mover = home.mover
        rpc = mover.take(answer)
        if rpc is None:
            return
        [(key, value)] = answer.deltas
        if rpc.op is HotOp.PULL:
            mover.send([rpc._replace(op=HotOp.PUSH, deltas=((key, -value),))])
            return
        if home.switch.entries[key] == DRAINING:
            home.server.reclaim(key, -value)
        mover.has_moved = True

    # -- the controller

    def events(self, system: JudgedSystem) -> dict[str, Event]:
        found = self._successions(system)
        for home in self.all_homes(system):
            found |= self._named(home, self._controller_events(system, home))
        return found

    def _named(self, home: HotHome, events: Mapping[str, Event]) -> dict[str, Event]:
        place = "" if self.homes == 1 else f" (home {home.number})"
        return {f"{name}{place}": event for name, event in events.items()}

    def _successions(self, system: JudgedSystem) -> dict[str, Event]:
        found: dict[str, Event] = {}
        for worker in range(self.workers if self.has_successors else 0):
            name = letter(worker)
            if death_of(worker) in system.happened:
                found[f"a successor of {name} begins"] = partial(self._succeed, system, worker)
                continue
            for home in self.all_homes(system):
                window = home.windows[worker]
                if window.is_successor and not window.outstanding and not home.is_late(window):
                    event = partial(self._take_part, home, window)
                    found |= self._named(home, {f"the successor of {name} takes part": event})
        return found

    def _succeed(self, system: JudgedSystem, worker: int) -> None:
        system.happened.discard(death_of(worker))
        for window in system.hosts[worker]:
            window.succeed()

    def _take_part(self, home: HotHome, window: HotWorker) -> None:
        home.switch.admit(window.caller, window.epoch + 1)
        window.take_part(window.epoch + 1)

    def _controller_events(self, system: JudgedSystem, home: HotHome) -> dict[str, Event]:
        switch, mover = home.switch, home.mover
        late_windows = [
            window
            for window in home.windows
            if window.epoch < switch.epoch
            and not (self.has_successors and death_of(window.caller) in system.happened)
        ]
        if mover.epoch != switch.epoch:
            return {"the server takes back its values": partial(self._renew, home)}
        if late_windows:
            [window, *_] = late_windows
            return {f"{letter(window.caller)} recovers": partial(self._recover, system, home, window)}
        if mover.key is None:
            states = {
                key: DRAINING if key in switch.entries else RESERVED for key in home.keys if mover.moves
            }
            return {
                f"key {key} is {state}": partial(self._begin, home, key, state)
                for key, state in states.items()
            }
        is_leaving = switch.entries[mover.key] == DRAINING
        if mover.has_moved:
            state = "deleted" if is_leaving else HOT
            return {f"key {mover.key} is {state}": partial(self._finish, home, is_leaving)}
        if mover.outstanding:
            return {}
        verb = "takes" if is_leaving else "gives"
        return {f"the server {verb} key {mover.key}": partial(self._command, home, is_leaving)}

    def _renew(self, home: HotHome) -> None:
        mover = home.mover
        home.server.restore()
        mover.renew(home.switch.epoch)
        mover.key, mover.has_moved, mover.moves = None, False, mover.moves + 1  # the key may come back

    def _recover(self, system: JudgedSystem, home: HotHome, window: HotWorker) -> None:
        window.recover(home.switch.epoch, home.keys)

    def _begin(self, home: HotHome, key: int, state: str) -> None:
        mover = home.mover
        mover.key, mover.moves, home.switch.entries[key] = key, mover.moves - 1, state

    def _command(self, home: HotHome, is_leaving: bool) -> None:
        mover = home.mover
        assert mover.key is not None
        value = 0 if is_leaving else home.server.release(mover.key)
        op = HotOp.PULL if is_leaving else HotOp.PUSH
        mover.send([HotRpc(mover.caller, mover.epoch, 0, 0, op, 0, ((mover.key, value),))])

    def _finish(self, home: HotHome, is_leaving: bool) -> None:
        mover = home.mover
        assert mover.key is not None
        if is_leaving:
            del home.switch.entries[mover.key]
        else:
            home.switch.entries[mover.key] = HOT
        mover.key, mover.has_moved = None, False

    def restarts(self, system: JudgedSystem) -> Mapping[str, Event]:
        if self.homes == 1:
            return {"the switch restarts": partial(self.restart_home, system, 0)}
        return {
            f"home {home} restarts": partial(self.restart_home, system, home) for home in range(self.homes)
        }

    def restart_home(self, system: JudgedSystem, home: int) -> None:
        lost: HotSwitchModel = system.switch[home]
        epoch = lost.epoch + LIVES
        system.switch[home] = HotSwitchModel({}, lost.mover, epoch, accepts_gaps=self.accepts_gaps)
        if not self.has_window_by_home:
            for switch in system.switch[:home] + system.switch[home + 1 :]:
                for caller in range(self.workers):
                    switch.admit(caller, epoch)

    # -- what is right

    def violations(self, system: JudgedSystem) -> Iterator[Violation]:
        """Yield WRONG if an acknowledged push is not added once to a key, or another one more than once."""
        for homes in self.homes_by_server(system):
            if any(map(self._is_recovering, homes)):
                continue
            if any(self._is_wrong(homes, key) for key in homes[0].keys):
                yield Violation.WRONG
                return

    def _is_recovering(self, home: HotHome) -> bool:
        is_late = any(home.is_late(caller) for caller in (*home.windows, home.mover))
        return is_late or any(window.is_replaying for window in home.windows)

    def homes_by_server(self, system: JudgedSystem) -> list[list[HotHome]]:
        return [[home] for home in self.all_homes(system)]

    def _is_wrong(self, homes: list[HotHome], key: int) -> bool:
        total = homes[0].server.values[key] + sum(self._total_at(home, key) for home in homes)
        for window in (window for home in homes for window in home.windows):
            for number in self.chunks:
                count = total // self.addend(window.caller, number) & 3
                if count > 1 or (count == 0 and (number, key) in window.acknowledged):
                    return True
        return False

    def _total_at(self, home: HotHome, key: int) -> int:
        """Return a home's value of a key, and what is on its way between home and server."""
        switch, mover = home.switch, home.mover
        total = switch.values[key] if key in switch.entries else 0
        for rpc in mover.outstanding.values():
            if rpc.op is HotOp.PUSH and rpc.keys == (key,):
                is_added = switch.last.get((rpc.caller, rpc.slot), (0, ()))[0] == rpc.turn
                is_leaving = switch.entries[key] == DRAINING
                total += rpc.deltas[0][1] * (not is_added) - rpc.deltas[0][1] * is_leaving
        return total

    def is_done(self, host: Windows | HotMover) -> bool:
        callers = [host] if isinstance(host, HotMover) else host
        return all(not caller.outstanding and not caller.queue for caller in callers) and (
            not isinstance(host, HotMover) or host.key is None
        )
