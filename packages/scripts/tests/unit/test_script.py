"""`./hotline`, and the commands that README and guide show, in a fresh checkout."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import hotline as hotline_package
from experiment.run_config import load_config
from hotline.cli.commands import hotline
from hotline_scripts.kv import launch
from switch_harness.wording import says_in_one_line
from tests.harness.extras import CHECKOUT, needs_setup
from topologies import routes, run_lock
from topologies.run_lock import RemovedRun, hold_run_lock
from topologies.script_command import SOCKET_VARIABLE

SCRIPT = CHECKOUT / "hotline"
PAGES = [CHECKOUT / page for page in ("README.md", "docs/guide.md")]
TEXT = "\n".join(page.read_text() for page in PAGES)
COMMANDS = re.findall(r"^    (?:sudo )?\./hotline ([^#\n]+)", TEXT, re.MULTILINE)

NEED_NOTHING = ("down", "explain", "new", "dense overlap", "dense whatif")
ADDED = {
    "answer sweep": ["--into", "/proc/none"],
    "answer fit": [],
    "answer predict": [],
    "answer": ["--hosts", "none.toml"],
    "dense overlap": ["--scheduler", "wfbp"],
    "allreduce": ["--into", "/proc/none"],
    "faults": ["--replay", "none.json"],
    "optimisers": ["--into", "/proc/none"],
    "simulate mine.toml": [],
    "simulate": ["none.toml"],
}
"""Options that make a command fail or end soon; the first entry with which a command begins counts."""


def find_commands(group: click.Group = hotline, parents: str = "") -> list[str]:
    """Find all commands below a group: "run", "hotset curve"."""
    found = []
    for name, command in group.commands.items():
        path = f"{parents} {name}".strip()
        found += find_commands(command, path) if isinstance(command, click.Group) else [path]
    return found


def read_example(path: str) -> str:
    """Read the command that the help of another one ends with, without "hotline"."""
    helped = CliRunner().invoke(hotline, [*path.split(), "--help"], terminal_width=80)
    assert max(map(len, helped.output.splitlines())) <= 80
    last = helped.output.splitlines()[-1]
    assert last.startswith(f"  Example: hotline {path}"), last
    return last.removeprefix("  Example: hotline ")


def run(script: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(script), *arguments], cwd=cwd, capture_output=True, text=True, check=False)


@needs_setup
def test_the_hotline_script_runs_from_any_folder_and_through_a_link(tmp_path: Path) -> None:
    link = tmp_path / "linked"
    link.symlink_to(SCRIPT)
    for script in (SCRIPT, link):
        ran = run(script, "--help", cwd=tmp_path)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout.startswith("Usage: hotline ")


def test_without_an_environment_the_hotline_script_says_how_to_set_up(tmp_path: Path) -> None:
    script = Path(shutil.copy(SCRIPT, tmp_path))
    ran = run(script, "status", cwd=CHECKOUT)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert says_in_one_line(ran.stderr, "yet", tmp_path)


def other_options(words: Sequence[str]) -> list[str]:
    """Return options for a switch that does not exist; the default address may be that of a run."""
    found: click.Command = hotline
    for word in words:
        if isinstance(found, click.Group):
            # Without a name it is the group's first command: `answer --workers 8`.
            found = found.commands.get(word) or next(iter(found.commands.values()))
    options = chain(*(parameter.opts for parameter in found.params))
    # What needs no file, either, gets one.
    return (
        ["--switch", "127.0.0.1:1"]
        if "--device-id" in options
        else next((added for name, added in ADDED.items() if " ".join(words).startswith(name)), [])
    )


@pytest.fixture(autouse=True)
def nothing_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep commands from the `hotline up` and the runs of the machine: `down` would end them."""
    monkeypatch.setenv(SOCKET_VARIABLE, str(tmp_path / "up.sock"))

    def hold(interfaces: Sequence[str]) -> AbstractContextManager[object]:
        return hold_run_lock(interfaces, tmp_path / "lock")

    monkeypatch.setattr(launch, "hold_run_lock", hold)
    monkeypatch.setattr(run_lock, "remove_killed_run", lambda *_: RemovedRun(0, ()))
    monkeypatch.setattr(routes, "remove", lambda: None)


def test_down_asks_the_socket_of_the_test_and_holds_its_lock(tmp_path: Path) -> None:
    result = CliRunner().invoke(hotline, ["down"])
    assert result.exit_code == 0 and str(tmp_path / "up.sock") in result.output
    assert (tmp_path / "lock").exists() == (os.geteuid() == 0)


@pytest.mark.parametrize("command", COMMANDS)
def test_shown_commands_have_valid_options(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is neither a run nor a switch: commands fail for that only."""
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)
    result = CliRunner().invoke(hotline, [*words, *other_options(words)])
    if result.exit_code == 0:  # needs neither
        assert " ".join(words).startswith(NEED_NOTHING), result.output
        return
    # The status 1 of `check` means lost points.
    assert result.exit_code == (2 if words[0] == "check" else 1), result.output
    assert re.search(
        r"no switch answers|cannot be read|No such file|not a run folder|got no folder|no such process"
        r"|expected a folder",
        result.output,
    )


@pytest.mark.parametrize("path", sorted({*find_commands()} - {"run"}))
def test_help_ends_with_an_example_that_is_right(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_shown_commands_have_valid_options(read_example(path), tmp_path, monkeypatch)


def test_the_example_of_run_names_settings() -> None:
    config = load_config(shlex.split(read_example("run"))[1:])
    assert (config.workers, config.top_k) == (8, 5000)


def test_every_command_is_shown() -> None:
    """`make run-topo` calls `run`."""
    assert {shlex.split(command)[0] for command in COMMANDS} == set(hotline.commands) - {"run"}


def test_shown_scripts_call_existing_functions() -> None:
    scripts = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    called = {name for script in scripts for name in re.findall(r"\bhotline\.(\w+)", script)}
    assert scripts and called <= set(hotline_package.__all__)
    for script in scripts:
        compile(script, "shown", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
