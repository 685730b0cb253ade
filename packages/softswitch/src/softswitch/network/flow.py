"""Flows of frames that hosts send, and what is known of the frames that have arrived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softswitch.errors import SwitchError
from softswitch.network.state import CONSTANT, POISSON, TRACE, NetworkState

_NS_PER_US = 1e3


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a flow sends: `count` frames from `begin_us` on, in one of three ways.

    `every_us` is an interval, `poisson_us` the mean of exponentially distributed ones, `times_us` are the
    times themselves, in µs after `begin_us`.
    """

    count: int
    begin_us: float
    every_us: float | None = None
    poisson_us: float | None = None
    times_us: Sequence[float] | None = None

    def __post_init__(self) -> None:
        ways = (self.every_us, self.poisson_us, self.times_us)
        if sum(way is not None for way in ways) != 1:
            raise SwitchError("a flow: expected one of every_us, poisson_us and times_us")
        interval = self.every_us if self.every_us is not None else self.poisson_us
        if interval is not None and not interval >= 1 / _NS_PER_US:
            raise SwitchError(f"a flow: expected an interval of at least 0.001 us, got {interval}")
        if self.count < 1:
            raise SwitchError(f"a flow: expected a count of 1 or more, got {self.count}")

    @property
    def kind(self) -> int:
        return CONSTANT if self.every_us is not None else POISSON if self.poisson_us is not None else TRACE

    @property
    def interval_ns(self) -> int:
        interval = self.every_us if self.every_us is not None else self.poisson_us
        return 0 if interval is None else round(interval * _NS_PER_US)

    def times_ns(self) -> NDArray[np.int64]:
        times = np.round(np.asarray(self.times_us or (), np.float64) * _NS_PER_US).astype(np.int64)
        if len(times) and (times[0] < 0 or (np.diff(times) < 0).any()):
            raise SwitchError("times_us of a flow: expected ascending times of 0 or more")
        return times


class Receipts(NamedTuple):
    """The frames of a flow that hosts have received, in order: arrays of equal length, times in ns."""

    host: NDArray[np.int64]
    sent: NDArray[np.int64]
    received: NDArray[np.int64]
    length: NDArray[np.int64]


class FlowHandle:
    """A flow of a network; all numbers are as of the network's present time.

    A flow's frames are recognised at any host that gets them, also if switches have rewritten, cloned or
    encapsulated them. Delays are from the time at which the host sends to the arrival of the whole frame.
    """

    def __init__(
        self, number: int, state: Callable[[], NetworkState], receipts: Callable[[], Receipts]
    ) -> None:
        self.number, self._state, self._receipts = number, state, receipts

    def __repr__(self) -> str:
        return f"<flow: {self.sent} sent, {self.received} received>"

    def _get(self, field: str) -> int:
        return int(getattr(self._state().flows[self.number], field))

    @property
    def sent(self) -> int:
        return self._get("sent")

    @property
    def received(self) -> int:
        return self._get("received")

    @property
    def received_bytes(self) -> int:
        return self._get("received_bytes")

    @property
    def mean_delay_us(self) -> float:
        return self._get("delay") / _NS_PER_US / self.received if self.received else float("nan")

    @property
    def min_delay_us(self) -> float:
        return self._get("min_delay") / _NS_PER_US if self.received else float("nan")

    @property
    def max_delay_us(self) -> float:
        return self._get("max_delay") / _NS_PER_US if self.received else float("nan")

    def receipts(self) -> Receipts:
        """Return what was received, of a flow that was begun with `is_logged=True`."""
        if not self._get("is_logged"):
            raise SwitchError("receipts of a flow: expected a flow that is sent with is_logged=True")
        return self._receipts()
