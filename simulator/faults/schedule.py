"""Schedules: what strikes when. They are drawn from seeds, or read from files."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from foundation.designs.arms import fault_arms, renamed_arm
from foundation.designs.interface import Arm
from foundation.designs.registry import NAMES, design

WORKERS, SERVERS = 3, 2
RPCS = 200
"""That are answered at least."""
ARMS = {arm.name: arm for name in NAMES if not design(name).is_lockstep for arm in fault_arms(name)}
"""Of the designs that come along, but those whose workers push together (`simulator.dense`)."""


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
    extra_delay_us: int = 0
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
        given = json.loads(text)
        if message := renamed_arm([given["arm"]]):
            raise ValueError(message)
        return cls(**{**given, "strikes": tuple(Strike(**each) for each in given["strikes"])})
