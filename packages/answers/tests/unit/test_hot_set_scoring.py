"""A hot set is scored on what follows: `answer`, `hotset curve` and `policies` agree on the share served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from foundation.logs.time_split import training_length
from hosts.workload.data_files import load
from hotline.results.curve import curve
from hotline_answers.cluster_answer.cluster import Cluster, config_for
from hotline_answers.cluster_answer.hotset import short_log_warning, split_log, workload_for
from hotline_answers.cluster_answer.sizes import PackingCounter
from hotline_answers.result import answer
from hotline_policies.result import study
from hotline_simulator.experiment import quiet_reporter
from switch_harness.wording import says
from tests.harness.cli import invoke

pytestmark = pytest.mark.usefixtures("no_input_effects")

Log = list[list[int]]  # the distinct keys of each mini-batch

KEYS, KEYS_PER_STEP = 400, 30
TOP_K = (1, 7, 50, 200)


def stationary(steps: int) -> Log:
    """Keys are drawn with the same skew in each step."""
    return list(_draw(steps, lambda step: 0))


def drifting(steps: int) -> Log:
    """Every step replaces a few of the hot keys."""
    return list(_draw(steps, lambda step: 5 * step))


def exchanged(steps: int) -> Log:
    """No key of the second half is in the first."""
    return list(_draw(steps, lambda step: KEYS * (step >= steps // 2)))


def ties(steps: int) -> Log:
    """All keys have equally many updates in the first half; later only the larger half of them has any."""
    first = training_length(steps)
    return [list(range(40))] * first + [list(range(20, 60))] * (steps - first)


def _draw(steps: int, first_key: Callable[[int], int]) -> Iterator[list[int]]:
    rng = np.random.default_rng(7)
    weights = 1 / np.arange(1, KEYS + 1)
    for step in range(steps):
        keys = rng.choice(KEYS, KEYS_PER_STEP, replace=False, p=weights / weights.sum()) + first_key(step)
        yield sorted(keys.tolist())


KINDS = [stationary, drifting, exchanged, ties]
STEPS = [2, 3, 9, 60, 301]


def write(log: Log, file: Path, suffix: str = "csv") -> Path:
    rows = [(step, 1, key) for step, keys in enumerate(log) for key in keys]
    frame = pl.DataFrame(rows, ["iteration", "worker", "key"], orient="row")
    path = file.with_suffix(f".{suffix}")
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    return path


def share_by_hand(log: Log, top_k: int) -> float:
    """Choose from the first half, and count what follows, without any code of Hotline."""
    half = min(round(len(log) / 2), len(log) - 1)
    chosen_from = Counter(key for keys in log[:half] for key in keys)
    hot = sorted(chosen_from, key=lambda key: (-chosen_from[key], key))[:top_k]
    scored = [key for keys in log[half:] for key in keys]
    return sum(key in set(hot) for key in scored) / len(scored)


@pytest.mark.parametrize(
    ("kind", "steps"),
    [each for each in product(KINDS, STEPS) if each != (exchanged, 2)],  # which has no repeated key
)
def test_every_answer_has_the_same_share(kind: Callable[[int], Log], steps: int, tmp_path: Path) -> None:
    log = kind(steps)
    file = write(log, tmp_path / "log", "csv" if steps % 2 else "parquet")
    expected = [pytest.approx(share_by_hand(log, top_k)) for top_k in TOP_K]
    scored = curve(file).coverage
    assert [scored.share(top_k) for top_k in TOP_K] == expected
    replayed = study(file, sizes=TOP_K, policies=("top-k",), into=tmp_path / "policies")
    assert [outcome.share for outcome in replayed.outcomes] == expected
    for workers in {1, steps}:
        config = config_for(Cluster(workers=workers, servers=2, data=file))
        read = split_log(load(file, 1, config.read_options))
        counter = PackingCounter(config, workload_for(config, read, quiet_reporter()))
        is_short = workers > steps - training_length(steps)
        assert (short_log_warning(read, workers) is not None) is is_short
        if not is_short:
            assert [counter.count(top_k).served for top_k in TOP_K] == expected


@pytest.mark.parametrize("dim", [1, None], ids=["one dim", "other dims, too"])
def test_the_simulated_hot_set_serves_nothing_of_a_log_whose_keys_are_exchanged(
    tmp_path: Path, dim: int | None
) -> None:
    """The simulation loads the keys of the first half, as `policies` does, and the headline says so."""
    log = [list(range(20))] * 20 + [list(range(100, 120))] * 20
    made = answer(workers=2, servers=2, data=write(log, tmp_path / "log"), top_k=20, dim=dim)
    assert [size.served for size in made.sizes] == [0] * len(made.sizes)
    packets = made.sides.differences["ps_packets_per_step"]
    assert packets.ratio == pytest.approx(0, abs=0.01)
    assert says(" ".join(made.sentences), 20, 40)


def test_a_log_of_one_mini_batch_is_reported_as_too_short_first(tmp_path: Path) -> None:
    file = write([list(range(1, 60))], tmp_path / "log")
    made = answer(workers=1, servers=1, data=file, top_k=20, dim=1)
    assert says(made.headline, "mini-batch")
    assert {size.top_k: size.served for size in made.sizes}[20] == pytest.approx(20 / 59)
    _, scoring, *_ = invoke("hotset", "curve", file).stdout.splitlines()
    assert says(scoring, "updates", "scored")
    assert "expected at least 2" in invoke("policies", file, "--into", tmp_path / "policies").output


def test_a_log_with_fewer_scored_steps_than_workers_is_reported_as_too_short_first(tmp_path: Path) -> None:
    made = answer(workers=8, servers=2, data=write(stationary(10), tmp_path / "log"), top_k=20, dim=1)
    assert says(made.headline, "short", 5)
    assert made.sides.rate > 0


def test_the_shares_of_tables_are_scored_on_the_second_half_of_the_log(tmp_path: Path) -> None:
    """By hand: item 1 is hot in the first half and absent from the second; user 5 is hot in both."""
    file = tmp_path / "clicks.csv"
    items = [1, 1, 1, 1, 2, 2, 2, 3]
    file.write_text("user,item\n" + "".join(f"5,{item}\n" for item in items))
    made = curve(file, columns="key=user,key=item", batch=1, top_k=2)
    by_table = {table.table: (table.updates, table.hot_keys, table.share) for table in made.tables}
    assert by_table == {"user": (4, 1, 1.0), "item": (4, 1, 0.0)}
    assert (made.updates, made.keys, made.coverage.updates, made.coverage.share(2)) == (16, 4, 8, 0.5)


def test_a_half_without_updates_is_an_error_of_one_line(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("iteration,worker,key,op\n1,1,5,pull\n2,1,5,push\n")
    result = invoke("hotset", "curve", file)
    assert result.exit_code == 1 and result.stderr.count("\n") == 1
    assert says(result.stderr, 0, 1)
