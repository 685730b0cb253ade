"""The hot set at both levels for the judge: a key is at one of its server's two homes, or at the server.

Home 0 is the server's leaf, and home 1 a spine. A worker has a window for each. What it takes for cold goes
by way of home 0, and what is refused there or at home 1 goes by way of the other home next. A key moves from
one home to the other by way of the server, which gives a home no key that the other one has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hotline_allreduce.judge.description import JudgedSystem, Violation
from hotline_allreduce.judge.engine import Judge, PacketFault
from hotline_allreduce.judge.hotset import HotHome, HotSetDescription, Windows
from hotline_allreduce.judge.hotset_rules import (
    HOT,
    KEYS,
    HotOp,
    HotRpc,
    HotServerModel,
    HotSwitchModel,
    HotWorker,
)

LEVELS = 2
MOVE_TO_THE_SPINE = (
    "key 0 is draining (home 0)",
    "the server takes key 0 (home 0)",
    "the server's pull of key 0 (home 0)",
    "the server's push of key 0 (home 0)",
    "key 0 is deleted (home 0)",
    "key 0 is reserved (home 1)",
    "the server gives key 0 (home 1)",
    "the server's push of key 0 (home 1)",
    "key 0 is hot (home 1)",
)
"""The steps of a move between homes."""


@dataclass
class LevelServerModel(HotServerModel):
    """What a server has to do with one of its homes: it shares all but `at_switch` with the other home's."""

    home: int = 0
    homes_of_keys: dict[int, int] = field(default_factory=dict)
    """The home of each key that one has, also while the key is being moved."""

    def is_at_another_home(self, key: int) -> bool:
        return self.homes_of_keys.get(key, self.home) != self.home

    def release(self, key: int) -> int:
        self.homes_of_keys[key] = self.home
        return super().release(key)

    def reclaim(self, key: int, value: int) -> None:
        super().reclaim(key, value)
        self.homes_of_keys.pop(key, None)

    def restore(self) -> None:
        """Own again the keys that the lost home had, and no other home."""
        for key in self.keys:
            self.values[key] += self.at_switch[key]
            self.at_switch[key] = 0
        lost = [key for key, home in self.homes_of_keys.items() if home == self.home]
        for key in lost:
            del self.homes_of_keys[key]
        self.owned.update(lost)


class LevelsDescription(HotSetDescription):
    """`places` has the home of each key in the beginning, or None for the server.

    `first_steps` precede each schedule, which may have another restart after one in them.
    """

    def __init__(
        self, workers: int = 2, window: int = 1, pushes: int = 1, moves: int = 0,
        places: Sequence[int | None] = (0, 1), first_steps: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(workers, window, pushes, moves, homes=LEVELS)
        self.name, self.places = "hotset at both levels", dict(zip(KEYS, places, strict=False))
        self.first_steps = first_steps

    def system(self) -> JudgedSystem:
        judge, system = Judge(self, frozenset({PacketFault.RESTARTED})), super().system()
        for step in self.first_steps:
            system = next(after for name, after in judge.steps(system) if name == step)
        system.happened.clear()
        return system

    def home_of(self, rpc: HotRpc) -> int:
        return rpc.home if rpc.caller < self.workers else super().home_of(rpc)

    def keys_of(self, home: int) -> tuple[int, ...]:
        return tuple(self.places)

    def first_keys_of(self, home: int) -> tuple[int, ...]:
        return tuple(key for key, place in self.places.items() if place == home)

    def keys_to_push(self, number: int, home: int) -> tuple[int, ...]:
        # A worker takes all keys for cold at first, and then knows their homes.
        way = {key: place if place and number else 0 for key, place in self.places.items()}
        return tuple(key for key in self.places if way[key] == home)

    def windows_of(self, worker: int) -> Windows:
        return [HotWorker(worker, self.window, home=home) for home in range(LEVELS)]

    def servers(self) -> list[HotServerModel]:
        owned = {key for key, place in self.places.items() if place is None}
        homes = {key: place for key, place in self.places.items() if place is not None}
        first = LevelServerModel(owned, keys=tuple(self.places), homes_of_keys=homes)
        shared = first.owned, first.values
        others = [
            LevelServerModel(*shared, last=first.last, keys=first.keys, home=home, homes_of_keys=homes)
            for home in range(1, LEVELS)
        ]
        return [first, *others]

    def _name_of(self, host: int, rpc: HotRpc) -> str:
        name = super()._name_of(host, rpc)
        return f"{name} (home {self.home_of(rpc)})" if host >= self.workers else name

    def at_host(self, system: JudgedSystem, host: int, packet: HotRpc) -> None:
        if host >= self.workers:
            super().at_host(system, host, packet)
            return
        homes = self.all_homes(system)
        home = self.home_of(packet)
        window = homes[home].windows[host]
        remaining = window.note(packet)
        window.send([])
        # What a question says was not added is pushed again to the same home, as it was never refused there.
        way = home if packet.op is HotOp.STATUS else 1 - home
        homes[way].windows[host].send(remaining)

    def _command(self, home: HotHome, is_leaving: bool) -> None:
        mover = home.mover
        assert mover.key is not None
        if not is_leaving and home.server.is_at_another_home(mover.key):
            # The server answers NOT_OWNED, and the controller deletes its entry.
            del home.switch.entries[mover.key]
            mover.key = None
        else:
            super()._command(home, is_leaving)

    # -- what is right

    def violations(self, system: JudgedSystem) -> Iterator[Violation]:
        """Yield WRONG also if workers find a key at two places, so that a pull has a part of its value."""
        if any(self._count_places(system, key) > 1 for key in self.places):
            yield Violation.WRONG
        else:
            yield from super().violations(system)

    def _count_places(self, system: JudgedSystem, key: int) -> int:
        switches: list[HotSwitchModel] = system.switch
        return int(key in system.server[0].owned) + sum(each.entries.get(key) == HOT for each in switches)

    def homes_by_server(self, system: JudgedSystem) -> list[list[HotHome]]:
        return [self.all_homes(system)]
