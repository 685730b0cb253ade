"""Columns whose keys all differ are no keys if others could be, and a log of nothing else is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from foundation.errors import DataError
from hosts.workload import data_files
from switch_harness.wording import mentions, says
from tests.harness.access_logs import keys_by_step, read
from tests.harness.cli import invoke

LENGTHS = (100, 600, 1_000, 1_001, 3_000)
Column = list[object]


def _ascending(length: int, rng: random.Random) -> Column:
    return list(range(1, length + 1))


def _shuffled(length: int, rng: random.Random) -> Column:
    return [*rng.sample(range(10 * length), length)]


def _texts(length: int, rng: random.Random) -> Column:
    return [f"{number:x}-event" for number in rng.sample(range(10 * length), length)]


UNIQUE: dict[str, Callable[[int, random.Random], Column]] = {
    "ascending": _ascending, "shuffled": _shuffled, "texts": _texts,
}  # fmt: skip


def _items(length: int, rng: random.Random) -> Column:
    return [min(int(rng.paretovariate(0.8)), 40) for _ in range(length)]


def write(columns: dict[str, Column], file: Path, format: str) -> None:
    if format == "parquet":
        pl.DataFrame(columns).write_parquet(file)
        return
    rows = list(zip(*columns.values(), strict=True))
    if format == "json":
        lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
    elif format == "recbole":
        lines = ["\t".join(f"{name}:token" for name in columns), *("\t".join(map(str, row)) for row in rows)]
    else:
        header = [",".join(columns)] if format == "csv" else []
        lines = [*header, *(",".join(map(str, row)) for row in rows)]
    file.write_text("\n".join(lines) + "\n")


FORMATS = ("csv", "bare", "json", "parquet", "recbole")


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", UNIQUE)
def test_a_log_whose_only_column_has_distinct_keys_is_refused(
    tmp_path: Path, kind: str, length: int, format: str
) -> None:
    write({"event_id": UNIQUE[kind](length, random.Random(length))}, tmp_path / "log", format)
    for batch in (1, 10, 10_000):
        with pytest.raises(DataError, match=mentions("log", f"all {length:,} keys", "no other column")):
            read(tmp_path, tmp_path / "log", batch=batch, must_repeat=True)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", UNIQUE)
@pytest.mark.parametrize("order", ["ids first", "ids last"])
def test_distinct_keys_beside_repeated_keys_are_left_out(
    tmp_path: Path, kind: str, length: int, format: str, order: str
) -> None:
    """Integers that ascend without a header may be times, too: then they give the order, and no key."""
    rng = random.Random(length)
    columns = {"event_id": UNIQUE[kind](length, rng), "item_id": _items(length, rng)}
    if order == "ids last":
        columns = dict(reversed(columns.items()))
    write(columns, tmp_path / "log", format)
    found = read(tmp_path, tmp_path / "log", must_repeat=True)
    assert len(found.keys) == len(set(columns["item_id"]))
    assert len(found.accesses) == length
    if format != "recbole":
        assert [key for [key] in keys_by_step(found)] == columns["item_id"]
    if kind != "ascending":
        left_out = str(list(columns).index("event_id") + 1) if format == "bare" else "event_id"
        assert says(found.notes[-1], f"column {left_out}", "distinct", "--columns")


@pytest.mark.parametrize("length", LENGTHS)
def test_the_refusal_names_columns_whose_values_recur(tmp_path: Path, length: int) -> None:
    rng = random.Random(length)
    columns: dict[str, Column] = {
        "event_id": _shuffled(length, rng),
        "category": _items(length, rng),
        "place": [f"P{number}" for number in _items(length, rng)],
        "price": [rng.random() for _ in range(length)],
        "note": _texts(length, rng),
        "click": [number % 2 for number in range(length)],
        "currency": ["EUR"] * length,
    }
    write(columns, tmp_path / "log", "csv")
    expected = mentions("log", f"all {length:,} keys in event_id", "--columns key=NAME", "category, place,")
    for asked in (None, "key=event_id"):
        with pytest.raises(DataError, match=expected) as refused:
            read(tmp_path, tmp_path / "log", columns=asked, must_repeat=True)
        assert not says(str(refused.value).partition("read as")[0], "price")
        assert str(refused.value).count("\n") == 0
    for name in ("category", "place"):
        assert len(read(tmp_path, tmp_path / "log", columns=f"key={name}", must_repeat=True).keys) > 1


@pytest.mark.parametrize("length", LENGTHS)
def test_several_columns_of_distinct_keys_are_all_left_out_or_refused(tmp_path: Path, length: int) -> None:
    rng = random.Random(length)
    columns = {"request_id": _texts(length, rng), "event_id": _shuffled(length, rng)}
    write(columns, tmp_path / "log", "csv")
    expected = mentions("log", "request_id", "event_id", "distinct", "no other column")
    with pytest.raises(DataError, match=expected):
        read(tmp_path, tmp_path / "log", must_repeat=True)
    for name in ("item_id", "user"):
        columns[name] = _items(length, rng)
    write(columns, tmp_path / "log", "csv")
    assert read(tmp_path, tmp_path / "log", must_repeat=True).tables == ("item_id", "user")


def test_numbers_with_fractions_take_the_place_of_no_key(tmp_path: Path) -> None:
    rng = random.Random(1)
    prices: Column = [rng.randint(1, 9) / 4 + 0.1 for _ in range(600)]
    write({"event_id": _shuffled(600, rng), "price": prices}, tmp_path / "log", "bare")
    with pytest.raises(DataError, match=mentions("log", "all 600 keys in 1", "no other column")):
        read(tmp_path, tmp_path / "log", must_repeat=True)


def test_requested_columns_of_distinct_keys_stay_and_are_noted(tmp_path: Path) -> None:
    rng = random.Random(1)
    write({"event_id": _shuffled(1_200, rng), "item_id": _items(1_200, rng)}, tmp_path / "log", "csv")
    found = read(tmp_path, tmp_path / "log", columns="key=event_id,item_id", must_repeat=True)
    assert found.tables == ("event_id", "item_id")
    assert says(found.notes[-1], "event_id", "1,200", "--ignore")


def test_a_key_that_recurs_after_the_first_rows_keeps_the_column(tmp_path: Path) -> None:
    rng = random.Random(1)
    users = _shuffled(3_000, rng)
    users[-1] = users[0]
    write({"user_id": users, "item_id": _items(3_000, rng)}, tmp_path / "log", "csv")
    assert read(tmp_path, tmp_path / "log", must_repeat=True).tables == ("user_id", "item_id")


def test_a_log_whose_keys_recur_in_no_other_mini_batch_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"{number // 2}\n" for number in range(600)))
    with pytest.raises(DataError, match=mentions("log", "300", "--batch", 150)):
        read(tmp_path, tmp_path / "log", batch=150, must_repeat=True)
    assert len(read(tmp_path, tmp_path / "log", batch=1, must_repeat=True)) == 600
    rows = "".join(f"{number // 20},1,{number // 2}\n" for number in range(600))
    (tmp_path / "log").write_text("iteration,worker,key\n" + rows)
    with pytest.raises(DataError, match=mentions("log", "300")) as refused:
        read(tmp_path, tmp_path / "log", must_repeat=True)
    assert "--batch" not in str(refused.value)


def test_a_training_set_without_a_repeated_feature_is_refused(tmp_path: Path) -> None:
    (tmp_path / "set").write_text("".join(f"{number % 2} {number + 1}:1\n" for number in range(400)))
    with pytest.raises(DataError, match=mentions("set", "400", "features")):
        data_files.load_training_set(tmp_path / "set", 2, 10)
    with pytest.raises(DataError, match=mentions("set", "400", "keys")):
        read(tmp_path, tmp_path / "set", must_repeat=True)


@pytest.mark.parametrize("length", LENGTHS)
def test_hot_sets_of_update_logs_without_a_repeated_key_are_refused(tmp_path: Path, length: int) -> None:
    log, hot = tmp_path / "log.csv", tmp_path / "hot.parquet"
    rows = "".join(f"{row // 10},1,{row * 7},3\n" for row in range(length))
    log.write_text("iteration,worker,key,job\n" + rows)
    commands = [
        ("build", log, "--top-k", 20, "-o", hot),
        ("build", log, "--top-k", 20, "-o", hot, "--job", 3),
        ("build", log, "--top-k", 20, "-o", hot, "--rule", "window"),
        ("curve", log),
        ("curve", log, "--job", 3),
    ]
    for command in commands:
        refused = invoke("hotset", *command)
        assert refused.exit_code == 1 and not hot.exists(), command
        assert refused.stderr.strip().count("\n") == 0
        assert says(refused.stderr, "log.csv", f"all {length:,} keys"), command
