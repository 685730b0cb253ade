"""Hot sets of rows: dims, lanes and memory in files, sets that a switch refuses, and how many rows fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import finsy as fy
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.errors import HotSetError
from controller.hotset import choice
from controller.hotset.coverage import table_limit
from controller.hotset.migrate import MigrationPlan, plan
from controller.sizes import SLOTS
from controller.tables import INGRESS, JobRow
from foundation.designs.registry import design
from foundation.errors import DataError
from foundation.logs.access.dims import RowSettings
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import DIMS, LANES, QUAD, VALUE_BYTES, lanes_of_dim, padded_dim
from foundation.protocol.memory import ENTRY_BYTES, memory_of, memory_of_rows, size_text
from foundation.protocol.rows import RowRange, banks_of_row, dims_in
from tests.harness.cli import invoke, json_of

MIXED = (RowRange(0, 1), RowRange(50, 16), RowRange(90, 64))
OPTIONS = {**{f"--dim {dim}": (RowRange(0, dim),) for dim in DIMS}, "--dims 50=16,90=64": MIXED}


def write_log(folder: Path, keys: int = 120) -> Path:
    log = folder / "log.parquet"
    pl.DataFrame({"key": range(keys), "updates": range(keys, 0, -1)}).write_parquet(log)
    return log


def build(folder: Path, options: str) -> Path:
    file = folder / f"{options}.parquet"
    json_of("hotset", "build", write_log(folder), "--top-k", 100, "-o", file, *options.split())
    return file


@pytest.mark.parametrize("options", OPTIONS)
def test_a_file_has_the_dim_and_the_lane_of_each_row(tmp_path: Path, options: str) -> None:
    file, ranges = build(tmp_path, options), OPTIONS[options]
    hot_set = choice.read(file)
    dims = dims_in(ranges, hot_set["key"].to_numpy()).tolist()
    assert hot_set["key"].to_list() == list(range(100)) and hot_set["dim"].to_list() == dims
    lanes = [lane_of(key, lanes_of_dim(dim)) for key, dim in enumerate(dims)]
    assert hot_set["lane"].to_list() == lanes
    shown = json_of("hotset", "show", file)
    assert shown["register_bytes"] == sum(max(dim, QUAD) * VALUE_BYTES for dim in dims)
    assert shown["entry_bytes"] == 100 * ENTRY_BYTES
    taken = [0] * LANES
    for lane, dim in zip(lanes, dims, strict=True):
        for bank in range(lane * banks_of_row(dim), (lane + 1) * banks_of_row(dim)):
            taken[bank] += 1
    assert shown["slots_in_bank"] == taken


@pytest.mark.parametrize("dim", range(1, DIMS[-1] + 1))
def test_other_dims_are_padded(dim: int) -> None:
    [row_range] = choice.ChoiceSettings(top_k=1, dim=dim).ranges
    assert row_range.dim == padded_dim(dim) >= dim
    assert RowSettings(dim=dim).dims_of_tables(()) == (padded_dim(dim),)
    assert memory_of(3, dim) == memory_of_rows(np.full(3, padded_dim(dim)))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that builds the file of these options once."""
    return cache(partial(build, tmp_path_factory.mktemp("built")))


@pytest.mark.parametrize("in_job", OPTIONS)
@pytest.mark.parametrize("in_file", OPTIONS)
def test_only_a_set_of_the_jobs_dims_is_loaded(
    built: Callable[[str], Path], in_file: str, in_job: str
) -> None:
    hot_set, ranges = choice.read(built(in_file)), OPTIONS[in_job]
    if in_file == in_job:
        choice.check_dims(hot_set, ranges, "hot.parquet", "job 4")
        return
    expected, got = dims_in(ranges, hot_set["key"].to_numpy()), hot_set["dim"].to_numpy()
    key = int(np.flatnonzero(expected != got)[0])
    with pytest.raises(HotSetError) as error:
        choice.check_dims(hot_set, ranges, "hot.parquet", "job 4")
    assert f"dim of key {key}: expected {expected[key]}, as the rows of job 4" in str(error.value)
    assert f"got {got[key]}; build it again" in str(error.value)
    remedy = re.findall(r"`hotline hotset build (--dims? [\d=,]+)`", str(error.value))
    assert [OPTIONS[text.replace("0=1,", "")] for text in remedy] == [ranges]


@pytest.mark.parametrize("dry_run", [False, True])
def test_load_refuses_other_dims_and_moves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    loaded: list[Sequence[int]] = []

    class Job:
        def __init__(self, *_: object, **__: object) -> None: ...

        async def __aenter__(self) -> Job:
            return self

        async def __aexit__(self, *_: object) -> None: ...

        async def job(self, job: int) -> JobRow:
            return JobRow(job, offload=True, proxy=False, ranges=(RowRange(0, 16),))

        async def load(self, job: int, keys: Sequence[int], **_: Any) -> MigrationPlan:
            loaded.append(keys)
            return MigrationPlan((), ())

        plan = load

    monkeypatch.setattr("controller.controller.Controller", Job)
    monkeypatch.setattr("hotline.cli.common.check_listening", lambda address: None)
    options = ["--job", 4, *(["--dry-run"] if dry_run else [])]
    refused = invoke("load", build(tmp_path, "--dim 64"), *options)
    assert (refused.exit_code, refused.stdout, loaded) == (1, "", [])
    assert "expected 16, as the rows of job 4" in refused.stderr and "got 64" in refused.stderr
    assert invoke("load", build(tmp_path, "--dim 16"), *options).exit_code == 0
    assert loaded == [list(range(100))]


dims = st.sampled_from(DIMS)


@given(
    st.lists(
        st.tuples(st.integers(0, 2**64 - 2), dims), min_size=1, max_size=60, unique_by=lambda row: row[0]
    ),
    st.integers(1, 4),
)
@settings(max_examples=60)
def test_the_limit_is_the_number_of_rows_that_the_controller_can_place(
    rows: list[tuple[int, int]], slots: int
) -> None:
    """The controller places wider rows first, and has a row at one slot of its banks."""
    keys = np.array([key for key, _ in rows], np.uint64)
    row_dims = np.array([dim for _, dim in rows], np.int64)
    order = np.argsort(keys)
    ranges = ((0, 1), *zip(keys[order].tolist(), row_dims[order].tolist(), strict=True))
    row_ranges = tuple(RowRange(first, dim) for first, dim in dict(ranges).items())
    limit = table_limit(keys, row_dims, SLOTS // slots)

    def is_placed(number: int) -> bool:
        try:
            plan([], 1, keys[:number].tolist(), True, slots=slots, ranges=row_ranges)
        except HotSetError:
            return False
        return True

    slots = SLOTS // (SLOTS // slots)
    assert is_placed(limit) and (limit == len(rows) or not is_placed(limit + 1))


@pytest.mark.parametrize("dim", DIMS)
def test_the_limit_and_the_memory_of_a_curve_follow_from_the_dim_of_its_rows(
    tmp_path: Path, dim: int
) -> None:
    keys = np.arange(5_000, dtype=np.uint64)
    log = tmp_path / "log.parquet"
    pl.DataFrame({"key": keys, "updates": np.ones(5_000, np.int64)}).write_parquet(log)
    jobs = 32
    found = json_of("hotset", "curve", log, "--dim", dim, "--jobs", jobs)
    full = SLOTS // jobs * lanes_of_dim(dim)
    assert found["limit"]["top_k"] <= full
    assert found["limit"]["top_k"] == table_limit(keys, np.full(5_000, dim), jobs)
    assert found["limit"]["top_k"] > full / 2
    chosen = memory_of(found["chosen"]["top_k"], dim)
    assert (found["register_bytes"], found["entry_bytes"]) == (chosen.registers, chosen.entries)


def test_a_curve_has_dims_by_table(tmp_path: Path) -> None:
    """By hand: 10 users and 20 items fill the switch with rows of 16 and 64 values."""
    log = tmp_path / "log.csv"
    rows = "".join(f"{step},{user},{item}\n" for step in range(4) for user, item in enumerate(range(10)))
    log.write_text("iteration,user,item\n" + rows)
    command = ("hotset", "curve", log, "--columns", "key=user,item,iteration=iteration")
    found = json_of(*command, "--dims", "user=16,item=64", "--top-k", 20)
    assert found["dims"] == [16, 64]
    assert found["register_bytes"] == 10 * 16 * 4 + 10 * 64 * 4
    one = json_of(*command, "--dims", "item=64", "--dim", 10, "--top-k", 20)
    assert one["register_bytes"] == found["register_bytes"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--dims user=16,price=4", "--dims price=4: expected a table of the log (user, item), got 'price'"),
        ("--dims user=129", "--dims: expected TABLE=DIM with a dim from 1 to 128, got 'user=129'"),
        ("--dims user", "expected TABLE=DIM with a dim from 1 to 128, got 'user'"),
        ("--dims user=x", "expected TABLE=DIM with a dim from 1 to 128, got 'user=x'"),
        ("--dims user=16 --dims user=8", "--dims: expected one dim of user, got 16 and 8"),
    ],
)
def test_wrong_dims_of_tables_are_one_clear_error(tmp_path: Path, options: str, message: str) -> None:
    log = tmp_path / "log.csv"
    log.write_text("user,item\n1,2\n3,4\n1,6\n")
    refused = invoke("hotset", "curve", log, "--columns", "key=user,item", "--batch", 1, *options.split())
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert message in refused.stderr


@pytest.mark.parametrize(("dims", "expected"), [("x=16", "key below"), ("5=0", "KEY=DIM"), ("5", "KEY=DIM")])
def test_wrong_dims_of_keys_are_one_clear_error(tmp_path: Path, dims: str, expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        assert choice.ChoiceSettings.model_validate({"top_k": 1, "dims": dims}).ranges
    file = tmp_path / "hot.parquet"
    refused = invoke("hotset", "build", write_log(tmp_path), "--top-k", 1, "-o", file, "--dims", dims)
    assert refused.exit_code == 1 and expected in refused.stderr and not file.exists()


@pytest.mark.parametrize("dim", DIMS)
def test_more_rows_than_slots_are_refused(tmp_path: Path, dim: int) -> None:
    rows = LANES * SLOTS // banks_of_row(dim)
    with pytest.raises(HotSetError, match=f"at most {rows} "):
        choice.build([write_log(tmp_path)], rows + 1, ranges=(RowRange(0, dim),))
    assert choice.build([write_log(tmp_path)], rows, ranges=(RowRange(0, dim),)).height == 120


def test_the_memory_of_rows_is_counted_from_the_compiled_program() -> None:
    schema = fy.P4Schema(design("hotset").p4info)
    table = schema.tables[f"{INGRESS}lookup_00.hot_params"]
    actions = [action for action in table.actions if action.alias.split(".")[-1] != "NoAction"]
    key_bits = sum(field.bitwidth for field in table.match_fields)
    slot_bits = {sum(param.bitwidth for param in action.params) for action in actions}
    bits = key_bits + max(slot_bits) + (len(actions) - 1).bit_length()
    assert ENTRY_BYTES * 8 - 8 < bits <= ENTRY_BYTES * 8
    assert memory_of(LANES * SLOTS, 1).registers == memory_of(SLOTS, 128).registers == 2_097_152


def test_sizes_are_printed_with_units() -> None:
    sizes = {0: "0 bytes", 999: "999 bytes", 1_000: "1 kB", 2_097_152: "2.1 MB", 3 * 10**9: "3 GB"}
    assert {size: size_text(size) for size in sizes} == sizes


DIMS_OF_LOGS = st.lists(st.sampled_from(DIMS), min_size=1, max_size=3, unique=True).map(sorted)


@pytest.mark.parametrize("is_column", [False, True])
@pytest.mark.parametrize("has_many_keys", [False, True])
@given(dims=DIMS_OF_LOGS)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_size_that_is_too_large_names_the_rows_that_the_log_has(
    tmp_path: Path, is_column: bool, has_many_keys: bool, dims: list[int]
) -> None:
    """Other ranges of keys, which are in no line of the log, have no part in it, and nor have other rooms."""
    first_key = 1_000
    dims_of_keys = np.repeat(dims, 8_000 if has_many_keys else 5)
    rng = np.random.default_rng(1)
    log = tmp_path / "log.parquet"
    pl.DataFrame(
        {
            "key": np.arange(first_key, first_key + len(dims_of_keys)),
            "updates": rng.permutation(len(dims_of_keys)) + 1,
            "size": dims_of_keys,
        }
    ).write_parquet(log)
    changes = np.flatnonzero(np.diff(dims_of_keys, prepend=0)).tolist()
    of_log = [RowRange(first_key + place, int(dims_of_keys[place])) for place in changes]
    others = (RowRange(0, 1), *of_log, RowRange(first_key + len(dims_of_keys), 128))
    build = partial(
        choice.build, [log], ranges=others if not is_column else (RowRange(0, 1),),
        dim_column="size" if is_column else None,
    )  # fmt: skip
    with pytest.raises(HotSetError, match="too large") as refused:
        build(choice.MAX_KEYS + 1)
    text = str(refused.value)
    room = int(re.findall(r"at most (\d+) ", text)[0])
    hottest = pl.read_parquet(log).sort("updates", descending=True)["size"].to_numpy()
    slots = np.cumsum([banks_of_row(dim) for dim in hottest.tolist()])
    if slots[-1] > choice.MAX_KEYS:
        assert room == np.count_nonzero(slots <= choice.MAX_KEYS)
        assert build(room).height == room
    else:
        assert room == choice.MAX_KEYS // banks_of_row(dims[0])
    if dims == [1]:
        assert text.endswith("keys fit")
    else:
        assert f"rows of {' and '.join(map(str, dims))} values" in text
