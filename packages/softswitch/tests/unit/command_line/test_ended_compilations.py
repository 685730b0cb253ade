"""A switch that is ended while it compiles prints nothing, and the next one compiles only the rest."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import NamedTuple

import pytest

import softswitch
from softswitch import processes
from softswitch.processes import SwitchProcess
from switch_harness import PROGRAMS
from switch_harness.ended_compilations import (
    SOCKETS,
    Environment,
    end_by,
    setting,
    starting,
    wait_while_working,
    write_slow_program,
)


class Unit(NamedTuple):
    """What a file of the cache has in common only with itself: a new compilation replaces the file."""

    inode: int
    size: int


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return P4 source; this process, as a controller, compiles it into another cache than the switch."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "controller"))
    return write_slow_program(tmp_path)


def units_of(folder: Path, names: str) -> dict[Path, Unit]:
    """Return the files in a cache folder that are complete: others have a name that begins with a dot."""
    files = {path: path.stat() for path in folder.rglob(names) if not path.name.startswith(".")}
    return {path: Unit(status.st_ino, status.st_size) for path, status in files.items()}


class Moment(NamedTuple):
    """A compilation that a signal interrupts once some files are in the cache."""

    run: Callable[[Path, Environment], AbstractContextManager[SwitchProcess]]
    before: int
    """Number of files before machine code: the loaded program, and BMv2 JSON if P4 source is given."""


MACHINE_CODE = 2  # files, by the program and by the source for LLVM
MOMENTS = {
    "start": Moment(starting, before=2),
    "pipeline config": Moment(setting, before=1),
}


@pytest.mark.parametrize(
    ("moment", "number"), [("start", SIGINT), ("pipeline config", SIGTERM)], ids=["start", "config"]
)
def test_a_signal_during_a_compilation_ends_the_switch_and_keeps_the_complete_units(
    program: Path, tmp_path: Path, number: int, moment: str
) -> None:
    run, before = MOMENTS[moment]
    folder = tmp_path / "switch"
    environment = {"XDG_CACHE_HOME": str(folder)}

    def units() -> dict[Path, Unit]:
        return units_of(folder, "p4-*") | units_of(folder, "*.o")

    with run(program, environment) as switch:
        wait_while_working(switch, lambda: len(units()) >= before)
        end_by(switch, number)
    kept = units()
    assert len(kept) == before
    options = [str(program), *SOCKETS]
    with processes.softswitch(options=options, environment=environment):
        found = units()
    assert kept == {path: unit for path, unit in found.items() if path in kept}
    assert len(found) == MOMENTS["start"].before + MACHINE_CODE


@pytest.mark.soak
def test_a_signal_during_the_first_start_keeps_the_compiled_code_of_the_switch(tmp_path: Path) -> None:
    """A copy of the package has no compiled code; on one core, no other process compiles a part of it."""
    for package in ("softswitch", "nativekit"):
        source = Path(softswitch.__file__).parents[1] / package
        shutil.copytree(source, tmp_path / package, ignore=shutil.ignore_patterns("compiled-*"))
    environment = {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    program = PROGRAMS / "l2.json"
    one_core = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
    with starting(program, environment, prefix=one_core) as switch:
        wait_while_working(switch, lambda: bool(units_of(tmp_path, "*.nbc")))
        end_by(switch, SIGTERM)
    kept = units_of(tmp_path, "*.nbc")
    with processes.softswitch(options=[str(program), *SOCKETS], environment=environment):
        found = units_of(tmp_path, "*.nbc")
    assert kept == {path: unit for path, unit in found.items() if path in kept}
    assert len(found) > len(kept)
