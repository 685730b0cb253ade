"""A column with the dims of rows: each verb that takes one reads it, as options say the same dims."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
import polars as pl
import pytest

from controller.errors import HotSetError
from controller.hotset import choice
from controller.sizes import SLOTS
from foundation.errors import DataError
from foundation.logs.access import log_files
from foundation.logs.access.block import read_options
from foundation.logs.access.dims import RowLogSettings, RowSettings
from foundation.logs.access.steps import Steps
from foundation.logs.counts import Counts
from foundation.protocol.header import lanes_of_dim, padded_dim
from hosts.workload import data_files
from hotline.cli.commands import hotline
from switch_harness.wording import mentions
from tests.harness.access_logs import read, rows_with_dims, write_rows_with_dims
from tests.harness.cli import invoke, json_of


def _walk(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _walk(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


TAKE_COLUMNS = {
    path for path, command in _walk(hotline) if any("--columns" in option.opts for option in command.params)
}
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "answer cluster": ("--workers", "2", "--servers", "1", "--data", "LOG"),
    "hotset build": ("LOG", "--top-k", "30", "-o", "OUT"),
    "hotset curve": ("LOG", "--top-k", "30", "--ignore", "updates"),
    "policies compare": ("LOG", "--only", "top-k", "--sizes", "30", "--into", "OUT"),
    "policies memory": ("LOG", "--memory", "500,2000"),
    "policies miss-ratio": ("LOG",),
}
OPTIONS = dict.fromkeys(ARGUMENTS, ("--dims", "users=10,items=64")) | {
    "hotset build": ("--dims", "0=10,1000=64")
}
_SLOW = {"answer cluster"}  # the package's own tests compare it
_DESCRIPTIONS = ("notes", "settings", "cluster", "file", "has_dims", "updates_per_cpu_s")


def run(folder: Path, verb: str, log: Path, *options: str) -> Any:
    output = folder / f"out-{len(list(folder.iterdir()))}"
    names = {"LOG": str(log), "OUT": str(output)}
    return invoke(*verb.split(), *(names.get(word, word) for word in ARGUMENTS[verb]), *options)


def results(value: Any) -> Any:
    """Return what a command prints with --json, without what describes the log and the options."""
    if isinstance(value, dict):
        return {name: results(each) for name, each in value.items() if name not in _DESCRIPTIONS}
    return [results(each) for each in value] if isinstance(value, list) else value


def test_all_verbs_that_take_columns_are_tested() -> None:
    assert set(ARGUMENTS) == TAKE_COLUMNS


@pytest.mark.parametrize("verb", sorted(set(ARGUMENTS) - _SLOW))
def test_a_column_of_dims_gives_the_same_result_as_options(tmp_path: Path, verb: str) -> None:
    log = write_rows_with_dims(tmp_path, rows_with_dims())
    by_column, by_options = (
        run(tmp_path, verb, log, *options, "--json") for options in (("--columns", "dim=n"), OPTIONS[verb])
    )
    assert (by_column.exit_code, by_options.exit_code) == (0, 0), by_column.output
    found, expected = results(json.loads(by_column.stdout)), results(json.loads(by_options.stdout))
    assert found == expected
    if verb != "policies compare":  # whose page takes seconds
        scalar = run(tmp_path, verb, log, "--json")
        assert found != results(json.loads(scalar.stdout))


WRONG = {
    "another dim of a key": ("7,1,items,1003,1,16", "16", "64", "1003"),
    "zero": ("7,1,users,3,1,0", "0", "1 to 128"),
    "too many values": ("7,1,users,3,1,129", "129", "1 to 128"),
    "nothing": ("7,1,users,3,1,", "empty", "integer"),
    "a text": ("7,1,users,3,1,wide", "wide", "integer"),
}


@pytest.mark.parametrize(("verb", "kind"), list(product(sorted(ARGUMENTS), WRONG)))
def test_a_wrong_dim_is_an_error_with_its_line(tmp_path: Path, verb: str, kind: str) -> None:
    row, *expected = WRONG[kind]
    rows = [*rows_with_dims(), "0,1,items,1003,1,64", row, "9,1,items,1003,1,64"]
    refused = run(tmp_path, verb, write_rows_with_dims(tmp_path, rows), "--columns", "dim=n")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert mentions_all(refused.stderr, f"line {len(rows)}: ", "column n", *expected)
    assert not list(tmp_path.rglob("*.parquet")) and not list(tmp_path.rglob("out-*/log-*"))


def mentions_all(text: str, *parts: str) -> bool:
    return all(part in text for part in parts)


@pytest.mark.parametrize(
    ("verb", "beside"), list(product(sorted(ARGUMENTS), (("--dim", "16"), ("--dims", "users=10"))))
)
def test_dims_have_one_source(tmp_path: Path, verb: str, beside: tuple[str, str]) -> None:
    if verb == "hotset build" and beside[0] == "--dims":
        beside = ("--dims", "0=10")
    refused = run(
        tmp_path, verb, write_rows_with_dims(tmp_path, rows_with_dims()), "--columns", "dim=n", *beside
    )
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert mentions_all(refused.stderr, *beside, "column n", "--columns dim=n")


@pytest.mark.parametrize("verb", sorted(ARGUMENTS))
def test_a_missing_column_is_named(tmp_path: Path, verb: str) -> None:
    refused = run(tmp_path, verb, write_rows_with_dims(tmp_path, rows_with_dims()), "--columns", "dim=width")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert mentions_all(refused.stderr, "'width'", "updates, n")


def dims_of(steps: Steps) -> dict[int, int]:
    assert steps.dim_of is not None
    return dict(zip(steps.keys.tolist(), steps.dim_of.tolist(), strict=True))


@pytest.mark.parametrize("block", [60, 1 << 20])
@pytest.mark.parametrize("form", ["csv", "csv.gz", "jsonl", "parquet"])
def test_dims_of_generated_logs_are_read_and_the_first_wrong_row_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, block: int
) -> None:
    """Against a dict: the dim of each key, and of several wrong rows the first that is wrong."""
    monkeypatch.setattr(log_files, "BLOCK_BYTES", block)
    for seed in range(6):
        chance = np.random.default_rng(seed)
        keys = chance.integers(0, 30, 80).tolist()
        dims = [1 + key * 7 % 128 for key in keys]
        for at in chance.integers(20, 80, seed % 3).tolist():
            dims[at] = 1 + (dims[at] + 5) % 128
        frame = pl.DataFrame({"key": keys, "d": dims})
        expected = dict[int, int]()
        wrong = [
            at
            for at, (key, dim) in enumerate(zip(keys, dims, strict=True))
            if expected.setdefault(key, dim) != dim
        ]
        file = tmp_path / f"log-{seed}.{form}"
        first_line = 1 if form in ("jsonl", "parquet") else 2
        if form == "parquet":
            frame.write_parquet(file)
        else:
            text = frame.write_ndjson() if form == "jsonl" else frame.write_csv()
            file.write_bytes(gzip.compress(text.encode()) if form == "csv.gz" else text.encode())
        if not wrong:
            assert dims_of(read(tmp_path, file, columns="dim=d")) == expected
            continue
        unit = "row" if form == "parquet" else "line"
        with pytest.raises(
            DataError, match=mentions(f"{unit} {wrong[0] + first_line}:", expected[keys[wrong[0]]])
        ):
            read(tmp_path, file, columns="dim=d")
        skipped = read(tmp_path, file, columns="dim=d", skip_bad=True)
        assert dims_of(skipped) == expected and len(skipped.accesses) == 80 - len(wrong)


def test_a_run_and_a_map_have_no_column_of_dims(tmp_path: Path) -> None:
    log = write_rows_with_dims(tmp_path, rows_with_dims())
    with pytest.raises(DataError, match=mentions("log.csv", "dim=n")):
        data_files.load(log, 1, read_options("dim=n"))
    assert data_files.load(log, 1, read_options("dim=n"), rows=RowSettings()).space.dims == (16, 64)


def test_a_key_has_one_dim_in_all_files(tmp_path: Path) -> None:
    for name, dim in (("a.csv", 16), ("b.csv", 8)):
        (tmp_path / name).write_text(f"key,d\n1,4\n2,{dim}\n")
    files = tmp_path / "a.csv", tmp_path / "b.csv"
    with pytest.raises(DataError, match=mentions("b.csv, line 3", 8, 16)):
        read(tmp_path, *files, columns="dim=d")
    counted = [tmp_path / "c.csv", tmp_path / "d.csv"]
    for file, dim in zip(counted, (16, 8), strict=True):
        file.write_text(f"key,updates,d\n1,5,4\n2,7,{dim}\n")
    with pytest.raises(DataError, match=mentions("d.csv, line 3", 8, 16, "key 2")):
        list(Counts.of_logs(counted, dim="d").by_key())


def test_all_keys_of_a_row_with_lists_have_the_dim_of_the_row(tmp_path: Path) -> None:
    """All keys of a row have its dim, also the values of a cell with several."""
    (tmp_path / "log.csv").write_text("user_id,items,d\n1,5|6,16\n2,7,8\n3,6|5,16\n4,8|9,4\n")
    found = read(tmp_path, tmp_path / "log.csv", columns="key=user_id,key=items,dim=d")
    assert found.dim_of is not None
    by_table = [sorted(found.dim_of[found.table_of == index].tolist()) for index in range(2)]
    assert by_table == [[4, 8, 16, 16], [4, 4, 8, 16, 16]]


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_out_of_order_and_with_weights(tmp_path: Path, weighted: bool) -> None:
    (tmp_path / "log.csv").write_text("time,key,n,d\n3,1,2,16\n1,2,1,8\n2,1,3,16\n")
    columns = "time=time,dim=d" + (",weight=n" if weighted else "")
    found = read(tmp_path, tmp_path / "log.csv", columns=columns)
    assert dims_of(found) == {1: 16, 2: 8} and len(found.accesses) == (6 if weighted else 3)


@pytest.mark.parametrize("dim", [1, 2, 5, 16, 100, 128])
def test_dims_of_keys_are_padded(tmp_path: Path, dim: int) -> None:
    (tmp_path / "log.csv").write_text(f"key,d\n1,{dim}\n2,64\n")
    steps = read(tmp_path, tmp_path / "log.csv", columns="dim=d")
    settings = RowLogSettings(columns=("dim=d",))
    assert settings.unpadded_dims_of_keys(steps).tolist() == [dim, 64]
    assert settings.dims_of_keys(steps).tolist() == [padded_dim(dim), 64]
    assert settings.with_dims_of_log((16, 64)).min_dim == 16


def test_a_hot_set_of_more_rows_than_fit_is_refused(tmp_path: Path) -> None:
    rows = SLOTS * lanes_of_dim(100)
    keys = np.arange(rows + 1)
    file = tmp_path / "counts.parquet"
    pl.DataFrame({"key": keys, "updates": keys + 1, "d": np.full(rows + 1, 100)}).write_parquet(file)
    with pytest.raises(HotSetError, match=mentions(rows + 1, rows, 128)):
        choice.build([file], rows + 1, dim_column="d", part_rows=1_000)
    assert choice.build([file], rows, dim_column="d", part_rows=1_000)["dim"].unique().to_list() == [128]


@pytest.mark.parametrize("column", ["d", "3"])
def test_counts_have_a_column_of_dims(tmp_path: Path, column: str) -> None:
    """The curve of counts, and of a job's updates, as with one dim for all keys."""
    file = tmp_path / "counts.parquet"
    counts = {"key": np.arange(50), "updates": np.arange(50) + 1, "d": np.full(50, 64), "job": np.full(50, 4)}
    pl.DataFrame(counts).write_parquet(file)
    for options in ((), ("--job", 4)):
        found = json_of("hotset", "curve", file, "--columns", f"dim={column}", *options)
        assert found == json_of("hotset", "curve", file, "--dim", 64, *options)
        assert found["dims"] == [64]
