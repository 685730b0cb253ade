"""A pytest plugin: the fixture `p4_switch`, and `--p4-coverage`, which reports coverage by program.

A project loads it by `pytest_plugins = ["softswitch.testing.plugin"]` in its `conftest.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from softswitch.testing import Coverage, Switch

_COVERAGE = pytest.StashKey[dict[str, Coverage]]()
MakeSwitch = Callable[..., Switch]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--p4-coverage", action="store_true", help="Report the tests' coverage of P4 programs.")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_COVERAGE] = {}


@pytest.fixture
def p4_switch(pytestconfig: pytest.Config) -> Iterator[MakeSwitch]:
    """Make switches, with the arguments of `Switch`, that are closed when the test ends."""
    coverages = pytestconfig.stash[_COVERAGE]
    with ExitStack() as exit_stack:

        def make(program: str | Path, p4info: str | Path | None = None, **options: Any) -> Switch:
            switch = exit_stack.enter_context(Switch(program, p4info, **options))
            name = str(program)
            # A program's first coverage is stored, and merging it with itself changes nothing.
            exit_stack.callback(lambda: coverages.setdefault(name, switch.coverage).merge(switch.coverage))
            return switch

        yield make


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--p4-coverage"):
        for name, coverage in sorted(config.stash[_COVERAGE].items()):
            terminalreporter.section(f"coverage of {name}")
            for line in coverage.report():
                terminalreporter.write_line(line)
