"""Schedules: what strikes when, drawn from a seed, or read from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any

from designs import hotset
from designs.arms import measured
from designs.interface import Arm
from protocol.addressing import SWITCH_NAME
from simulator.faults.kills import Kill, draw_kills

WORKERS, SERVERS = 3, 2
RPCS = 200
"""That are answered at least."""
ARMS = {arm.name: arm for arm in measured(hotset.NAME) if arm.settings.aggregates}


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault of a kind of `simulator.faults.strikes`."""

    kind: str
    after: int
    """RPCs that are answered before it strikes."""
    lasts_us: int
    who: int
    """Whom it hits: a host, a worker or a server, from 0 on."""
    amount: int = 0
    """µs that frames come later; or until the controller dies, or the next one comes."""
    behind_us: int | None = None
    """After the strike before, rather than after RPCs."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """One history's conditions; all that is random in it follows from `seed`."""

    fault: str
    arm: str
    seed: int
    rpcs: int = RPCS
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    late_us: int = 0
    delay_us: int = 5
    think_us: int = 200
    pulls: float = 0.3
    share: float = 0.2
    """Of the keys, in each operation."""
    hot: int = 24
    """Keys in the switch at first."""
    is_extreme: bool = False
    """Pushes have the extreme values of 32 bits; pulls are not judged then."""
    strikes: tuple[Strike, ...] = ()

    @property
    def of_arm(self) -> Arm:
        """The arm of that name."""
        return ARMS[self.arm]

    def to_json(self) -> str:
        """As a file has it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Schedule:
        """What `to_json` has written."""
        given: dict[str, Any] = json.loads(text)
        return cls(**{**given, "strikes": tuple(Strike(**each) for each in given["strikes"])})


FAULTS: Mapping[str, str] = {
    "loss": "frames are lost, 1 to 30 %",
    "duplication": "frames come twice, 1 to 30 %",
    "reordering": "frames come up to 5 ms later, 1 to 30 %",
    "delay": "a host's cable takes up to 50 ms longer for a while",
    "link": "a host's cable is down for a while",
    "worker killed": "a worker dies",
    "worker restarted": "a worker dies and comes back",
    "server restarted": "a parameter server dies and comes back, by its journal",
    "switch restarted": "the switch comes back with empty tables and registers",
    "controller killed": "a controller dies while it moves keys",
    "second controller": "another controller becomes primary while one moves keys",
    "hot set": "the hot set changes",
    "disk full": "a parameter server's disk is full for a while",
    "kills": "processes are killed one after the other, also while a switch is restored",
    "everything": "several of these, on a bad network",
}
"""Fault -> what it is."""
ON_THE_WAY = ("loss", "duplication", "reordering")
"""Faults of the whole network, from the beginning to the end."""
_MOST_AT_ONCE = 3


def draw(fault: str, arm: str, seed: int) -> Schedule:
    """The schedule of a fault with a seed."""
    random = Random(f"{fault} {arm} {seed}")
    schedule = Schedule(
        fault, arm, random.getrandbits(62),
        rpcs=RPCS + random.randrange(60),
        delay_us=random.choice([1, 5, 20]), late_us=random.choice([50, 500, 5_000]),
        think_us=random.choice([50, 200, 600]), pulls=random.choice([0.1, 0.4]),
        share=random.choice([0.1, 0.2, 0.4]), hot=random.choice([8, 24, 40]),
        is_extreme=random.random() < 0.25,
    )  # fmt: skip
    rates: dict[str, Any]
    if fault in ON_THE_WAY:
        rates = {fault: random.choice([0.01, 0.05, 0.1, 0.3])}
        return replace(schedule, **rates)
    if fault == "kills":
        return replace(schedule, strikes=tuple(_strikes_of(draw_kills(seed, WORKERS, SERVERS), random)))
    if fault != "everything":
        return replace(schedule, strikes=(_strike(fault, random),))
    several = (*ON_THE_WAY, "everything", "kills", "worker killed")
    kinds = [kind for kind in FAULTS if kind not in several]
    strikes = [_strike(random.choice(kinds), random) for _ in range(random.randint(2, _MOST_AT_ONCE))]
    rates = {kind: random.choice([0.0, 0.01, 0.1]) for kind in ON_THE_WAY}
    return replace(schedule, strikes=tuple(sorted(strikes, key=lambda each: each.after)), **rates)


def _strike(kind: str, random: Random) -> Strike:
    of = {
        "delay": WORKERS + SERVERS,
        "link": WORKERS + SERVERS,
        "worker killed": WORKERS,
        "worker restarted": WORKERS,
    }
    return Strike(
        kind,
        after=random.randrange(20, RPCS - 60),
        lasts_us=random.choice([300, 300, 3_000, 3_000, 30_000]) + random.randrange(300),
        who=random.randrange(of.get(kind, SERVERS)),
        amount=random.choice([300, 3_000, 50_000]) if kind == "delay" else random.randrange(2_500),
    )


def _strikes_of(kills: Sequence[Kill], random: Random) -> Iterator[Strike]:
    """The same kills in virtual time."""
    behind: int | None = None
    for kill in kills:
        name, _, number = kill.who.partition("-")
        kind = _KILLED[name]
        first = 1 if name == "worker" else 0
        yield Strike(
            kind,
            after=random.randrange(20, RPCS - 60),
            lasts_us=random.randrange(300, 2_000),
            who=int(number or 0) - first,
            behind_us=behind,
        )
        behind = round(kill.gap * _RESTORED_US)


_KILLED = {SWITCH_NAME: "switch restarted", "ps": "server restarted", "worker": "worker killed"}
_RESTORED_US = 5_000
"""In which a switch is restored here."""
