"""Schedules of faults: the workload, the network, and what is injected after how many RPCs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError

from experiment.run_config import Config
from foundation.designs.arms import fault_arms, is_lockstep, measured_arms
from foundation.designs.combination import Combination
from foundation.designs.interface import Arm, Design
from foundation.designs.registry import NAMES
from foundation.errors import HotlineError
from foundation.protocol.leaf_spine import HotSetPlace, LeafSpine
from foundation.protocol.rows import ONE_VALUE, RowRange, RowRanges
from foundation.settings import first_error

WORKERS, SERVERS, LEAVES = 3, 2, 2
RPCS = 200  # answered RPCs of the shortest schedule that is drawn


class FaultArms(dict[str, Arm]):
    """Arms by name; an arm of a design that is a module has the name MODULE:ARM.

    In a network of leaves and a spine, an arm whose hot sets are at PLACE has the name ARM@PLACE. With two
    spines, at which packets between leaves take turns, it has the name ARM@PLACE-sprayed.
    """

    def __missing__(self, name: str) -> Arm:
        if name in NETWORK_ARMS or name in SPRAYED_ARMS:
            return self[name.partition("@")[0]]
        module, _, arm_name = name.rpartition(":")
        for arm in measured_arms(module) if module else ():
            if arm.name == arm_name:
                return arm
        places = "".join(f"ARM@{place}, " for place in PLACES) + f"{', '.join(SPRAYED_ARMS)}, "
        raise HotlineError(
            f"expected arm ({', '.join(self)}), in a network {places}or MODULE:ARM of a design, got {name!r}"
        )


ARMS = FaultArms({arm.name: arm for name in NAMES if not is_lockstep(name) for arm in fault_arms(name)})
PLACES: tuple[HotSetPlace, ...] = get_args(HotSetPlace)
NETWORK_ARMS = tuple(
    f"{arm.name}@{place}"
    for place in PLACES
    for name in Config.designs_of_networks
    if not is_lockstep(name)
    for arm in fault_arms(name)
    if Config.design_of_place.get(place, name) == name
)
_SPRAYED, _SPINES = "-sprayed", 2
SPRAYED_ARMS = tuple(f"{arm}{_SPRAYED}" for arm in NETWORK_ARMS if arm.endswith("@worker-leaves"))
_MIXED_ROWS = tuple(map(RowRange._make, ((0, 1), (24, 4), (44, 16), (58, 64))))


def ranges_of(chosen_design: Design) -> RowRanges:
    """Return the dims of the rows that schedules are played on."""
    # Values of a row that are multiples of its first one show torn rows, if they are sums.
    has_sums = chosen_design.combination is Combination.ADD
    return _MIXED_ROWS if chosen_design.has_rows and has_sums else ONE_VALUE


def network_of(arm: str) -> LeafSpine | None:
    """Return the network of an arm of several switches; None for an arm at a single switch."""
    name = arm.removesuffix(_SPRAYED)
    place = next((each for each in PLACES if name.endswith(f"@{each}")), None)
    if place is None:
        return None
    network = LeafSpine(WORKERS, SERVERS, LEAVES, place)
    return network if name == arm else replace(network, spines=_SPINES, routing="spray")


@dataclass(frozen=True, slots=True)
class FaultInjection:
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")
    kind: str
    after: int
    """Number of RPCs that are answered before the injection."""
    duration_us: int
    target: int  # index of the worker, server, host, switch or uplink that the fault affects, from 0
    amount: int = 0
    """Extra delay of frames, µs; other kinds ignore it."""
    after_previous_us: int | None = None
    """Time after the previous injection, which replaces `after`; None means that `after` applies."""


@dataclass(frozen=True, slots=True)
class FaultSchedule:
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")
    fault: str
    arm: str
    seed: int
    rpcs: int = RPCS
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    extra_delay_us: int = 0  # maximum extra delay of a reordered frame
    delay_us: int = 5  # propagation delay of a cable
    think_us: int = 200  # maximum pause between two operations of a worker
    pulls: float = 0.3  # probability that an operation is a pull
    share: float = 0.2  # probability that an operation includes a given key
    hot: int = 24  # number of keys in the first hot set
    is_extreme: bool = False
    """Whether pushes have the extreme values of 32 bits; pulls are not judged then."""
    injections: tuple[FaultInjection, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> FaultSchedule:
        """Parse a schedule; raise `ValueError`, with the name of the field, for any other text."""
        try:
            schedule = TypeAdapter(cls).validate_json(text)
        except ValidationError as error:
            raise ValueError(first_error(error)) from None
        try:
            ARMS[schedule.arm]
        except HotlineError as error:
            raise ValueError(f"arm: {error}") from None
        return schedule
