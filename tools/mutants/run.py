"""Run tests on a mutant in a forked child; the parent imports libraries, but nothing of the project."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NoReturn

import pytest

from tools.mutants.child import status_of
from tools.mutants.mutate import Mutant
from tools.mutants.paths import ROOT, import_paths

_LIBRARIES = [
    "click", "finsy", "grpc", "hypothesis", "matplotlib.pyplot", "numba", "numpy", "polars", "pydantic",
    "rich.console", "scapy.layers.inet", "scapy.packet", "scipy.stats",
]  # fmt: skip
_EXIT_OK = 0


class Outcome(Enum):
    KILLED = "killed"
    SURVIVED = "survived"
    TIMEOUT = "timeout"


def prepare(tree: Path) -> None:
    """Import the libraries that every child needs; each child imports the project from `tree`."""
    os.chdir(tree)
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(tree / ".hypothesis")
    sys.dont_write_bytecode = True
    root_paths = set(import_paths(ROOT))
    sys.path[:] = [
        *import_paths(tree),
        *(entry for entry in sys.path if str(Path(entry).resolve()) not in root_paths),
    ]
    for library in _LIBRARIES:
        importlib.import_module(library)


class Agents(Enum):
    AS_THEY_ARE = "as they are"
    PLAIN = "as plain Python"
    COMPILED_AHEAD = "compiled before the first test, so that the test's time excludes compilation"


@dataclass(frozen=True, slots=True)
class Tests:
    """Tests to be run together, the likeliest to fail first."""

    names: Sequence[str]
    agents: Agents = Agents.AS_THEY_ARE


def baseline(tests: Tests, log: Path, timeout_s: float) -> float:
    """Return the seconds that tests take without mutants; raise `SystemExit` if they fail."""
    start = time.monotonic()
    if _run(tests, log, timeout_s) is not Outcome.SURVIVED:
        raise SystemExit(f"the tests do not pass without a mutant, see {log}")
    return time.monotonic() - start


def outcome(tree: Path, mutant: Mutant, tests: Tests, log: Path, timeout_s: float) -> Outcome:
    """Return the outcome of the tests for a mutant; the module is restored afterwards."""
    path = tree / mutant.path
    original = path.read_bytes()
    path.write_text(mutant.source)
    try:
        return _run(tests, log, timeout_s)
    finally:
        path.write_bytes(original)


def _run(tests: Tests, log: Path, timeout_s: float) -> Outcome:
    child = os.fork()
    if not child:
        _test(tests, log)
    try:
        status = status_of(child, timeout_s)
        if status is not None:
            return Outcome.SURVIVED if status == _EXIT_OK else Outcome.KILLED
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return Outcome.TIMEOUT
    finally:
        # End processes that a test has left running.
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


def _test(tests: Tests, log: Path) -> NoReturn:
    status = 1
    try:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        _prepare_agents(tests.agents)
        status = int(pytest.main([*options, *tests.names]))
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        # Skip the exit handlers, which the parent has registered for itself.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _prepare_agents(agents: Agents) -> None:
    if agents is Agents.PLAIN:
        importlib.import_module("tools.mutants.interpreted").interpret()
    elif agents is Agents.COMPILED_AHEAD:
        importlib.import_module("hotline_agents.warm").warm()
