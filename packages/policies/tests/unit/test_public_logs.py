"""Tables from public logs: what a study and shares by memory say, and where each file is from."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from foundation.errors import DataError
from hotline_policies.memory import memory_shares
from hotline_policies.public_logs import tables
from hotline_policies.public_logs.log_table import LogTable
from hotline_policies.public_logs.logs import PublicLog
from hotline_policies.public_logs.tables import BY_TABLE, FACTS, GENERATED, MEMORY, POLICIES, tables_of
from hotline_policies.result import study
from hotline_policies.rules import BY_NAME
from switch_harness.wording import mentions
from tests.harness.access_logs import oracle_general
from tests.harness.cli import json_of, output_of

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
def made(folder: Path, logs: tuple[PublicLog, ...]) -> dict[str, LogTable]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tables, "_STEPS", 20)
        return tables_of(logs, folder)


def test_the_table_of_policies_has_the_shares_of_studies(
    folder: Path, tmp_path: Path, made: dict[str, LogTable]
) -> None:
    table = made[POLICIES]
    assert [row[0] for row in table.rows] == [f"`{name}`" for name in BY_NAME]
    for column, (file, batch) in enumerate((("ratings.csv", 20), ("trace.bin", 1))):
        found = study(folder / file, into=tmp_path / file, sizes=(10,), samples_per_step=batch)
        for row, each in zip(table.rows, found.at(10).values(), strict=True):
            assert row[1 + 2 * column] == pytest.approx(100 * each.hits / each.updates, abs=0.051)
            moves = 1_000 * (each.installs + each.evictions) / each.updates
            assert row[2 + 2 * column] == pytest.approx(moves, abs=0.51)
        [facts] = [row for row in made[FACTS].rows if row[0] == file]
        assert facts[1:5] == (found.facts.updates, found.facts.keys, 10, found.facts.steps)
    by_table = {row[1]: row[2:] for row in made[BY_TABLE].rows}
    assert set(by_table) == {"user_id", "item_id"}  # a trace has no tables
    updates, shares = np.array([(row[0], row[2]) for row in by_table.values()], np.float64).T
    assert shares @ updates / updates.sum() == pytest.approx(table.rows[0][1], abs=0.1)


def test_the_table_of_memory_has_each_public_log_and_the_generated_log(
    folder: Path, made: dict[str, LogTable]
) -> None:
    table = made[MEMORY]
    assert list(dict.fromkeys(row[0] for row in table.rows)) == ["ratings.csv", "trace.bin", GENERATED]
    shares = memory_shares(folder / "trace.bin", batch=1)
    rows = [row for row in table.rows if row[0] == "trace.bin"]
    for row, each in zip(rows, shares.dims, strict=True):
        assert row[1:3] == (each.values, shares.keys)
        assert list(row[3:8]) == pytest.approx([100 * point.share for point in each.points], abs=0.051)


def test_a_missing_or_changed_file_is_named_with_its_origin(tmp_path: Path, folder: Path) -> None:
    log = log_in(folder, "ratings.csv")
    with pytest.raises(DataError, match=mentions("ratings.csv", "a package")):
        log.find(tmp_path)
    (tmp_path / "ratings.csv").write_text("user_id\n1\n")
    with pytest.raises(DataError, match=mentions(log.sha256, "a package")):
        log.find(tmp_path)


def test_the_command_prints_the_tables(
    folder: Path, logs: tuple[PublicLog, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hotline_policies.public_logs import logs as module

    monkeypatch.setattr(module, "LOGS", logs[1:])
    monkeypatch.setattr(tables, "_STEPS", 20)
    found = {
        name: LogTable.model_validate(table)
        for name, table in json_of("policies", "public-logs", folder).items()
    }
    assert tuple(found) == NAMES
    assert output_of("policies", "public-logs", folder).count("\n|") == sum(
        each.markdown().count("\n") + 1 for each in found.values()
    )
