"""The offset of a machine's clock, from questions whose round trips differ and are not symmetric."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import hotline_machines
from hotline_machines.clocks import read_clock
from switch_harness.clocks import readers_of_unix_time


class Clocks:
    """This machine's clock, and one that is `ahead_ns`, behind a link with random delays both ways."""

    def __init__(self, ahead_ns: int, seed: int) -> None:
        self.now_ns, self._ahead_ns, self._rng = 0, ahead_ns, random.Random(seed)

    async def ask(self) -> int:
        self.now_ns += self._rng.randrange(1, 1_000_000)
        answer = self.now_ns + self._ahead_ns
        self.now_ns += self._rng.randrange(1, 1_000_000)
        return answer

    def read(self) -> int:
        return self.now_ns


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ahead_ns", [0, 5_000_000_000_000, -7_000_000_001])
async def test_the_true_offset_is_within_the_error(ahead_ns: int, seed: int) -> None:
    clocks = Clocks(ahead_ns, seed)
    reading = await read_clock(clocks.ask, clocks.read)
    assert abs(reading.ahead_ns - ahead_ns) <= reading.error_ns + 1  # half of an odd number
    assert 0 < reading.error_ns < 1_000_000


async def test_the_shortest_round_trip_counts() -> None:
    delays_ns = iter([900, 2_000, 80, 700, 600])
    now_ns = 0

    async def ask() -> int:
        nonlocal now_ns
        delay_ns = next(delays_ns)
        now_ns += delay_ns  # on the way there only
        return now_ns + 50

    assert await read_clock(ask, lambda: now_ns) == (50 + 40, 40)


def test_unix_clocks_are_only_compared() -> None:
    """Nothing of a run is ordered or timed by one, since it may be set at any time."""
    sources = Path(hotline_machines.__file__).parent
    assert readers_of_unix_time(sources) == {"hotline_machines/cluster.py", "hotline_machines/survey.py"}
