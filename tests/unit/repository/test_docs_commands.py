"""Commands that the pages show can be typed: programs, modules, options, variables and files exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import click
import pytest
import tomli

from experiment.run_config import load_config
from foundation.checkout import ROOT
from foundation.designs.hotset import ARMS
from hotline.cli.commands import hotline
from softswitch.verbs import SUBCOMMANDS
from tests.harness.make import planned_commands
from tests.harness.page_commands import PROGRAM, Place, ShownCommand, all_commands_of, commands_of
from tests.unit.repository.test_docs import OLD, PAGES

TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PLACEHOLDERS = {"NAME", "mine.recent"}  # the latter is a module that the reader writes
WRITTEN_BY_THE_READER = {"mine.look", "mine.one_push", "mine.watch_hot"}
INSTALLED_BY_THE_READER = {"jupyter": "jupyterlab"}
"""Program -> the package that a command before it installs."""
FENCED = {"cd", "cp", "export", "mkdir"}
"""Other programs in blocks of shell."""

SHOWN = sorted(set(PAGES) - set(OLD))
COMMANDS = [command for page in SHOWN for command in commands_of(page)]


def commands(*programs: str) -> list[ShownCommand]:
    """Return the commands of some programs, wherever their files are."""
    return [command for command in COMMANDS if Path(command.words[0]).name in programs]


WHOLE = [command for command in COMMANDS if command.place != Place.SENTENCE]
HOTLINE = [command for command in commands("hotline") if command in WHOLE]
IN_SENTENCES = [command for command in commands("hotline") if command not in WHOLE]
MAKE = commands("make")


def parse(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """Read arguments as the command does, without running it."""
    context = command.make_context(command.name, words, parent=parent)
    if isinstance(command, click.Group):
        _, chosen, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert chosen is not None
        parse(chosen, rest, context)


def label(command: ShownCommand) -> str:
    return f"{command.page.name}: {' '.join(command.words)}"


def test_the_pages_show_commands() -> None:
    assert len(HOTLINE) > 60 and len(MAKE) > 40
    for program in ("hotline", "softswitch", "python", "pip", "dask", "pytest"):
        assert commands(program) or any(program in command.words for command in COMMANDS)


def test_all_programs_of_shell_blocks_are_known() -> None:
    """A block of another program would be checked by no test of this module."""
    for page in SHOWN:
        programs = {command.words[0] for command in all_commands_of(page) if command.place == Place.SHELL}
        assert {program for program in programs if not PROGRAM.fullmatch(program)} <= FENCED, page


@pytest.mark.parametrize("command", HOTLINE, ids=label)
def test_hotline_takes_the_arguments(command: ShownCommand) -> None:
    parse(hotline, list(command.words[1:]))


@pytest.mark.parametrize("command", IN_SENTENCES, ids=label)
def test_hotline_has_the_command_and_options_of_a_sentence(command: ShownCommand) -> None:
    """A sentence leaves arguments out, so options are looked up without being parsed."""
    verb: click.Command = hotline
    rest = list(command.words[1:])
    while isinstance(verb, click.Group) and rest and rest[0] in verb.commands:
        verb = verb.commands[rest.pop(0)]
    assert verb is not hotline
    # A group's first command is meant where none is named.
    options = {name for each in (verb, *default_of(verb)) for param in each.params for name in param.opts}
    options.add("--help")
    assert {word for word in rest if word.startswith("--")} <= options


def default_of(verb: click.Command) -> list[click.Command]:
    return list(verb.commands.values())[:1] if isinstance(verb, click.Group) else []


def text_of(module: str) -> str:
    """Return the source of a module, or of all modules of a package."""
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None, module
    source = Path(spec.origin)
    sources = sorted(source.parent.glob("*.py")) if source.name == "__init__.py" else [source]
    return "".join(each.read_text() for each in sources)


MODULES = [command for command in commands("python") if command.words[1] == "-m"]


@pytest.mark.parametrize("command", MODULES, ids=label)
def test_python_finds_the_module_and_its_options(command: ShownCommand) -> None:
    _, _, module, *arguments = command.words
    if module in WRITTEN_BY_THE_READER:
        return
    assert find_spec(module) is not None
    if module == "pytest":
        paths = [word for word in arguments if "/" in word and "NAME" not in word]
        # Students copy exercises into the folder `mine`.
        copied = [re.sub("^mine/", "examples/course/", path) for path in paths]
        assert all(list(command.folder.glob(path)) for path in copied), paths
        return
    text = text_of(module)
    for option in (word for word in arguments if word.startswith("--")):
        assert option in text or option[2:] in text, option


@pytest.mark.parametrize("command", commands("softswitch"), ids=label)
def test_softswitch_has_the_command_and_its_options(command: ShownCommand) -> None:
    verb, *rest = *command.words[1:], ""
    text = text_of(SUBCOMMANDS.get(verb, "softswitch.cli"))
    for option in (word for word in (verb, *rest) if word.startswith("--")):
        assert f'"{option}"' in text or option == "--help", option


@pytest.mark.parametrize("command", commands("pip"), ids=label)
def test_pip_finds_the_projects_and_extras(command: ShownCommand) -> None:
    for word in (word for word in command.words[1:] if word.startswith(".")):
        if match := re.fullmatch(r"(\.[\w./-]*)(?:\[(\w+)\])?", word):
            files = [each / match[1] / "pyproject.toml" for each in (command.folder, ROOT)]
            project = tomli.loads(next(file for file in files if file.is_file()).read_text())["project"]
            assert match[2] is None or match[2] in project["optional-dependencies"]


@pytest.mark.parametrize("command", [each for each in WHOLE if "/" in each.words[0]], ids=label)
def test_a_program_with_a_path_exists(command: ShownCommand) -> None:
    name = command.words[0].rpartition("/")[2]
    if name in INSTALLED_BY_THE_READER:
        assert any(INSTALLED_BY_THE_READER[name] in each.words for each in commands_of(command.page))
    else:
        assert which(command.folder / command.words[0]), command.words[0]


def examples(verb: click.Command) -> Iterator[str]:
    """Yield the examples of help of a command, and of those below it."""
    if verb.epilog:
        yield verb.epilog.removeprefix("Example: hotline ")
    for each in verb.commands.values() if isinstance(verb, click.Group) else ():
        yield from examples(each)


@pytest.mark.parametrize("example", sorted(examples(hotline)))
def test_an_example_of_help_can_be_parsed(example: str) -> None:
    parse(hotline, shlex.split(example))


def test_a_job_of_an_example_is_an_arm_that_reports_show() -> None:
    """The profile's job, which trains before the measured arms, has no hot set to change."""
    lines = [list(each.words) for each in commands("hotline")]
    lines += [shlex.split(example) for example in examples(hotline)]
    measured = {str(arm.job) for arm in ARMS if arm.is_measured}
    with_jobs = {" ".join(words): words[words.index("--job") + 1] for words in lines if "--job" in words}
    assert len(with_jobs) > 20
    assert {line for line, job in with_jobs.items() if job not in measured} == set()


FILE = re.compile(r"[\w./-]+\.(csv|gz|inter|ipynb|parquet|py|svm|toml|txt)")
CHECKOUT = [page for page in SHOWN if "softswitch" not in page.relative_to(ROOT).parts]
"""Pages whose commands are typed in the checkout; softswitch is a project of its own."""
NEEDS_ANOTHER_BUILD = {"packages/tofino/README.md"}  # of open-p4studio, which its first command names


def first_command(page: Path) -> tuple[str, ...] | None:
    """Return the words of a page's first command, or None if it shows none."""
    whole = (command.words for command in all_commands_of(page) if command.place != Place.SENTENCE)
    return next((words for words in whole if PROGRAM.fullmatch(words[0]) or words[0] == "git"), None)


def test_the_first_command_of_a_page_names_a_program_of_the_checkout() -> None:
    """`python` and `hotline` alone would be other ones than those that `make setup` installs."""
    first = {str(page.relative_to(ROOT)): first_command(page) for page in CHECKOUT}
    shown = {page: words for page, words in first.items() if words is not None}
    assert len(shown) > 20
    for page, words in shown.items():
        assert words[0] in ("make", "git") or words[0].startswith((".venv/bin/", "./")), page
        unknown = {word for word in words[1:] if re.fullmatch(r"[A-Z]{3,}(\.\.\.)?", word)}
        assert page in NEEDS_ANOTHER_BUILD or unknown <= PLACEHOLDERS | {"REPOSITORY"}, page
        for word in words[1:]:
            if FILE.fullmatch(word) and not word.startswith("runs/"):
                assert (ROOT / word).is_file(), f"{page}: {word}"


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_first_command_of_a_page_needs_no_missing_file_and_no_placeholder(page: Path) -> None:
    """A file that it reads is in the checkout, or in `runs`, where earlier commands write."""
    words = next((each.words for each in HOTLINE if each.page == page), ())
    outputs = {words[at + 1] for at, word in enumerate(words[:-1]) if word == "-o"}
    for word in words:
        if FILE.fullmatch(word) and word not in outputs and not word.startswith("runs/"):
            assert (ROOT / word).is_file(), word
    assert {word for word in words if re.fullmatch(r"[A-Z]{3,}(\.\.\.)?", word)} <= PLACEHOLDERS


@pytest.mark.parametrize("command", MAKE, ids=label)
def test_make_takes_the_target_and_variables(command: ShownCommand) -> None:
    target, *variables = command.words[1:]
    assert target in TARGETS
    values = {variable.partition("=")[2] for variable in variables}
    if target == "run-topo" and not PLACEHOLDERS & values:
        load_config(variables)


@pytest.mark.parametrize("target", ["test", "soak"])
def test_make_gives_the_arguments_to_pytest_alone(target: str) -> None:
    """Without ARGS it is called without paths, and collects the tests of all projects."""
    *_, last = planned_commands(target, "ARGS=tests/mininet -k up")
    assert last[-3:] == ["tests/mininet", "-k", "up"] and "pytest" in last
    *_, whole = planned_commands(target)
    assert whole == last[:-3]
    options = tomli.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert set(options["testpaths"]) == {"tests", "packages"}
