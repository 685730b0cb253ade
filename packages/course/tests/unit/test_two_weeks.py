"""A student's commands, as docs/course.md has them, typed by an ordinary user from an empty folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from foundation.checkout import ROOT
from hotline_course.isolation import UNPRIVILEGED_ID
from packages.course.tests.unit.submissions import SOLUTIONS

PAGE = ROOT / "docs" / "course.md"
LINKED = (".venv", "examples", "hotline")
PARTS = ("first day", "first week", "second week")
COMPLETE = "# Complete the TODOs in "


@pytest.fixture
def checkout() -> Iterator[Path]:
    """Return a folder with links to all of the checkout, in which an ordinary user may make files.

    The user's cache has the machine code that is cached beside the sources, where another user may not write.
    """
    # Folders of pytest are closed to other users.
    with tempfile.TemporaryDirectory(prefix="hotline-student-") as name:
        folder = Path(name) / "hotline"
        folder.mkdir()
        for part in LINKED:
            (folder / part).symlink_to(ROOT / part)
        for cached in ROOT.glob("**/__pycache__/compiled-*"):
            if ROOT / "build" in cached.parents:
                continue  # a copy of the tree, of `make lowest`
            shutil.copytree(cached, Path(name) / ".cache" / "hotline" / cached.parents[1].name / cached.name)
        if os.geteuid() == 0:
            for path in (Path(name), *Path(name).rglob("*")):
                os.chown(path, UNPRIVILEGED_ID, UNPRIVILEGED_ID, follow_symlinks=False)
        yield folder


def commands_of(part: str) -> list[str]:
    """Return the lines of a part of the page."""
    text = PAGE.read_text().partition(f"<!-- replayed: {part} -->\n\n")[2]
    lines = [line[4:] for line in text.partition("\n\n")[0].splitlines()]
    assert lines, part
    return lines


def type_line(line: str, checkout: Path) -> None:
    """Do what a line of the page says, and look for what the page promises of its output."""
    if line.startswith(COMPLETE):
        for folder in re.findall(r"mine/([\w-]+)", line):
            shutil.copytree(SOLUTIONS / folder, checkout / "mine" / folder, dirs_exist_ok=True)
        return
    command, _, promised = line.partition("  # ")
    begin_s = time.monotonic()
    output = run(command, checkout)
    print(f"{time.monotonic() - begin_s:5.1f} s  {command}")
    for words in filter(None, promised.strip().split(", ")):
        assert words in output, output
        output = output.partition(words)[2]


def run(command: str, checkout: Path) -> str:
    """Run a command as an ordinary user; its status is 0, or 1 where points are lost."""
    is_root = os.geteuid() == 0
    user, groups = (UNPRIVILEGED_ID, list[int]()) if is_root else (None, None)
    environment = {"HOME": str(checkout.parent), "LANG": "C.UTF-8", "PATH": os.defpath, "COLUMNS": "120"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=checkout, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, user=user, group=user, extra_groups=groups,
    )  # fmt: skip
    is_check = command.startswith("./hotline check")
    assert done.returncode in ((0, 1) if is_check else (0,)), done.stdout + done.stderr
    assert "warning" not in done.stderr and "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_the_first_day_of_the_page_runs_without_root(checkout: Path) -> None:
    for line in commands_of("first day"):
        type_line(line, checkout)


@pytest.mark.soak
def test_two_weeks_of_the_page_run_without_root_from_an_empty_folder_to_a_comparison(checkout: Path) -> None:
    assert not (checkout / "mine").exists()
    for part in PARTS:
        for line in commands_of(part):
            type_line(line, checkout)
    assert len(list((checkout / "mine" / "runs").glob("*-simulated/report.html"))) == 2


def test_the_page_names_all_exercises_to_complete() -> None:
    completed = [
        name
        for part in PARTS
        for line in commands_of(part)
        if line.startswith(COMPLETE)
        for name in re.findall(r"mine/([\w-]+)", line)
    ]
    assert completed == sorted(folder.name for folder in SOLUTIONS.iterdir() if folder.is_dir())
