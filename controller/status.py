"""The state of a switch, all its tables and counters, and the counters' rates between two readings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from controller.client import SwitchClient
from controller.schemas import schema_of
from controller.tables import CallerKind, HotParam, JobRow, KeyState, ServerRow, WorkerRow
from foundation.designs.registry import DEFAULT, design
from foundation.protocol.header import LANES


class RpcOutcome(IntEnum):
    """Cells of counter `rpcs`."""

    ANSWERED = 0  # requests that the switch answered itself
    FORWARDED = 1  # requests passed on to a server
    RELAYED = 2  # servers' answers passed on to callers
    DUPLICATES = 3
    """Requests that the switch had seen before, which are also counted as answered or forwarded."""


class LaneEvent(IntEnum):
    """Cells of each bank's counter `row_stats`, for the rows that begin at the bank."""

    HIT = 0
    MISS = 1
    OVERFLOW = 2


RPC_OUTCOMES = tuple(outcome.name.lower() for outcome in RpcOutcome)


@cache
def drop_reasons() -> tuple[str, ...]:
    members = schema_of(design(DEFAULT)).p4info.type_info.serializable_enums["DropReason"].members
    names = {int.from_bytes(member.value, "big"): member.name.lower() for member in members}
    return tuple(names[cell] for cell in range(len(names)))


@dataclass(frozen=True, slots=True)
class LaneCounters:
    hits: int
    misses: int
    overflows: int

    @property
    def hit_rate(self) -> float | None:
        lanes = self.hits + self.misses
        return self.hits / lanes if lanes else None


@dataclass(frozen=True, slots=True)
class Counters:
    """All counters of the pipeline, in packets since it was committed: by name, and by lane."""

    rpcs: dict[str, int]
    drops: dict[str, int]
    lanes: tuple[LaneCounters, ...]

    def all_lanes(self) -> LaneCounters:
        return LaneCounters(
            hits=sum(lane.hits for lane in self.lanes),
            misses=sum(lane.misses for lane in self.lanes),
            overflows=sum(lane.overflows for lane in self.lanes),
        )


@dataclass(frozen=True, slots=True)
class SwitchStatus:
    jobs: tuple[JobRow, ...]
    servers: tuple[ServerRow, ...]
    workers: tuple[WorkerRow, ...]
    params: tuple[HotParam, ...]
    counters: Counters

    def count_states(self, job: int) -> dict[str, int]:
        counts = Counter(param.state for param in self.params if param.job == job)
        return {state.value: counts[state] for state in KeyState}

    def callers(self, job: int) -> list[WorkerRow]:
        return [row for row in self.workers if row.job == job and row.kind == CallerKind.WORKER]

    def count_entries_by_lane(self) -> list[int]:
        counts = Counter(param.lane for param in self.params)
        return [counts[lane] for lane in range(LANES)]


async def read_counters(switch: SwitchClient) -> Counters:
    lane_names = [f"bank_{lane:02d}.row_stats" for lane in range(LANES)]
    cells = await switch.read_counters(["rpcs", "drops", *lane_names])
    # Counters may have spare cells, so `zip` is not strict.
    return Counters(
        rpcs=dict(zip(RPC_OUTCOMES, cells["rpcs"], strict=False)),
        drops=dict(zip(drop_reasons(), cells["drops"], strict=False)),
        lanes=tuple(LaneCounters(*(cells[name][event] for event in LaneEvent)) for name in lane_names),
    )


async def read_status(switch: SwitchClient) -> SwitchStatus:
    return SwitchStatus(
        jobs=tuple(await switch.read(JobRow)),
        servers=tuple(await switch.read(ServerRow)),
        workers=tuple(await switch.read(WorkerRow)),
        params=tuple(await switch.read(HotParam)),
        counters=await read_counters(switch),
    )


async def read_pushes(switch: SwitchClient, params: Sequence[HotParam]) -> list[int]:
    """Return, for each entry, how many pushes (no retransmissions) its slot has added, for any key."""
    return await switch.read_counter_cells(
        [(f"bank_{param.bank:02d}.pushes", param.slot) for param in params]
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters at one time, and their rates since the previous reading.

    Keys of `totals` and `per_s`: `rpcs_<outcome>`; `lanes` of workers' RPCs, without retransmissions, and
    the `hits` among them; `overflows`; `drops` and `drops_<reason>`.
    """

    at_s: float
    """Time of the reading on a monotonic clock, in s."""
    totals: dict[str, int]
    """Counts since the pipeline was committed."""
    hit_share: float | None
    """Share of lanes that hit: in the interval or, if it is None, since the commit; None without lanes."""
    interval_s: float | None = None  # time since the previous reading
    per_s: dict[str, float] | None = None
    """Counts per second over the interval; None for a first reading and after a reset."""
    was_reset: bool = False
    """Whether a counter decreased since the previous reading, because the pipeline was committed again."""


def take_reading(counters: Counters, at_s: float, previous: Reading | None = None) -> Reading:
    totals = _totals(counters)
    first_reading = Reading(at_s, totals, _hit_share(totals))
    if previous is None or at_s <= previous.at_s:
        return first_reading
    increases = {name: total - previous.totals[name] for name, total in totals.items()}
    if min(increases.values()) < 0:
        return Reading(at_s, totals, _hit_share(totals), was_reset=True)
    interval_s = at_s - previous.at_s
    per_s = {name: increase / interval_s for name, increase in increases.items()}
    return Reading(at_s, totals, _hit_share(increases), interval_s, per_s)


def _totals(counters: Counters) -> dict[str, int]:
    lanes = counters.all_lanes()
    return {
        **{f"rpcs_{outcome}": number for outcome, number in counters.rpcs.items()},
        "lanes": lanes.hits + lanes.misses,
        "hits": lanes.hits,
        "overflows": lanes.overflows,
        "drops": sum(counters.drops.values()),
        **{f"drops_{reason}": number for reason, number in counters.drops.items()},
    }


def _hit_share(counts: Mapping[str, int]) -> float | None:
    return counts["hits"] / counts["lanes"] if counts["lanes"] else None
