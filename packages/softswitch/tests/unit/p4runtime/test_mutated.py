"""Mutated batches, in which calls fail: server and data plane have what the plain model has."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.conformance.direct import DirectPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.batch import Batch
from softswitch.p4runtime.entities import cells
from softswitch.state.memory import Memory
from switch_harness.p4runtime_fuzz import Fuzzer

BATCHES = {InterpretedPipeline: 250, CompiledPipeline: 100}
SOAK_BATCHES = 5_000
"""Batches of each seed in `make soak`, where there are 100 seeds of each pipeline: a million in all."""


def fuzz(make: Any, seed: int, batches: int) -> Fuzzer:
    fuzzer = Fuzzer(make, Random(seed))
    for _ in range(batches):
        fuzzer.run_batch()
    return fuzzer


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Do not log the failures that are injected."""
    caplog.set_level(logging.CRITICAL)


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("make", BATCHES)
def test_mutated_batches_leave_the_state_of_the_model(make: Any, seed: int) -> None:
    fuzzer = fuzz(make, seed, BATCHES[make])
    assert fuzzer.codes["OK"] > BATCHES[make] // 4
    assert fuzzer.codes["ABORTED"] and fuzzer.codes["FAILED_PRECONDITION"] and fuzzer.codes["INTERNAL"]


@pytest.mark.no_cover
def test_mutated_batches_in_the_kernel_leave_the_state_of_the_model(kernel_datapath: None) -> None:
    assert fuzz(DirectPipeline, 1, 60).batches == 60


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 200))
@pytest.mark.parametrize("make", BATCHES)
def test_a_million_mutated_batches_leave_the_state_of_the_model(make: Any, seed: int) -> None:
    assert fuzz(make, seed, SOAK_BATCHES).batches == SOAK_BATCHES


def no_roll_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batch, "roll_back", lambda self: None)


def no_undo_in_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Memory, "_undo", lambda self: None)


def forgotten_meter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        cells.MeterEntries,
        "configure",
        lambda self, array, indices, config, batch: [
            batch.put(self._configs, (array.id, index), config) for index in indices
        ],
    )


@pytest.mark.no_cover
@pytest.mark.parametrize("plant", [no_roll_back, no_undo_in_the_pipeline, forgotten_meter])
def test_a_planted_bug_is_found_by_mutated_batches(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: Any
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        fuzz(CompiledPipeline, 3, 400)
