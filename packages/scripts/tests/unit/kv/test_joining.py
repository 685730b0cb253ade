"""Each argument of `hotline.Worker`, with each kind of wrong value: one error, and no worker joins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hotline
from tests.harness.loopback import running_rendezvous
from tests.harness.wrong_arguments import KINDS, is_named, refusal

VALID: dict[str, set[str]] = {
    "tables": set(),
    "scale": {"huge", "fraction"},
    "connect": {"None", "text", "text of a number"},
    "rank": {"None", "zero"},
    "optimiser": {"None"},
    "scale of a table": {"huge", "fraction"},
    "optimiser of a table": {"None"},
    "size of a table": set(),
    "rows of a table": set(),
}
"""Argument, or part of one -> kinds that are valid for it."""


def arguments_with(argument: str, wrong: Any) -> dict[str, Any]:
    parts = {
        "scale of a table": {"scale": {"a": wrong}},
        "optimiser of a table": {"optimiser": {"a": wrong}},
        "size of a table": {"tables": {"a": wrong}},
        "rows of a table": {"tables": {"a": (wrong, 1)}},
    }
    return parts.get(argument, {argument: wrong})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("argument", VALID)
def test_a_wrong_argument_is_named_with_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with running_rendezvous(tmp_path, size=1) as running:
        for kind in KINDS.keys() - VALID[argument]:
            wrong = KINDS[kind]()
            arguments = {"tables": {"a": (2, 1)}, "connect": running.place, **arguments_with(argument, wrong)}
            message = refusal(lambda: hotline.Worker(**arguments), kind)  # noqa: B023
            if argument == "rows of a table":
                # A number that is too large exceeds a limit.
                wrong = "2,147,483,647" if isinstance(wrong, int) and wrong > 1 else (wrong, 1)
            blamed = "table" if argument.endswith(("a table", "tables")) else argument.split()[0]
            assert blamed in message and is_named(message, wrong), (kind, message)
        assert not running.joined_workers
