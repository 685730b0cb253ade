"""Two-rate three-colour meters (RFC 2698), rounded as in BMv2's meters.cpp."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.pipeline import MeterConfig
from softswitch.v1model import Colour

_US_PER_S = 1e6


@dataclass
class Bucket:
    colour: Colour
    rate: float
    """Rate in tokens per µs."""
    burst: int
    tokens: int
    generated: int = 0
    """Tokens generated since start, whether added or discarded from a full bucket."""

    def take(self, amount: int, now: int) -> bool:
        """Add the tokens up to `now`, in µs since start, and take `amount` if there are enough."""
        generated_tokens = int(now * self.rate)
        self.tokens = min(self.tokens + generated_tokens - self.generated, self.burst)
        self.generated = generated_tokens
        if self.tokens < amount:
            return False
        self.tokens -= amount
        return True


class MeterCell:
    """One cell, which is always green until it is configured."""

    def __init__(self) -> None:
        self._buckets: list[Bucket] = []

    def configure(self, config: MeterConfig | None) -> None:
        if config is None:
            self._buckets = []
            return
        self._buckets = [
            Bucket(colour, rate / _US_PER_S, burst, tokens=burst)  # full at first
            for colour, rate, burst in (
                (Colour.RED, config.peak_rate, config.peak_burst),
                (Colour.YELLOW, config.committed_rate, config.committed_burst),
            )
        ]

    def execute(self, amount: int, now: int) -> Colour:
        """Return the colour of a packet; a red one takes no tokens from the committed bucket."""
        for bucket in self._buckets:
            if not bucket.take(amount, now):
                return bucket.colour
        return Colour.GREEN
