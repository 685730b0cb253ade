"""Logs without a repeated key: each command that scores a log refuses them in one line."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from experiment.errors import PreflightError
from experiment.phases.workload import read_data
from experiment.run_config import Config
from hotline_simulator.experiment import quiet_reporter
from switch_harness.wording import mentions, says
from tests.harness.cli import invoke

LENGTHS = (100, 600, 3_000)
COMMANDS: dict[str, tuple[object, ...]] = {
    "answer": ("answer", "--workers", 4, "--servers", 2, "--data"),
    "hotset curve": ("hotset", "curve"),
    "policies": ("policies",),
    "policies memory": ("policies", "memory"),
    "policies miss-ratio": ("policies", "miss-ratio"),
}


def _one_column(length: int) -> str:
    return "".join(f"{number}\n" for number in range(1, length + 1))


def _several_columns(length: int) -> str:
    numbers = random.Random(length).sample(range(10**6), length)
    rows = (f"{number},{at % 7},{at / 8}\n" for at, number in enumerate(numbers))
    return "event_id,category,price\n" + "".join(rows)


LOGS: dict[str, tuple[Callable[[int], str], str]] = {
    "one column": (_one_column, "no other column"),
    "several columns": (_several_columns, "category"),
}
"""Text of a log by its length, and the choice that the refusal names."""


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_a_log_without_a_repeated_key(
    tmp_path: Path, command: str, length: int, kind: str
) -> None:
    text, choice = LOGS[kind]
    (tmp_path / "log").write_text(text(length))
    refused = invoke(*COMMANDS[command], tmp_path / "log")
    assert (refused.exit_code, refused.stdout) == (1, "")
    last = refused.stderr.splitlines()[-1]
    assert says(last, tmp_path / "log", f"all {length:,} keys", choice), refused.stderr
    assert refused.stderr.count("all ") == 1


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("length", LENGTHS)
def test_a_run_refuses_data_without_a_repeated_key(tmp_path: Path, length: int, kind: str) -> None:
    text, choice = LOGS[kind]
    (tmp_path / "log").write_text(text(length))
    with pytest.raises(PreflightError, match=mentions(tmp_path / "log", f"all {length:,} keys", choice)):
        read_data(Config(data=tmp_path / "log"), quiet_reporter())
