"""The files of docs/tutorial.md are the repository's, and its commands print what it shows."""

from __future__ import annotations

import doctest
import importlib
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from foundation.designs import registry
from hotline.cli.commands import hotline
from hotline_simulator import simulated_switch
from softswitch.load import load_program
from switch_harness.wording import says
from tests.unit.repository.test_rooms import ROOT

TUTORIAL = ROOT / "examples" / "tutorial"
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
FILES: dict[str, str] = dict(re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.M | re.S))
"""Name, from the reader's package -> text."""


class Command(NamedTuple):
    line: str
    shown: str
    """The output on the page; "..." is anything."""


CONSOLES = re.findall(r"^```console\n\$ (.*?)^```$", PAGE, re.M | re.S)
COMMANDS = [
    Command(line, shown)
    for console in CONSOLES
    for line, _, shown in (each.partition("\n") for each in re.split(r"^\$ ", console, flags=re.M))
]
BY_PYTHON = ".venv/bin/python -m ", "./hotline simulate "
PREPARING = [command for command in COMMANDS if command.line.startswith(("mkdir ", "(cd ", "cp "))]
LOOKING = [command for command in COMMANDS if command.line.startswith(BY_PYTHON)]
RUNNING = [command for command in COMMANDS if command.line.startswith(("sudo ", "./hotline compare "))]
"""What builds a network (`tests/mininet/test_tutorial_runs.py`)."""


def prepare_home(home: Path) -> None:
    """Prepare a reader's home by the page's commands and files."""
    script = "\n".join(command.line for command in PREPARING).replace("~", str(home))
    ended = subprocess.run(
        ["sh", "-ec", f"{script}\npwd"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert ended.stdout == f"{ROOT}\n"  # where the next command is to be entered
    for name, text in FILES.items():
        # Runs go into the temporary home.
        runs = f'runs = "{home}/runs"\n' if name.endswith(".toml") and "runs =" not in text else ""
        (home / "designs" / "mine" / name).write_text(runs + text)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    prepare_home(home)
    return home


@pytest.fixture(autouse=True)
def _path(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the reader's package on the path, and forget it and its arms afterwards."""
    monkeypatch.syspath_prepend(home / "designs")
    monkeypatch.setattr(registry, "_external_designs", {})
    forget_package()
    yield
    forget_package()


def forget_package() -> None:
    """Forget the reader's package, also where another module's tests have imported it from another folder."""
    for name in [name for name in sys.modules if name.split(".")[0] == "mine"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def entered(
    line: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Run a command in this process, as imports take seconds; return its output."""
    words = line.replace("~", str(home)).split()
    if words[0] == "./hotline":
        return CliRunner().invoke(hotline, words[1:], catch_exceptions=False).output
    monkeypatch.setattr(sys, "argv", words[2:])
    runpy.run_module(words[2], run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.parametrize("command", LOOKING, ids=lambda command: " ".join(command.line.split()[2:]))
def test_each_command_of_the_tutorial_prints_the_shown_output(
    command: Command, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = entered(command.line, home, monkeypatch, capsys)
    is_shown = doctest.OutputChecker().check_output(command.shown, printed, doctest.ELLIPSIS)
    assert is_shown, f"the page shows\n{command.shown}\nand {command.line} prints\n{printed}"


@pytest.fixture
def broken(home: Path) -> Iterator[Path]:
    """Return the reader's package, which gets its files back afterwards."""
    package = home / "designs" / "mine"
    saved = {file: file.read_bytes() for file in package.rglob("*") if file.is_file()}
    yield package
    for file, content in saved.items():
        file.write_bytes(content)


@pytest.mark.parametrize(
    ("broken_file", "text", "named"),
    [
        ("control.py", "CONTROL = (", ("control.py", "line 1")),
        ("switch_state.py", "SWITCH_STATE_OPS = (", ("switch_state.py", "line 1")),
    ],
)
def test_a_fault_in_a_part_of_a_design_is_one_line_before_compiling(
    broken_file: str,
    text: str,
    named: tuple[str, ...],
    broken: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (broken / broken_file).write_text(text)
    forget_programs()
    compiled: list[object] = []
    monkeypatch.setattr(simulated_switch, "MachineCode", compiled.append)
    with pytest.raises(SystemExit) as ended:
        entered(".venv/bin/python -m mine.look mine.once", broken.parents[1], monkeypatch, capsys)
    message = str(ended.value)
    assert says(message, *named) and "\n" not in message and compiled == []


def forget_programs() -> None:
    """Look designs' programs up again, as the next process does."""
    simulated_switch.loaded_config.cache_clear()
    simulated_switch.compiled_config.cache_clear()
    registry.compile_if_changed.cache_clear()


@pytest.mark.parametrize("text", [None, "{}"], ids=["missing", "garbled"])
@pytest.mark.parametrize("output", ["once.json", "once.p4info.txtpb"])
def test_a_missing_or_garbled_output_is_compiled_again(output: str, text: str | None, broken: Path) -> None:
    registry.design("mine.once")
    file = broken / "compiled" / output
    compiled = file.read_bytes()
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    forget_programs()
    registry.design("mine.once")
    assert file.read_bytes() == compiled


def test_the_next_command_runs_the_edit_of_the_page(
    broken: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`n + 2` in place of `n + 1` makes the printed total."""
    [old, new, total] = re.findall(r"say\s`(.+?)`\sto\s`(.+?)`.*?becomes\s(\d+)\.", PAGE, re.S)[0]
    source = broken / "count.p4"
    text = source.read_text()
    assert text.count(old) == 1
    source.write_text(text.replace(old, new))
    forget_programs()
    printed = entered(".venv/bin/python -m mine.look mine.count", broken.parents[1], monkeypatch, capsys)
    assert printed.splitlines()[-1].endswith(f"total {total}")
    source.write_text(text)
    forget_programs()


def test_a_mistake_in_a_program_is_shown_with_its_place(
    broken: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = broken / "once.p4"
    source.write_text(source.read_text().replace("bit<32> last;", "bit<32> last"))
    forget_programs()
    with pytest.raises(SystemExit) as ended:
        entered(".venv/bin/python -m mine.look mine.once", broken.parents[1], monkeypatch, capsys)
    line = 1 + source.read_text().splitlines().index("            bit<32> last")
    assert f"once.p4:{line}:" in str(ended.value) and str(ended.value).endswith("^")


def test_the_compiler_line_of_the_page_compiles_the_program(home: Path) -> None:
    [line] = re.findall(r"^\.venv/bin/softswitch compile .*$", PAGE, re.M)
    words = [sys.executable, "-m", "softswitch", *line.replace("~", str(home)).split()[1:]]
    ended = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    assert ended.stderr == ""
    load_program((home / "designs" / "count.json").read_bytes())


def test_every_command_of_the_page_shows_output() -> None:
    assert LOOKING and PREPARING and RUNNING
    assert len(COMMANDS) == len(LOOKING) + len(PREPARING) + len(RUNNING)
    shown = [*LOOKING, *RUNNING]
    assert [command.line for command in shown if not command.shown.strip(". \n")] == []


def test_the_files_of_the_page_equal_the_files_of_the_repository() -> None:
    """Configurations are nowhere else; unshown files are copied, or written from Python."""
    shown = {name: text for name, text in FILES.items() if not name.endswith(".toml")}
    assert shown == {name: (TUTORIAL / name).read_text() for name in shown}
    here = {file.name for file in TUTORIAL.iterdir() if not file.name.endswith("_arms.p4")}
    here -= {"answers", "__pycache__", "compiled"}
    copied = {"__init__.py", "look.py", "switch_state.py", "frame.p4", "turn_around.p4"}
    assert here - set(shown) == copied
    assert copied <= {Path(word).name for command in PREPARING for word in command.line.split()}
