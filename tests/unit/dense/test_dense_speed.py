"""What is promised of speed, with room for a machine that does other things, too; in CPU time."""

from __future__ import annotations

import time

import pytest

from dense import bench
from dense.warm import warm


@pytest.mark.parametrize(
    ("work", "most_s"), [(bench.map_of_one_model, 1.0), (bench.schedulers_of_bert_large, 5.0)]
)
def test_it_is_fast_enough_to_be_asked(work: object, most_s: float) -> None:
    assert work in bench.MEASURED and callable(work)
    warm()
    begun = time.process_time()
    work()
    assert time.process_time() - begun < most_s


def test_the_least_of_several_rounds_counts() -> None:
    rounds: list[int] = []
    assert 0 <= bench.seconds(lambda: rounds.append(1), 3) < 1 and len(rounds) == 3
