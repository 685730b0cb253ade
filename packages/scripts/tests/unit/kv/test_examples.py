"""The examples train, with two workers, on loopback."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.extras import needs_torch
from tests.harness.loopback import running_rendezvous

RunExample = Callable[..., tuple[str, list[dict[str, Any]]]]
EXAMPLES = Path(__file__).parents[5] / "examples"


@pytest.fixture
def run_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunExample:
    def run(name: str, *arguments: str) -> tuple[str, list[dict[str, Any]]]:
        command = [sys.executable, str(EXAMPLES / name), *arguments]
        with running_rendezvous(tmp_path) as running:
            monkeypatch.setenv("HOTLINE_CONNECT", str(running.place))
            workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
            printed = [worker.communicate()[0] for worker in workers]
        assert [worker.returncode for worker in workers] == [0, 0]
        return "".join(printed), running.reports

    return run


def test_the_push_pull_example_adds_the_pushes_of_both_workers(run_example: RunExample) -> None:
    """Each worker pushes to 500 of 1,000 rows, so half of them are also the other's."""
    printed, _ = run_example("push_pull.py")
    found = dict(re.findall(r"worker (\d) of 2: .* ([\d.]+) times", printed))
    assert set(found) == {"0", "1"} and all(1.4 < float(times) < 1.6 for times in found.values())


@pytest.mark.soak
def test_the_matrix_factorisation_example_lowers_its_loss(run_example: RunExample) -> None:
    printed, reports = run_example("matrix_factorisation.py", "--epochs", "4", "--ratings", "4000")
    assert re.search(r"held-out ratings is [\d.]+; [\d.]+ if predicted by the mean", printed)
    losses = [report["metrics"]["loss"] for report in reports if report["rank"] == 0]
    assert len(losses) == 4 and losses[-1] < 0.97 * losses[0]


@needs_torch
@pytest.mark.parametrize("more", [(), ("--optimiser", "adagrad(lr=0.05)")], ids=["sgd", "adagrad"])
def test_the_dlrm_example_lowers_its_loss(run_example: RunExample, more: tuple[str, ...]) -> None:
    printed, reports = run_example("dlrm.py", "--epochs", "2", "--samples", "8000", *more)
    found, plain = map(float, re.findall(r"0\.\d+", printed))
    assert found < plain - 0.01
    losses = [report["metrics"]["loss"] for report in reports if report["rank"] == 0]
    assert len(losses) == 5 and losses[-1] < losses[0] - 0.01
