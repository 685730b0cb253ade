"""`make help` and `make help-dev`: each target is in one of them, and both fit a terminal of 80 columns."""

from __future__ import annotations

import re
import subprocess

import pytest

from foundation.checkout import ROOT
from tests.harness.make import outer_environment
from tests.unit.repository.test_docs_commands import TARGETS

HELPS = ("help", "help-dev")
WIDTH = 80
FOR_USERS = {"setup", "run-topo", "test", "shell", "check", "p4", "clean"}


def lines_of(target: str) -> list[str]:
    done = subprocess.run(
        ["make", "--no-print-directory", target],
        cwd=ROOT,
        env=outer_environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()


def targets_in(lines: list[str]) -> list[str]:
    return [match[1] for line in lines if (match := re.match(r"  make ([a-z0-9-]+) +\S", line))]


@pytest.mark.parametrize("target", HELPS)
def test_help_fits_80_columns(target: str) -> None:
    assert max(map(len, lines_of(target))) <= WIDTH


@pytest.mark.parametrize("target", HELPS)
def test_targets_of_help_stand_below_the_title_of_a_group(target: str) -> None:
    lines = lines_of(target)
    assert re.fullmatch(r"[A-Z][a-z ]+", lines[0])
    for title in (lines[number + 1] for number, line in enumerate(lines) if not line):
        assert re.match(r"[A-Z]|make |\./hotline ", title), title


def test_each_target_is_in_exactly_one_of_the_two_helps() -> None:
    users, developers = (targets_in(lines_of(target)) for target in HELPS)
    assert sorted(users + developers) == sorted(TARGETS - set(HELPS))
    assert set(users) == FOR_USERS


def test_help_says_where_variables_commands_and_other_targets_are_explained() -> None:
    text = "\n".join(lines_of("help"))
    assert all(line in text for line in ("./hotline run --help", "./hotline --help", "make help-dev"))


def test_no_target_is_an_alias_of_a_command() -> None:
    """`./hotline simulate` needs no second name; `run-topo` also sets up, and runs as root."""
    recipes = re.findall(r"^\t@(.*\./hotline .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [recipe for recipe in recipes if not recipe.startswith("printf")] == [
        "$(AS_ROOT) ./hotline run $(SETTINGS)"
    ]


def test_help_of_hotline_names_the_tutorial() -> None:
    done = subprocess.run([ROOT / "hotline", "--help"], check=True, capture_output=True, text=True)
    assert "docs/tutorial.md" in done.stdout
