"""Somebody's own log or training set as a point of the map."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foundation.logs.libsvm import SAMPLES_PER_STEP
from hosts.workload import files
from studies.paper.costs import Costs
from studies.paper.map import TITLES, Place, change
from studies.paper.packing import TOP_SHARE, Packed, pack_trace, skew_of

_SERVERS = 2


@dataclass(frozen=True, slots=True)
class OwnPlace(Place):
    """With its own packing, which is of its own keys."""

    packed: Packed

    def changes(self, costs: Costs) -> dict[str, float]:
        """What offload would change of each metric, in parts."""
        return {title: change(what, self.packed, costs) for what, title in TITLES.items()}


def place_of(data: Path) -> OwnPlace:
    """Of an update log (iteration, worker, key) or a libsvm training set; raises `DataError`."""
    trace = files.load(data, 1, SAMPLES_PER_STEP)
    packed = pack_trace(trace, max(1, round(TOP_SHARE * trace.space.size)), _SERVERS)
    return OwnPlace(data.name, skew_of(trace), packed.keys, packed)
