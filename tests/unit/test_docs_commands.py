"""Commands that the pages show, of `./hotline` and of `make`, exist and take their options and variables."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import tomli

from experiment.config import load_config
from foundation.checkout import ROOT
from hotline.cli.commands import hotline
from tests.harness.make import planned_commands
from tests.unit.test_docs import OLD, PAGES

COMMAND = re.compile(r"^ {4}(?:sudo )?(\./hotline|make)\b(.*)$", re.MULTILINE)
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PLACEHOLDERS = {"NAME", "mine.recent"}  # the latter is a module that the reader writes


def commands(page: Path, program: str) -> list[list[str]]:
    """Return the arguments of each command of a program in a page, without comments."""
    found = COMMAND.findall(page.read_text())
    return [shlex.split(rest.partition("   #")[0].split(" # ")[0]) for name, rest in found if name == program]


SHOWN = sorted(set(PAGES) - set(OLD))
HOTLINE = [(page, words) for page in SHOWN for words in commands(page, "./hotline")]
MAKE = [(page, words) for page in SHOWN for words in commands(page, "make")]


def parse(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """Read arguments as the command does, without running it."""
    context = command.make_context(command.name, words, parent=parent)
    if isinstance(command, click.Group):
        _, chosen, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert chosen is not None
        parse(chosen, rest, context)


def label(value: object) -> str:
    return value.name if isinstance(value, Path) else " ".join(map(str, value))  # type: ignore[call-overload]  # a list of words


def test_the_pages_show_commands() -> None:
    assert len(HOTLINE) > 60 and len(MAKE) > 40


@pytest.mark.parametrize(("page", "words"), HOTLINE, ids=label)
def test_hotline_takes_the_arguments(page: Path, words: list[str]) -> None:
    parse(hotline, words)


FILE = re.compile(r"[\w./-]+\.(csv|gz|inter|ipynb|parquet|py|svm|toml|txt)")
FIRST = [(page, shown[0]) for page in SHOWN if (shown := commands(page, "./hotline"))]
CHECKOUT = [page for page in SHOWN if "softswitch" not in page.relative_to(ROOT).parts]
"""Pages whose commands are typed in the checkout; softswitch is a project of its own."""
NEEDS_ANOTHER_BUILD = {"packages/tofino/README.md"}  # of open-p4studio, which its first command names
PROGRAMS = {"./hotline", "make", "git"}
_BLOCK = re.compile(r"(?:\A|\n)\n    (?! )(.*)")  # the first line of an indented block
_SUDO = re.compile(r"^sudo ")


def first_command(page: Path) -> list[str] | None:
    """Return the words of a page's first command, or None if it shows none."""
    for line in _BLOCK.findall(page.read_text()):
        words = shlex.split(_SUDO.sub("", line.partition(" # ")[0]), comments=True)
        if words and (
            words[0] in PROGRAMS or "/bin/" in words[0] or words[0] in ("python", "hotline", "pip")
        ):
            return words
    return None


def test_the_first_command_of_a_page_names_a_program_of_the_checkout() -> None:
    """`python` and `hotline` alone would be other ones than those that `make setup` installs."""
    first = {str(page.relative_to(ROOT)): first_command(page) for page in CHECKOUT}
    shown = {page: words for page, words in first.items() if words is not None}
    assert len(shown) > 20
    for page, words in shown.items():
        assert words[0] in PROGRAMS or words[0].startswith(".venv/bin/"), page
        unknown = {word for word in words[1:] if re.fullmatch(r"[A-Z]{3,}(\.\.\.)?", word)}
        assert page in NEEDS_ANOTHER_BUILD or unknown <= PLACEHOLDERS | {"REPOSITORY"}, page
        for word in words[1:]:
            if FILE.fullmatch(word) and not word.startswith("runs/"):
                assert (ROOT / word).is_file(), f"{page}: {word}"


@pytest.mark.parametrize(("page", "words"), FIRST, ids=label)
def test_the_first_command_of_a_page_can_be_typed_as_it_stands(page: Path, words: list[str]) -> None:
    """A file that it reads is in the checkout, or in `runs`, where earlier commands write."""
    outputs = {words[at + 1] for at, word in enumerate(words[:-1]) if word == "-o"}
    for word in words:
        if FILE.fullmatch(word) and word not in outputs and not word.startswith("runs/"):
            assert (ROOT / word).is_file(), f"{page}: {word}"
    unknown = [word for word in words if re.fullmatch(r"[A-Z]{3,}(\.\.\.)?", word)]
    assert set(unknown) <= PLACEHOLDERS, page


@pytest.mark.parametrize(("page", "words"), MAKE, ids=label)
def test_make_takes_the_target_and_variables(page: Path, words: list[str]) -> None:
    assert words[0] in TARGETS
    if words[0] == "run-topo" and not PLACEHOLDERS & {word.partition("=")[2] for word in words}:
        load_config(words[1:])


@pytest.mark.parametrize("target", ["test", "soak"])
def test_make_gives_the_arguments_to_pytest_alone(target: str) -> None:
    """Without ARGS it is called without paths, and collects the tests of all projects."""
    *_, last = planned_commands(target, "ARGS=tests/mininet -k up")
    assert last[-3:] == ["tests/mininet", "-k", "up"] and "pytest" in last
    *_, whole = planned_commands(target)
    assert whole == last[:-3]
    options = tomli.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert {"tests", "packages", "softswitch/tests"} <= set(options["testpaths"])
