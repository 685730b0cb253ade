"""Two-rate three-colour meters. BMv2: meters.cpp, whose rounding this has."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.pipeline import MeterConfig
from softswitch.v1model import Colour

MICROSECONDS = 1e6
"""A second's."""


@dataclass
class Bucket:
    """Tokens of one rate; a packet that they do not suffice for has `colour`."""

    colour: Colour
    rate: float
    """Tokens a microsecond."""
    burst: int
    tokens: int
    counted: int = 0
    """Tokens since the start that were added or lost already."""

    def take(self, amount: int, now: int) -> bool:
        """Add what has come up to `now`, in µs since start, and take an amount if there is enough."""
        since_start = int(now * self.rate)
        self.tokens = min(self.tokens + since_start - self.counted, self.burst)
        self.counted = since_start
        if self.tokens < amount:
            return False
        self.tokens -= amount
        return True


class MeterCell:
    """One cell, green for all until it is configured."""

    def __init__(self) -> None:
        self._buckets: list[Bucket] = []

    def configure(self, config: MeterConfig | None) -> None:
        """Set the rates and fill the buckets; None: green for all."""
        if config is None:
            self._buckets = []
            return
        self._buckets = [
            Bucket(colour, rate / MICROSECONDS, burst, burst)
            for colour, rate, burst in (
                (Colour.RED, config.peak_rate, config.peak_burst),
                (Colour.YELLOW, config.committed_rate, config.committed_burst),
            )
        ]

    def execute(self, amount: int, now: int) -> Colour:
        """The colour of a packet; the committed bucket is left alone where the peak one does not suffice."""
        for bucket in self._buckets:
            if not bucket.take(amount, now):
                return bucket.colour
        return Colour.GREEN
