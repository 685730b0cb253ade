"""Plain models of the hot set's rules: exactly once at switch and server, moves of keys, and recovery.

The rules are those of `p4src/hotset` (`exactly_once.p4`, `lane_lookup.p4`, `identify.p4`), of the server's
`hotline_agents.hotset.ps` (`rpc`, `store`, `moves`), and of the worker's
`hotline_agents.hotset.worker.recovery`. Switch and server keep the turn of the last RPC of each slot of a
caller's window, and which keys it has added. A caller reuses a slot once its RPC was answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

HOT_KEY, COLD_KEY = 0, 1
KEYS = (HOT_KEY, COLD_KEY)
HOT, RESERVED, DRAINING = "hot", "reserved", "draining"  # states of entries
Deltas = tuple[tuple[int, int], ...]
"""Key and delta."""
LIVES = 100
"""Epochs of each switch, of which each worker that has a rank takes one."""
REPLAY = -1  # instead of a push's number: deltas that a lost switch had added


class HotOp(Enum):
    PUSH = "push"
    PULL = "pull"
    STATUS = "status"
    """Asks the server which keys of a push it has added."""


class HotRpc(NamedTuple):
    caller: int
    epoch: int
    slot: int
    turn: int  # of the slot, from 1 on
    op: HotOp
    number: int = 0  # of a push, among those of its caller
    deltas: Deltas = ()
    queried: tuple[int, int, int] = (0, 0, 0)  # epoch, slot and turn of the push that a STATUS asks about
    served: tuple[int, ...] = ()  # keys that the switch has added, or read
    added: tuple[int, ...] = ()  # keys that the server has added
    home: int = 0  # that an RPC passes, if its server has several

    @property
    def keys(self) -> tuple[int, ...]:
        return tuple(key for key, _ in self.deltas)

    def is_answered_by(self, answer: HotRpc) -> bool:
        return self[:4] == answer[:4]


def zeros() -> dict[int, int]:
    return dict.fromkeys(KEYS, 0)


@dataclass
class HotSwitchModel:
    entries: dict[int, str] = field(default_factory=dict)
    """State of each key that has an entry."""
    mover: int = -1  # the caller for which entries that are not hot hit, too
    epoch: int = 1  # of all callers that have none of their own
    epochs: dict[int, int] = field(default_factory=dict)
    """Caller -> its epoch, if a worker has taken the rank of a killed one."""
    values: dict[int, int] = field(default_factory=zeros)
    last: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """Turn, and keys served, of the last RPC by caller and slot."""
    accepts_gaps: bool = False
    """Whether any later turn of a slot is a new RPC, and not only the next one."""

    def take(self, rpc: HotRpc) -> tuple[int, ...] | None:
        """Return the keys that the switch has served of an RPC; None if it drops the packet."""
        turn, served = self.last.get((rpc.caller, rpc.slot), (0, ()))
        if rpc.epoch != self.epoch_of(rpc.caller):
            return None
        if rpc.turn == turn + 1 or (self.accepts_gaps and rpc.turn > turn):
            served = self._hits(rpc)
            self.last[rpc.caller, rpc.slot] = rpc.turn, served
            for key, delta in rpc.deltas if rpc.op is HotOp.PUSH else ():
                self.values[key] += delta if key in served else 0
            return served
        if rpc.turn != turn or turn == 0:
            return None
        # The first copy's keys: with today's, one that has become hot or cold since would be added again.
        return served if rpc.op is HotOp.PUSH else self._hits(rpc)

    def admit(self, caller: int, epoch: int) -> None:
        """Take RPCs of a caller in this epoch only; what cells have of an earlier one counts no more."""
        self.epochs[caller] = epoch
        self.last = {place: cell for place, cell in self.last.items() if place[0] != caller}

    def epoch_of(self, caller: int) -> int:
        return self.epochs.get(caller, self.epoch)

    def _hits(self, rpc: HotRpc) -> tuple[int, ...]:
        hitting = (HOT, RESERVED, DRAINING) if rpc.caller == self.mover else (HOT,)
        keys = () if rpc.op is HotOp.STATUS else rpc.keys  # a STATUS has no lanes
        return tuple(key for key in keys if self.entries.get(key) in hitting)


@dataclass
class HotServerModel:
    owned: set[int]
    values: dict[int, int] = field(default_factory=zeros)
    at_switch: dict[int, int] = field(default_factory=zeros)
    """What the switch was given of each key, less what came back."""
    last: dict[tuple[int, int, int], tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """Turn, and keys added, of the last RPC by caller, epoch and slot."""
    keys: tuple[int, ...] = KEYS

    def take(self, rpc: HotRpc) -> tuple[int, ...] | None:
        """Return the keys that the server has added of a push; None if an RPC is not answered."""
        place = rpc.caller, rpc.epoch, rpc.slot
        turn, added = self.last.get(place, (0, ()))
        if rpc.turn < turn or (rpc.op is HotOp.STATUS and rpc.queried[0] >= rpc.epoch):
            return None  # late, or a question about an epoch that is not earlier
        answer = self._close(rpc) if rpc.op is HotOp.STATUS else None
        if rpc.turn > turn:
            added = ()
            if rpc.op is HotOp.PUSH:
                added = tuple(key for key in rpc.keys if key in self.owned and key not in rpc.served)
                for key, delta in rpc.deltas:
                    self.values[key] += delta if key in added else 0
            self.last[place] = rpc.turn, added
        return added if answer is None else answer

    def _close(self, rpc: HotRpc) -> tuple[int, ...]:
        """Return which keys of a push were added; if it comes later, none of them is."""
        epoch, slot, turn = rpc.queried
        place = rpc.caller, epoch, slot
        if self.last.get(place, (0, ()))[0] < turn:
            self.last[place] = turn, ()
        last_turn, added = self.last[place]
        return added if last_turn == turn else ()

    def is_at_another_home(self, key: int) -> bool:
        """Return whether another home of the server has a key."""
        return False

    def release(self, key: int) -> int:
        """Give up a key, and return its value."""
        value, self.values[key] = self.values[key], 0
        self.owned.remove(key)
        self.at_switch[key] += value
        return value

    def reclaim(self, key: int, value: int) -> None:
        self.values[key] += value
        self.owned.add(key)
        self.at_switch[key] -= value

    def restore(self) -> None:
        """Own all keys again, after the switch was lost with its values."""
        for key in self.keys:
            self.values[key] += self.at_switch[key]
        self.owned, self.at_switch = set(self.keys), zeros()


@dataclass
class HotCaller:
    """A caller's window: RPCs wait in a queue for a free slot."""

    caller: int
    window: int
    epoch: int = 1
    queue: list[HotRpc] = field(default_factory=list)
    turns: dict[int, int] = field(default_factory=dict)
    """Last turn of each slot."""
    outstanding: dict[int, HotRpc] = field(default_factory=dict)
    """The RPC that each slot of the window waits for."""
    earlier: list[HotRpc] = field(default_factory=list)
    """RPCs of which only copies can be on their way."""
    home: int = 0
    """The home that its RPCs pass, if their server has several."""

    @property
    def slots(self) -> range:
        """A caller's windows to the same server have different slots."""
        return range(self.home * self.window, (self.home + 1) * self.window)

    def send(self, rpcs: Iterable[HotRpc]) -> None:
        self.queue += rpcs
        for slot in self.slots:
            if self.queue and slot not in self.outstanding:
                turn = self.turns[slot] = self.turns.get(slot, 0) + 1
                rpc = self.queue.pop(0)._replace(epoch=self.epoch, slot=slot, turn=turn, home=self.home)
                self.outstanding[slot] = rpc

    def take(self, answer: HotRpc) -> HotRpc | None:
        """Return the RPC that is answered; None if none is."""
        rpc = self.outstanding.get(answer.slot)
        if rpc is None or not rpc.is_answered_by(answer):
            return None
        self.earlier.append(self.outstanding.pop(answer.slot))
        return rpc

    def renew(self, epoch: int) -> list[HotRpc]:
        """Continue with another switch; return the RPCs that the last one has not answered."""
        unanswered = list(self.outstanding.values())
        self.earlier += unanswered
        self.outstanding, self.turns, self.epoch = {}, {}, epoch
        return unanswered


@dataclass
class HotWorker(HotCaller):
    acknowledged: set[tuple[int, int]] = field(default_factory=set)
    """Number of a push, and a key of it."""
    log: dict[int, int] = field(default_factory=dict)
    """Sum of what the switch has acknowledged, by key."""
    is_successor: bool = False
    """Whether it ends the RPCs of a killed worker, in that one's epoch, and sends no others."""

    @property
    def is_replaying(self) -> bool:
        return any(rpc.number == REPLAY for rpc in (*self.queue, *self.outstanding.values()))

    def send(self, rpcs: Iterable[HotRpc]) -> None:
        if self.is_successor:
            self.queue += rpcs
        else:
            super().send(rpcs)

    def answer(self, answer: HotRpc) -> None:
        self.send(self.note(answer))

    def note(self, answer: HotRpc) -> list[HotRpc]:
        """Note what an answer acknowledges; return a push of the other keys, if there are some."""
        rpc = self.take(answer)
        if rpc is None:
            return []
        for key, delta in rpc.deltas:
            if key in answer.served:
                self.log[key] = self.log.get(key, 0) + delta
        done = {*answer.served, *answer.added}
        self.acknowledged |= {(rpc.number, key) for key in done if rpc.number != REPLAY}
        remaining = tuple((key, delta) for key, delta in rpc.deltas if key not in done)
        return [rpc._replace(op=HotOp.PUSH, deltas=remaining)] if remaining else []

    def succeed(self) -> None:
        """Become the worker that takes the killed one's rank, with its files."""
        self.is_successor = True

    def take_part(self, epoch: int) -> None:
        """Send what the killed worker had not sent, when its RPCs are answered."""
        self.renew(epoch)
        self.is_successor = False
        waiting, self.queue = self.queue, []
        self.send(waiting)

    def recover(self, epoch: int, lost: tuple[int, ...] = KEYS) -> None:
        """Ask the server about unanswered pushes, and push again what the lost switch had acknowledged.

        `lost` has the keys whose values the switch may have had. A successor does not ask: it leaves the
        pushes of the killed worker unknown.
        """
        queries = [
            rpc._replace(op=HotOp.STATUS, queried=(rpc.epoch, rpc.slot, rpc.turn))
            for rpc in self.renew(epoch)
        ]
        if self.is_successor:
            queries, self.is_successor = [], False
        log = tuple(sorted((key, delta) for key, delta in self.log.items() if key in lost))
        self.log = {key: delta for key, delta in self.log.items() if key not in lost}
        replay = [HotRpc(self.caller, epoch, 0, 0, HotOp.PUSH, REPLAY, log)] if log else []
        waiting, self.queue = self.queue, []
        self.send([*queries, *replay, *waiting])
