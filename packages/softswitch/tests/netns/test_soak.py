"""Traffic with table writes beside it: nothing is lost and nothing leaves by a wrong port."""

from __future__ import annotations

import random

import pytest

from switch_bench import plain
from switch_bench.processes import choose_cores
from switch_bench.scale import QUICK
from switch_bench.sections.soak import soak_at
from switch_bench.stage import Stage
from switch_bench.switches import SOFTSWITCH

pytestmark = pytest.mark.netns

PORTS = 8
RATE = 2_000  # a ring holds 500 ms of it, so that a busy machine loses nothing


@pytest.mark.soak
@pytest.mark.parametrize("seconds", [3.0, 120.0])
def test_writes_disturb_no_packet(seconds: float) -> None:
    stage = Stage(choose_cores(), QUICK, random.Random(1), lambda _: None)
    with (
        stage.traffic(PORTS) as generator,
        stage.switch(SOFTSWITCH, PORTS, plain.l3_setup(PORTS)) as switch,
    ):
        generator.load(plain.l3(PORTS))
        soaked = soak_at(generator, switch.client, RATE, seconds)
    assert soaked.trial.sent == RATE * seconds
    assert (soaked.trial.lost, soaked.trial.misrouted) == (0, 0)
    assert soaked.written > 100
