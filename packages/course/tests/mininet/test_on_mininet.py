"""Solutions on Mininet: the commands of the exercises' READMEs give what the READMEs say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from foundation.checkout import ROOT
from hotline_course.exercise import COURSE
from packages.course.tests.unit.submissions import EXERCISES, submit

pytestmark = pytest.mark.mininet
ON_MININET = ("01-forward", "02-count", "04-sum", "06-two-switches")
PROMPT = "mininet> "


def page_of(exercise: str) -> str:
    return (COURSE / exercise / "README.md").read_text()


@pytest.mark.parametrize(
    "exercise",
    [name if name == "04-sum" else pytest.param(name, marks=pytest.mark.soak) for name in ON_MININET],
)
def test_a_solution_on_mininet_answers_as_its_page_says(tmp_path: Path, exercise: str) -> None:
    folder = submit(tmp_path / "mine" / exercise, exercise)
    block = page_of(exercise).partition("**On Mininet**")[2].partition("\n\n")[2].partition("\n\n")[0]
    lines = [line.strip() for line in block.splitlines()]
    typed = [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]
    (command,) = (line for line in lines if line.startswith("sudo "))
    for line in lines[: lines.index(command)]:
        run(line, tmp_path)
    assert (folder / "p4app.json").exists() and typed
    output = run(command.removeprefix("sudo "), tmp_path, "".join(f"{line}\n" for line in [*typed, "exit"]))
    assert lines[-1] in output, output


def run(command: str, folder: Path, typed: str = "") -> str:
    """Run a command of the page, with the submission of the test in place of `mine`."""
    command = re.sub(r"\bmine/", f"{folder}/mine/", command).replace("python3", sys.executable)
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, input=typed, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,  # where Mininet prints
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_pages_without_a_network_name_the_reason() -> None:
    for exercise in sorted({*EXERCISES} - {*ON_MININET}):
        words = " ".join(page_of(exercise).split())
        assert "**On Mininet**" not in words
        assert "nothing to start on Mininet" in words or "its checks alone" in words, exercise
