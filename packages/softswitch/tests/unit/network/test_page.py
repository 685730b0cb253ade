"""The page's example runs as it is printed, and the page names the command's options."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from textwrap import dedent

import pytest

from softswitch.network.command import simulate

PACKAGE = Path(__file__).parents[3]
PAGE = PACKAGE / "docs" / "networks.md"


def run_example(name: str) -> None:
    text = PAGE.read_text().partition(f"<!-- example: {name} -->\n")[2]
    lines = takewhile(lambda line: not line or line.startswith("    "), text.splitlines())
    exec(compile(dedent("\n".join(lines)), str(PAGE), "exec"), {})


def test_the_pages_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(PACKAGE / "tests" / "programs")
    run_example("network")
    received, delay_us, *_ = capsys.readouterr().out.split()
    assert 9950 < int(received) < 10_000  # a loss of 0.1 %
    assert 50 + 500 < float(delay_us) < 50 + 500 + 300


def test_the_pages_compiled_hosts_send_on_after_losses(capsys: pytest.CaptureFixture[str]) -> None:
    run_example("compiled host")
    answered, _ = capsys.readouterr().out.split()
    lost = 1000 - int(answered)
    assert 5 < lost < 40  # 1 % of the frames of each direction


def test_the_page_names_the_options_of_the_command() -> None:
    options = {
        option for parameter in simulate.params for option in parameter.opts if option.startswith("--")
    }
    page = PAGE.read_text()
    assert {option for option in options if f"`{option}" not in page} == set()
