"""The α-β model of all-reduces that share a network.

Alone an all-reduce of s bytes takes α + β·s. While k of them transfer bytes, each takes β·f(k) per byte.
[ASC]'s authors plot α + 1.5·β·s for two at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from foundation.compiled import entry_point
from foundation.settings import Strict
from hotline_dense.layers import Layers, Values
from nativekit.compile import compiled
from nativekit.records import Ints

STARTUP, BYTES = 0, 1
"""Columns of `work`[k, 2]: µs of start-up and bytes that each all-reduce under way still has to do."""
MAX_AT_ONCE = 8


class AlphaBetaModel(Strict):
    """α, β and f(k) = 1 + sharing · (k - 1); the defaults are [ASC]'s for 8 nodes with 10GbE."""

    alpha_us: float = Field(default=1370.0, ge=0, le=1e7)
    """α: start-up time of an all-reduce."""
    beta_ns: float = Field(default=1.66, gt=0, le=1e6)
    """β: time per byte of an all-reduce, if no other all-reduce is running."""
    sharing: float = Field(default=0.5, ge=0, le=10)
    """With k concurrent all-reduces a byte takes 1 + SHARING·(k - 1) times as long; 1 is a link shared
    fairly, 0 no interference."""
    max_at_once: int = Field(default=2, ge=1, le=MAX_AT_ONCE)
    """Maximum number of concurrent all-reduces; f was measured for two."""

    @property
    def beta_us(self) -> float:
        return self.beta_ns / 1e3

    def describe(self) -> list[tuple[str, str]]:
        return [
            ("α, start-up", f"{self.alpha_us / 1e3:g} ms"),
            ("β", f"{self.beta_ns:g} ns a byte"),
            ("f(k), k at once", f"1 + {self.sharing:g} · (k - 1)"),
            ("at once, at most", f"{self.max_at_once}"),
        ]

    def uncontended_us(self, size: float) -> float:
        """Return the duration in µs of an all-reduce of `size` bytes without interference."""
        return self.alpha_us + self.beta_us * size


@dataclass(frozen=True, slots=True)
class GradientSchedule:
    """Gradients merged into buffers, each sent once it is ready and fewer than `at_once` are under way."""

    scheduler: str
    last_gradients: tuple[int, ...]
    """Last gradient of each buffer, numbered in the order in which gradients become ready."""
    at_once: int = 1


@dataclass(frozen=True, slots=True)
class ScheduleTiming:
    """The timing of a schedule of b buffers, in µs since backward began."""

    schedule: GradientSchedule
    sizes: NDArray[np.int64]
    """[b]: bytes of each buffer."""
    ready_times: NDArray[np.float64]
    start_times: NDArray[np.float64]
    end_times: NDArray[np.float64]
    """[b]: end of each buffer's all-reduce."""

    @property
    def end_us(self) -> float:
        return float(self.end_times.max())


def simulate(layers: Layers, network: AlphaBetaModel, schedule: GradientSchedule) -> ScheduleTiming:
    sizes, ready_times = buffers(layers, schedule)
    start_times, end_times = np.zeros(len(sizes)), np.zeros(len(sizes))
    _simulate(
        ready_times, sizes.astype(np.float64), schedule.at_once, constants(network), start_times, end_times
    )
    return ScheduleTiming(schedule, sizes, ready_times, start_times, end_times)


def buffers(layers: Layers, schedule: GradientSchedule) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the bytes[b] of a schedule's buffers and the times[b] in µs at which they are ready."""
    sizes, ready_times = layers.gradients()
    last_gradients = np.array(schedule.last_gradients)
    return np.diff(np.cumsum(sizes)[last_gradients], prepend=0), ready_times[last_gradients]


class Constants(NamedTuple):
    alpha_us: float
    beta_us: float
    sharing: float


def constants(network: AlphaBetaModel) -> Constants:
    return Constants(network.alpha_us, network.beta_us, network.sharing)


@entry_point
def _simulate(
    ready_times: Values,
    sizes: Values,
    at_once: int,
    network: Constants,
    start_times: Values,
    end_times: Values,
) -> None:
    under_way, work, active_count = np.zeros(at_once, np.int64), np.zeros((at_once, 2)), 0
    now = 0.0
    for buffer in range(len(ready_times)):
        now, active_count = admit(
            work,
            under_way,
            active_count,
            at_once,
            now,
            ready_times[buffer],
            network,
            end_times,
            buffer,
            sizes[buffer],
        )
        start_times[buffer] = now
    drain(work, under_way, active_count, now, network, end_times)


@compiled
def admit(
    work: Values, under_way: Ints, active_count: int, at_once: int, now: float, ready_time: float,
    network: Constants, end_times: Values, buffer: int, size: float,
) -> tuple[float, int]:  # fmt: skip
    """Start a buffer once it is ready and there is room; return its start and the number under way."""
    while now < ready_time or active_count == at_once:
        if active_count == 0:
            now = ready_time
            break
        now, active_count = advance(
            work, under_way, active_count, now, ready_time, active_count == at_once, network, end_times
        )
    work[active_count, STARTUP], work[active_count, BYTES] = network.alpha_us, size
    under_way[active_count] = buffer
    return now, active_count + 1


@compiled
def drain(
    work: Values, under_way: Ints, active_count: int, now: float, network: Constants, end_times: Values
) -> float:
    while active_count:
        # The limit is ignored.
        now, active_count = advance(work, under_way, active_count, now, now, True, network, end_times)
    return now


@compiled
def advance(
    work: Values, under_way: Ints, active_count: int, now: float, limit: float, ignores_limit: bool,
    network: Constants, end_times: Values,
) -> tuple[float, int]:  # fmt: skip
    """Advance to the end of a start-up or transfer, or an earlier `limit`; return time and number left."""
    transfer_count = 0
    for k in range(active_count):
        transfer_count += work[k, STARTUP] <= 0.0
    us_per_byte = network.beta_us * (1.0 + network.sharing * (transfer_count - 1))
    step = np.inf
    for k in range(active_count):
        step = min(step, work[k, STARTUP] if work[k, STARTUP] > 0.0 else work[k, BYTES] * us_per_byte)
    if not ignores_limit and limit - now <= step:
        step, now = limit - now, limit
    else:
        now += step
    # Move the remaining all-reduces to the front of `work` and `under_way`.
    count_left = 0
    for k in range(active_count):
        if work[k, STARTUP] > 0.0:
            startup = work[k, STARTUP] - step
            work[count_left, STARTUP], work[count_left, BYTES] = max(startup, 0.0), work[k, BYTES]
        elif work[k, BYTES] * us_per_byte <= step:
            if len(end_times):  # the searches pass an empty array, as they need no times of buffers
                end_times[under_way[k]] = now
            continue
        else:
            work[count_left, STARTUP], work[count_left, BYTES] = 0.0, work[k, BYTES] - step / us_per_byte
        under_way[count_left] = under_way[k]
        count_left += 1
    return now, count_left
