"""The hot set for the judge: pushes of two keys, one at the switch, and the other at a server.

The rules are those of `p4src/hotset/exactly_once.p4` and of the server's `hosts.ps.rpcs.admit`: both keep the
turn of the last push of each slot of a worker's window. A worker reuses a slot once its push was answered.
Keys do not move here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hotline_allreduce.judge.description import SERVER, SWITCH, Description, Sendable, SentFrame, letter

HOT_KEY, COLD_KEY = 0, 1
KEYS = (HOT_KEY, COLD_KEY)
_COUNT_BITS = 2  # of an addend in a value, so that a push that is added twice shows
PushSlot = tuple[int, int]
"""A worker, and a slot of its window."""


class HotPush(NamedTuple):
    worker: int
    slot: int
    turn: int  # of the slot, from 1 on
    number: int  # among the worker's pushes
    served: tuple[int, ...] = ()  # keys that the switch has added


@dataclass
class HotSwitchModel:
    hot: set[int]
    values: dict[int, int] = field(default_factory=lambda: dict.fromkeys(KEYS, 0))
    last: dict[PushSlot, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """Turn, and keys that the switch has added, of the last push of each slot."""

    def take(self, push: HotPush, addend: int) -> tuple[int, ...] | None:
        """Return the keys that the switch has added of a push; None if it drops the packet."""
        turn, served = self.last.get((push.worker, push.slot), (0, ()))
        if push.turn == turn + 1:
            served = tuple(key for key in KEYS if key in self.hot)
            self.last[push.worker, push.slot] = push.turn, served
            for key in served:
                self.values[key] += addend
            return served
        # The first copy's keys: with today's, one that has become hot or cold since would be added again.
        return served if push.turn == turn and turn else None


@dataclass
class HotServerModel:
    values: dict[int, int] = field(default_factory=lambda: dict.fromkeys(KEYS, 0))
    last_turns: dict[PushSlot, int] = field(default_factory=dict)

    def take(self, push: HotPush, addend: int) -> bool:
        """Add what the switch has not; return whether the push is answered."""
        last_turn = self.last_turns.get((push.worker, push.slot), 0)
        if push.turn > last_turn:
            self.last_turns[push.worker, push.slot] = push.turn
            for key in set(KEYS) - set(push.served):
                self.values[key] += addend
        return push.turn >= last_turn


@dataclass
class HotHost:
    outstanding: dict[int, HotPush]  # by slot
    answered: list[HotPush] = field(default_factory=list)
    sent: int = 0


class HotSetDescription(Description):
    name = "hotset"
    check = False

    def __init__(self, workers: int = 2, window: int = 2, pushes: int = 3) -> None:
        self.workers, self.window, self.pushes = workers, window, pushes

    def nodes(self) -> Sequence[Any]:
        return [HotSwitchModel({HOT_KEY}), HotServerModel()]

    def host(self, worker: int) -> HotHost:
        host = HotHost({})
        for slot in range(min(self.window, self.pushes)):
            self._push(host, worker, slot, turn=1)
        return host

    def _push(self, host: HotHost, worker: int, slot: int, turn: int) -> None:
        host.outstanding[slot] = HotPush(worker, slot, turn, host.sent)
        host.sent += 1

    def addend(self, push: HotPush) -> int:
        return 1 << _COUNT_BITS * (push.worker * self.pushes + push.number)

    def sendable(self, worker: int, host: HotHost) -> Iterator[Sendable]:
        for is_late, pushes in ((True, host.answered), (False, list(host.outstanding.values()))):
            for push in pushes:
                yield Sendable(f"{letter(worker)}{push.number} (slot {push.slot})", push, is_late)

    def at_node(self, nodes: Sequence[Any], index: int, packet: HotPush) -> list[SentFrame]:
        addend = self.addend(packet)
        if index == SERVER:
            return [SentFrame(True, packet.worker, packet)] if nodes[SERVER].take(packet, addend) else []
        served = nodes[SWITCH].take(packet, addend)
        if served is None:
            return []
        if set(served) == set(KEYS):
            return [SentFrame(True, packet.worker, packet)]
        return [SentFrame(False, SERVER, packet._replace(served=served))]

    def at_host(self, host: HotHost, packet: HotPush) -> None:
        push = packet._replace(served=())
        if host.outstanding.get(push.slot) != push:
            return
        host.answered.append(push)
        del host.outstanding[push.slot]
        if host.sent < self.pushes:
            self._push(host, push.worker, push.slot, push.turn + 1)

    def results(self, host: HotHost) -> Mapping[Any, int]:
        return {}  # pushes return no sums

    def expected_sum(self, chunk: Any) -> int:
        raise AssertionError(f"no sum {chunk} is returned")

    def wrong_chunks(self, nodes: Sequence[Any], hosts: Sequence[HotHost]) -> set[int]:
        """Return the keys to which an answered push is not added once, or another one more than once."""
        wrong = set()
        for key in KEYS:
            total = nodes[SWITCH].values[key] + nodes[SERVER].values[key]
            for worker, host in enumerate(hosts):
                answered = {push.number for push in host.answered}
                for number in range(self.pushes):
                    bits = _COUNT_BITS * (worker * self.pushes + number)
                    count = total >> bits & (1 << _COUNT_BITS) - 1
                    if count > 1 or (number in answered and count != 1):
                        wrong.add(key)
        return wrong

    def is_done(self, host: HotHost) -> bool:
        return len(host.answered) == self.pushes

    def node_lines(self, nodes: Sequence[Any]) -> Iterator[str]:
        for name, node in (("switch", nodes[SWITCH]), ("server", nodes[SERVER])):
            for key in KEYS:
                yield f"{name}, key {key}: {self.addends_of(node.values[key])}"
        for (worker, slot), (turn, served) in sorted(nodes[SWITCH].last.items()):
            keys = ", ".join(map(str, served)) or "none"
            yield f"switch, worker {letter(worker)}, slot {slot}: turn {turn}, added keys {keys}"

    def addends_of(self, total: int) -> str:
        names = [
            f"{letter(worker)}{number}"
            for worker in range(self.workers)
            for number in range(self.pushes)
            for _ in range(total >> _COUNT_BITS * (worker * self.pushes + number) & (1 << _COUNT_BITS) - 1)
        ]
        return " + ".join(names) or "nothing"

    def host_line(self, host: HotHost) -> str:
        waits = [f"{letter(push.worker)}{push.number}" for push in host.outstanding.values()]
        return f"waits for {', '.join(waits)}" if waits else "all pushes are answered"
