"""Tables with an optimiser: the steps of PyTorch's on two servers, states that are saved, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotline
from experiment.run_config import Config
from foundation.designs.registry import NAMES, design
from hotline_scripts.embedding_tables import TableError, make_tables
from hotline_scripts.kv.calls import InvalidArgument
from hotline_scripts.terms import tables_of_design
from switch_harness.wording import mentions
from tests.harness import torch_optimisers
from tests.harness.loopback import RunningRendezvous, running_rendezvous
from tests.harness.torch_optimisers import DIM, ROWS, SCALE

F32 = np.float32


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningRendezvous]:
    with running_rendezvous(tmp_path, size=1) as running:
        yield running


def worker(running: RunningRendezvous, optimiser: Any, tables: Any = None) -> hotline.Worker:
    return hotline.Worker(tables or {"rows": (ROWS, DIM)}, SCALE, running.place, optimiser=optimiser)


def gradients(step: torch_optimisers.Step) -> Any:
    return (step.units / SCALE).astype(F32)


@pytest.mark.parametrize("text", torch_optimisers.OPTIMISERS)
def test_one_worker_trains_step_for_step_as_pytorch(running: RunningRendezvous, text: str) -> None:
    """Gradients are whole units, so only float32's rounding remains; another table's pushes do not count."""
    tables = {"rows": (ROWS, DIM), "sums": (4, 1), "others": (3, 2)}
    with worker(running, {"rows": text, "others": "adam"}, tables) as kv:
        assert kv.init(torch_optimisers.start(), "rows")
        kv.init(np.ones((4, 1), F32), "sums")
        for number, step in enumerate(torch_optimisers.steps(), start=1):
            kv.push([0, 2], np.ones((2, 2), F32), "others")
            kv.push([1], np.full((1, 1), 0.5, F32), "sums")
            out = np.empty((ROWS, DIM), F32)
            kv.push(step.rows, gradients(step), "rows")
            kv.wait(kv.pull(np.arange(ROWS), out, "rows"))
            expected = torch_optimisers.vectors(text)[number - 1]
            assert np.abs(out - expected).max() <= number * 2.0**-23 * max(1, np.abs(expected).max())
        assert kv.read("sums").tolist() == [[1], [1 + 0.5 * number], [1], [1]]


@pytest.mark.parametrize("text", [*torch_optimisers.OPTIMISERS, "ftrl(l1=0.01)"])
def test_training_continues_bit_for_bit_after_loading_saved_states(
    tmp_path: Path, running: RunningRendezvous, text: str
) -> None:
    steps, saved = torch_optimisers.steps(), tmp_path / "model.npz"
    with worker(running, text) as kv:
        kv.init(torch_optimisers.start())
        for step in steps[:6]:
            kv.push(step.rows, gradients(step))
        kv.save(saved)
        for step in steps[6:]:
            kv.push(step.rows, gradients(step))
        expected = kv.read()
    with worker(running, text) as kv:
        assert kv.load(saved)
        for step in steps[6:]:
            kv.push(step.rows, gradients(step))
        assert kv.read().tobytes() == expected.tobytes()


def test_an_archive_that_does_not_fit_is_named(tmp_path: Path, running: RunningRendezvous) -> None:
    saved = tmp_path / "model.npz"
    with worker(running, None) as kv:
        kv.push([1], np.ones((1, DIM), F32))
        kv.save(saved)
    with worker(running, "adam") as kv:
        with pytest.raises(InvalidArgument, match=mentions("rows.first", "float32", 5, 3)):
            kv.load(saved)
        with pytest.raises(InvalidArgument, match=mentions("nowhere.npz", "kv.save")):
            kv.load(tmp_path / "nowhere.npz")
    with worker(running, None) as kv:
        kv.load(saved)
        assert kv.read()[1].tolist() == [1] * DIM


def test_only_a_design_whose_servers_optimise_takes_optimisers() -> None:
    tables = make_tables({"a": (2, 1), "b": (2, 1)}, optimiser={"b": "sgd(lr=1)"})
    tables_of_design(Config(design="none"), tables)
    tables_of_design(Config(), make_tables({"a": (2, 1)}))
    message = r"^table b: optimiser sgd\(lr=1\): design hotset .* expected design collect, none"
    with pytest.raises(TableError, match=message):
        tables_of_design(Config(), tables)


@pytest.mark.parametrize("name", NAMES)
def test_each_design_takes_tables_of_several_dims(name: str) -> None:
    tables = tables_of_design(Config(design=name), make_tables({"bias": (9, 1), "users": (9, 16)}))
    # Without rows each value has a key of its own.
    expected = ((1, 16), 9 + 9) if design(name).has_rows else ((1,), 9 + 9 * 16)
    assert (tables.space.dims, tables.space.size) == expected
