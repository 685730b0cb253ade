"""Archives of tables: whatever is wrong with a file, no table is set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotline
from hotline_scripts.kv.calls import InvalidArgument
from tests.harness.loopback import running_rendezvous

TABLES = {"rows": (4, 1), "wide": (4, 2), "unset": (2, 1)}
F32 = np.float32


def write(path: Path, octets: bytes) -> Path:
    path.write_bytes(octets)
    return path


def damaged_archives(folder: Path, good: bytes) -> Iterator[tuple[str, Path]]:
    """Yield archives that are cut off or changed anywhere, and files that are none."""
    yield "folder", folder
    yield "missing", folder / "missing.npz"
    for share in range(0, 10):
        yield f"cut at {share}/10", write(folder / f"cut-{share}.npz", good[: len(good) * share // 10])
    for place in range(0, len(good), 11):
        changed = bytearray(good)
        changed[place] ^= 0xFF
        yield f"byte {place} changed", write(folder / f"changed-{place}.npz", bytes(changed))
    np.save(folder / "array.npy", np.zeros(3))
    yield "array", folder / "array.npy"
    arrays: dict[str, dict[str, Any]] = {
        "objects": {"rows": np.array([None])},
        "other dtype": {"rows": np.zeros((4, 1))},
        "other shape": {"rows": np.zeros((4, 2), F32)},
        "NaN": {"rows": np.full((4, 1), np.nan, F32)},
        "without a table": {"wide": np.zeros((4, 2), F32)},
        "steps of floats": {"rows": np.zeros((4, 1), F32), "rows.steps": np.array(1.5)},
        "steps below 0": {"rows": np.zeros((4, 1), F32), "rows.steps": np.array(-1)},
        "steps of a shape": {"rows": np.zeros((4, 1), F32), "rows.steps": np.zeros(2, int)},
    }
    for name, content in arrays.items():
        others = {"wide": np.zeros((4, 2), F32), "unset": np.zeros((2, 1), F32)}
        with (folder / f"{name}.npz").open("wb") as file:
            np.savez(file, **{**others, **content})
        yield name, folder / f"{name}.npz"


@pytest.mark.filterwarnings("error")
def test_an_archive_that_cannot_be_loaded_sets_no_table(tmp_path: Path) -> None:
    """A changed byte that NumPy does not notice may load; its values are then those of the archive."""
    with (
        running_rendezvous(tmp_path, size=1) as running,
        hotline.Worker(TABLES, scale=1.0, connect=running.place) as kv,
    ):
        kv.save(tmp_path / "good.npz")
        good = (tmp_path / "good.npz").read_bytes()
        refused_count = 0
        for kind, path in damaged_archives(tmp_path, good):
            submitted = kv._open_engine._values_submitted
            try:
                kv.load(path)
            except InvalidArgument as error:
                refused_count += 1
                assert str(path) in str(error) and "expected" in str(error), kind
                assert not kv._written_tables and kv._open_engine._values_submitted == submitted, kind
            else:
                assert kind.startswith("byte "), kind
                assert not any(kv.read(table).any() for table in TABLES)
                kv._written_tables.clear()  # so that the next archive is tried, too
        assert refused_count > 30


@pytest.mark.parametrize("name", ["file", "allow_pickle", "self", "a.first", "a/b", "../x", "arr_0", "ü"])
def test_a_table_of_any_printable_name_is_saved_and_loaded(tmp_path: Path, name: str) -> None:
    values = np.array([[1], [2]], F32)
    with running_rendezvous(tmp_path, size=1) as running:
        with hotline.Worker({name: (2, 1)}, connect=running.place) as kv:
            kv.push([0, 1], values)
            kv.save(tmp_path / "model.npz")
        with hotline.Worker({name: (2, 1)}, connect=running.place) as kv:
            assert kv.load(tmp_path / "model.npz")
            assert kv.read().tolist() == values.tolist()
