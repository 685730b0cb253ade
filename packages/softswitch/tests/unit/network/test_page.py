"""The page's example runs as it is printed, and the page names the command's options."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from softswitch.network.command import simulate

PACKAGE = Path(__file__).parents[3]
PAGE = PACKAGE / "docs" / "networks.md"
MARK = "<!-- example: network -->"


def test_the_pages_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text().partition(MARK)[2]
    lines = [line for line in text.splitlines() if not line or line.startswith("    ")]
    example = dedent("\n".join(lines[: len(text.partition("\nSwitches, ")[0].splitlines())]))
    monkeypatch.chdir(PACKAGE / "tests" / "programs")
    exec(compile(example, str(PAGE), "exec"), {})
    received, delay_us, *_ = capsys.readouterr().out.split()
    assert 9950 < int(received) < 10_000  # a loss of 0.1 %
    assert 50 + 500 < float(delay_us) < 50 + 500 + 300


def test_the_page_names_the_options_of_the_command() -> None:
    options = {
        option for parameter in simulate.params for option in parameter.opts if option.startswith("--")
    }
    page = PAGE.read_text()
    assert {option for option in options if f"`{option}" not in page} == set()
