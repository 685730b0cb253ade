"""The state of a switch: all its tables and counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from finsy.proto import p4i
from google.protobuf import text_format

from controller.client import SwitchClient
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
    """Cells of each lane's counter `lane_stats`."""

    HIT = 0
    MISS = 1
    OVERFLOW = 2


RPC_OUTCOMES = tuple(outcome.name.lower() for outcome in RpcOutcome)


@cache
def drop_reasons() -> tuple[str, ...]:
    p4info = text_format.Parse(design(DEFAULT).p4info.read_text(), p4i.P4Info())
    members = p4info.type_info.serializable_enums["DropReason"].members
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
    lanes = [await switch.read_counter(f"aggregate_{lane:02d}.lane_stats") for lane in range(LANES)]
    # Counters may have spare cells, so `zip` is not strict.
    return Counters(
        rpcs=dict(zip(RPC_OUTCOMES, await switch.read_counter("rpcs"), strict=False)),
        drops=dict(zip(drop_reasons(), await switch.read_counter("drops"), strict=False)),
        lanes=tuple(LaneCounters(*(cells[event] for event in LaneEvent)) for cells in lanes),
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
    slots: defaultdict[int, list[int]] = defaultdict(list)
    for param in params:
        slots[param.lane].append(param.slot)
    pushes: dict[tuple[int, int], int] = {}
    for lane, lane_slots in slots.items():
        counts = await switch.read_counter_cells(f"aggregate_{lane:02d}.pushes", lane_slots)
        pushes |= {(lane, slot): count for slot, count in zip(lane_slots, counts, strict=True)}
    return [pushes[param.lane, param.slot] for param in params]
