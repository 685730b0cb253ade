"""Rows of more values than a key's row may have: every place that takes a dim says which keys they are."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiment.errors import ConfigError
from experiment.run_config import load_config
from foundation.protocol.rows import MAX_DIM, check_dim, describe_long_row, split_row
from hotline_scripts.embedding_tables import make_tables
from hotline_simulator.config import SimulationConfig
from switch_harness.wording import mentions, says
from tests.harness.cli import invoke

RULE = ("256 values", "2 keys", 128)


@given(st.integers(1, 5_000))
def test_a_long_row_takes_as_many_keys_as_in_a_table(values: int) -> None:
    table = make_tables({"rows": (7, values)})["rows"]
    keys, dim = split_row(values)
    assert (table.keys_of_row, table.dim) == (keys, values) and dim <= MAX_DIM
    assert (keys - 1) * MAX_DIM < values <= keys * dim < values + keys
    if values <= MAX_DIM:
        assert check_dim(values) == values
    else:
        with pytest.raises(ValueError, match=mentions(values, keys, dim, MAX_DIM)):
            check_dim(values)
        assert says(describe_long_row(values), f"{keys} keys", f"dim {dim}")


def test_a_run_and_a_simulation_say_the_rule_of_long_rows() -> None:
    with pytest.raises(ConfigError, match=mentions("DIM=256", *RULE)):
        load_config(["DIM=256"])
    with pytest.raises(ValueError, match=mentions(*RULE)):
        SimulationConfig(dim=256)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("build", "--dim 256"),
        ("build", "--dims 5=256"),
        ("build", "--columns dim=size"),
        ("curve", "--dim 256"),
        ("curve", "--columns dim=size"),
    ],
)
def test_commands_say_the_rule_of_long_rows(tmp_path: Path, command: str, options: str) -> None:
    log = tmp_path / "log.parquet"
    pl.DataFrame({"key": [1, 2], "updates": [3, 4], "size": [16, 256]}).write_parquet(log)
    more = ["--top-k", 1, "-o", tmp_path / "hot.parquet"] if command == "build" else []
    refused = invoke("hotset", command, log, *more, *options.split())
    assert refused.exit_code == 1 and says(refused.stderr, "256", "2 keys", "dim 128")
    assert not (tmp_path / "hot.parquet").exists()
