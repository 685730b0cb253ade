"""All-reduces that share a network: each takes a start-up, then its bytes at a rate that others slow down.

Alone an all-reduce of s bytes takes α + β·s. While k of them move bytes, each does so at β·f(k).
[ASC]'s authors plot α + 1.5·β·s for two at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from foundation.settings import Strict
from nativekit.compile import compiled
from studies.dense.compile import entry_point
from studies.dense.layers import Layers

STARTUP, BYTES = 0, 1
"""What is left of an all-reduce under way: µs of its start-up, then bytes."""
MOST_AT_ONCE = 8


class Collectives(Strict):
    """α, β and f(k) = 1 + sharing · (k - 1); by default those of [ASC]'s authors for 8 nodes of 10GbE."""

    alpha_us: float = Field(default=1370.0, ge=0, le=1e7)
    beta_ns: float = Field(default=1.66, gt=0, le=1e6)
    """A byte."""
    sharing: float = Field(default=0.5, ge=0, le=10)
    """0.5: f(2) = 1.5, theirs; 1: a link that is shared fairly; 0: all-reduces that do not meet."""
    most: int = Field(default=2, ge=1, le=MOST_AT_ONCE)
    """That a schedule may have under way at once. f was measured for two."""

    @property
    def beta_us(self) -> float:
        """A byte."""
        return self.beta_ns / 1e3

    def told(self) -> list[tuple[str, str]]:
        """Names and values with their units, as a reader is told."""
        return [
            ("α, start-up", f"{self.alpha_us / 1e3:g} ms"),
            ("β", f"{self.beta_ns:g} ns a byte"),
            ("f(k), k at once", f"1 + {self.sharing:g} · (k - 1)"),
            ("at once, at most", f"{self.most}"),
        ]

    def alone_us(self, size: float) -> float:
        """An all-reduce that meets no other."""
        return self.alpha_us + self.beta_us * size


@dataclass(frozen=True, slots=True)
class Plan:
    """What is merged, and how many are sent at once; each goes as soon as it is ready and there is room."""

    scheduler: str
    lasts: tuple[int, ...]
    """For each buffer the last of its gradients, counted in the order in which they become ready."""
    at_once: int = 1


@dataclass(frozen=True, slots=True)
class Played:
    """A plan as it goes; µs since backward began, [b] for each buffer."""

    plan: Plan
    sizes: NDArray[np.int64]
    ready: NDArray[np.float64]
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]

    @property
    def end_us(self) -> float:
        """When all gradients are there."""
        return float(self.ends.max())


def play(layers: Layers, network: Collectives, plan: Plan) -> Played:
    """What a plan takes on a network."""
    sizes, ready = buffers(layers, plan)
    starts, ends = np.zeros(len(sizes)), np.zeros(len(sizes))
    _play(ready, sizes.astype(np.float64), plan.at_once, *constants(network), starts, ends)
    return Played(plan, sizes, ready, starts, ends)


def buffers(layers: Layers, plan: Plan) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """([b] bytes, [b] µs at which they are ready) of a plan's buffers."""
    sizes, ready = layers.gradients()
    lasts = np.array(plan.lasts)
    return np.diff(np.cumsum(sizes)[lasts], prepend=0), ready[lasts]


def constants(network: Collectives) -> tuple[float, float, float]:
    """α and β in µs, and how much sharing slows."""
    return network.alpha_us, network.beta_us, network.sharing


@entry_point
def _play(
    ready: Any, sizes: Any, at_once: int, alpha: float, beta: float, sharing: float, starts: Any, ends: Any
) -> None:
    under_way, left, number = np.zeros(at_once, np.int64), np.zeros((at_once, 2)), 0
    now = 0.0
    for buffer in range(len(ready)):
        now, number = admit(
            left,
            under_way,
            number,
            at_once,
            now,
            ready[buffer],
            alpha,
            beta,
            sharing,
            ends,
            buffer,
            sizes[buffer],
        )
        starts[buffer] = now
    drain(left, under_way, number, now, beta, sharing, ends)


@compiled
def admit(
    left: Any, under_way: Any, number: int, at_once: int, now: float, ready: float,
    alpha: float, beta: float, sharing: float, ends: Any, buffer: int, size: float,
) -> tuple[float, int]:  # fmt: skip
    """Wait until a buffer is ready and there is room, and begin it; (that time, number under way)."""
    while now < ready or number == at_once:
        if number == 0:
            now = ready
            break
        now, number = advance(left, under_way, number, now, ready, number == at_once, beta, sharing, ends)
    left[number, STARTUP], left[number, BYTES], under_way[number] = alpha, size, buffer
    return now, number + 1


@compiled
def drain(
    left: Any, under_way: Any, number: int, now: float, beta: float, sharing: float, ends: Any
) -> float:
    """Let all that is under way end; that time."""
    while number:
        now, number = advance(left, under_way, number, now, now, True, beta, sharing, ends)
    return now


@compiled
def advance(
    left: Any, under_way: Any, number: int, now: float, until: float, further: bool,
    beta: float, sharing: float, ends: Any,
) -> tuple[float, int]:  # fmt: skip
    """Go to when next a start-up or an all-reduce ends, or, but `further`, no later than `until`."""
    moving = 0
    for k in range(number):
        moving += left[k, STARTUP] <= 0.0
    slow = beta * (1.0 + sharing * (moving - 1))
    step = np.inf
    for k in range(number):
        step = min(step, left[k, STARTUP] if left[k, STARTUP] > 0.0 else left[k, BYTES] * slow)
    if not further and until - now <= step:
        step, now = until - now, until
    else:
        now += step
    kept = 0
    for k in range(number):
        if left[k, STARTUP] > 0.0:
            startup = left[k, STARTUP] - step
            left[kept, STARTUP], left[kept, BYTES] = max(startup, 0.0), left[k, BYTES]
        elif left[k, BYTES] * slow <= step:
            if len(ends):
                ends[under_way[k]] = now
            continue
        else:
            left[kept, STARTUP], left[kept, BYTES] = 0.0, left[k, BYTES] - step / slow
        under_way[kept] = under_way[k]
        kept += 1
    return now, kept
