"""Tables from public logs: what a study and shares by memory say, and where each file is from."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foundation.errors import DataError
from foundation.protocol.header import VERSION
from hotline_policies.memory import memory_shares
from hotline_policies.public_logs import tables
from hotline_policies.public_logs.logs import LOGS, PublicLog
from hotline_policies.public_logs.published import PublishedResult
from hotline_policies.public_logs.tables import BY_TABLE, FACTS, GENERATED, MEMORY, POLICIES, results_of
from hotline_policies.result import study
from hotline_policies.rules import BY_NAME
from switch_harness.wording import mentions
from tests.harness.access_logs import oracle_general
from tests.harness.cli import invoke, json_of
from tools.evidence.result import RESULTS, read_result

NAMES = (POLICIES, FACTS, BY_TABLE, MEMORY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found, chance = tmp_path_factory.mktemp("logs"), np.random.default_rng(1)
    objects = (200 * chance.random(3_000) ** 3).astype(int).tolist()
    (found / "trace.bin").write_bytes(oracle_general(objects))
    rows = (f"{user},{item}" for user, item in (60 * chance.random((2_000, 2)) ** 2).astype(int).tolist())
    (found / "ratings.csv").write_text("\n".join(["user_id,item_id", *rows]) + "\n")
    return found


def log_in(folder: Path, file: str, **options: object) -> PublicLog:
    digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    return PublicLog(file, file, "a package", 1, digest, hot_keys=10, options=options)


@pytest.fixture(scope="module")
def logs(folder: Path) -> tuple[PublicLog, ...]:
    return log_in(folder, "ratings.csv", batch=20), log_in(folder, "trace.bin", batch=1)


@pytest.fixture(scope="module")
def made(folder: Path, logs: tuple[PublicLog, ...]) -> dict[str, PublishedResult]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tables, "_STEPS", 20)
        return results_of(logs, folder)


def cells_of(result: PublishedResult) -> dict[tuple[str, ...], dict[str, Any]]:
    names = [column.name for column in result.table.columns]
    return {row.names: dict(zip(names, row.cells, strict=True)) for row in result.table.rows}


def test_the_table_of_policies_is_that_of_studies(
    folder: Path, tmp_path: Path, made: dict[str, PublishedResult]
) -> None:
    policies, facts = cells_of(made[POLICIES]), cells_of(made[FACTS])
    assert list(policies) == [(f"`{name}`",) for name in BY_NAME]
    for file, batch in (("ratings.csv", 20), ("trace.bin", 1)):
        found = study(folder / file, into=tmp_path / file, sizes=(10,), samples_per_step=batch)
        for name, each in found.at(10).items():
            cells = policies[f"`{name}`",]
            assert cells[f"{file}, %"] == pytest.approx(100 * each.hits / each.updates)
            moves = 1_000 * (each.installs + each.evictions) / each.updates
            assert cells[f"{file}, moves"] == pytest.approx(moves)
        cells = facts[file,]
        assert (cells["keys"], cells["keys in the switch"]) == (found.facts.keys, 10)
        past = [name for name in BY_NAME if name not in ("belady", "look-ahead")]
        best = max(past, key=lambda name: found.at(10)[name].hits)
        assert cells["best that sees the past only"] == f"`{best}`"
    by_table = cells_of(made[BY_TABLE])
    assert set(by_table) == {("ratings.csv", "user_id"), ("ratings.csv", "item_id")}  # a trace has no tables
    updates, shares = np.array([(each["updates"], each["`belady`"]) for each in by_table.values()]).T
    assert shares @ updates / updates.sum() == pytest.approx(policies["`belady`",]["ratings.csv, %"])


def test_the_table_of_memory_has_each_log_and_the_generated_one(
    folder: Path, made: dict[str, PublishedResult]
) -> None:
    table = cells_of(made[MEMORY])
    assert list(dict.fromkeys(log for log, _ in table)) == ["ratings.csv", "trace.bin", GENERATED]
    shares = memory_shares(folder / "trace.bin", batch=1)
    for each in shares.dims:
        cells = list(table["trace.bin", each.values].values())
        assert cells[0] == shares.keys
        assert cells[1:6] == pytest.approx([100 * point.share for point in each.points])


def test_the_files_are_results_of_a_recipe(made: dict[str, PublishedResult], tmp_path: Path) -> None:
    for name, each in made.items():
        each.write(tmp_path / f"{name}.json")
        result = read_result(tmp_path / f"{name}.json")
        assert [row.names for row in result.table.rows] == [row.names for row in each.table.rows]
        recipe = str(result.origin.recipe)
        assert "ratings.csv" in recipe and "a package" in recipe and result.origin.wire == VERSION
        assert result.origin.code == "" and len(result.origin.commit) == 40


def test_a_missing_or_changed_file_is_named_with_its_origin(tmp_path: Path, folder: Path) -> None:
    log = log_in(folder, "ratings.csv")
    with pytest.raises(DataError, match=mentions("ratings.csv", "a package")):
        log.find(tmp_path)
    (tmp_path / "ratings.csv").write_text("user_id\n1\n")
    with pytest.raises(DataError, match=mentions(log.sha256, "a package")):
        log.find(tmp_path)


def test_the_command_writes_and_prints_the_tables(
    folder: Path, logs: tuple[PublicLog, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hotline_policies.public_logs import logs as module

    monkeypatch.setattr(module, "LOGS", logs[1:])
    monkeypatch.setattr(tables, "_STEPS", 20)
    found = json_of("policies", "public-logs", folder, "--into", tmp_path)
    assert found == {"files": [str(tmp_path / f"{name}.json") for name in NAMES]}
    printed = invoke("policies", "public-logs", folder, "--into", tmp_path).stdout
    for row in read_result(tmp_path / f"{POLICIES}.json").table.rows:
        assert f"{row.cells[0]:.1f}" in printed


@pytest.mark.parametrize("name", NAMES)
def test_the_published_results_are_of_these_logs(name: str) -> None:
    recipe = str(read_result(RESULTS / f"{name}.json").origin.recipe)
    assert all(log.sha256 in recipe and log.origin in recipe for log in LOGS)
