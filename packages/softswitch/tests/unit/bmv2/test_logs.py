"""Logs in BMv2's form and at its levels."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from softswitch.bmv2 import logs
from softswitch.bmv2.options import LEVELS


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    loggers = logging.getLogger(), logging.getLogger("softswitch")
    before = [(each.level, each.handlers[:]) for each in loggers]
    yield
    for each, (level, handlers) in zip(loggers, before, strict=True):
        for handler in set(each.handlers) - set(handlers):
            handler.close()
        each.level, each.handlers = level, handlers
        each.setLevel(level)


def say_all() -> None:
    program = logging.getLogger("softswitch.program")
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        program.log(level, "level %d", level)


@pytest.mark.parametrize(
    ("level", "letters"),
    [("trace", "DIWE"), ("debug", "DIWE"), ("info", "IWE"), ("warn", "WE"), ("error", "E"), ("off", "")],
)
def test_each_log_level_writes_its_own_and_higher_levels(tmp_path: Path, level: str, letters: str) -> None:
    file = tmp_path / "log"
    logs.configure(level, False, file)
    say_all()
    logging.getLogger("numba").debug("what a library says to itself")
    lines = file.read_text().splitlines()  # on disk without being closed
    form = r"\[\d\d:\d\d:\d\d\.\d{3}\] \[bmv2\] \[(\w)\] \[thread \d+\] level \d+"
    found = [re.fullmatch(form, line) for line in lines]
    assert "".join(match[1] for match in found if match) == letters
    assert len(found) == len(letters)
    assert level in LEVELS


def test_the_console_is_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", True, None)
    say_all()
    reported = capsys.readouterr()
    assert (len(reported.out.splitlines()), reported.err) == (3, "")


def test_log_files_are_rotated(tmp_path: Path) -> None:
    logs.configure("info", False, tmp_path / "log", max_bytes=200, max_files=2)
    for _ in range(5):
        say_all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
