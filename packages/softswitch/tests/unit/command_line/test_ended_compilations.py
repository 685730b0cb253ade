"""A switch that is ended while it compiles prints nothing, and the next one compiles only the rest."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import NamedTuple

import pytest

import softswitch
from softswitch import processes
from softswitch.conformance.client import P4RuntimeClient, pipeline_config
from softswitch.load.cached import MIN_CACHED_BYTES
from softswitch.processes import SOFTSWITCH, SwitchProcess, start_switch, switch_command
from softswitch.progress import IdleLimit
from switch_harness import PROGRAMS
from switch_harness.small_programs import small_source
from switch_harness.waiting import PATIENCE_S

HASHES = 60
"""Hashes whose machine code takes LLVM 0.7 s of CPU time, ten times as long as the rest of the program."""
HASH = (
    "hash(meta.kept, HashAlgorithm.crc16, 16w0, {hdr.first, hdr.second, meta.kept}, 16w1000);"
    "hdr.first.value = meta.kept;"
)
SOCKETS = ("--datapath", "sockets")
Environment = dict[str, str]


class Unit(NamedTuple):
    """What a file of the cache has in common only with itself: a new compilation replaces the file."""

    inode: int
    time_ns: int


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return P4 source; this process, as a controller, compiles it into another cache than the switch."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "controller"))
    file = tmp_path / "hashes.p4"
    # In one line, of which the JSON has a copy for each expression: only large programs are cached as loaded.
    file.write_text(small_source(ingress=HASH * HASHES))
    return file


def units_of(folder: Path, names: str) -> dict[Path, Unit]:
    """Return the files in a cache folder that are complete: others have a name that begins with a dot."""
    files = {path: path.stat() for path in folder.rglob(names) if not path.name.startswith(".")}
    return {path: Unit(status.st_ino, status.st_mtime_ns) for path, status in files.items()}


def wait_while_working(
    switch: SwitchProcess, is_done: Callable[[], bool], limit: IdleLimit | None = None
) -> None:
    """Wait until it is done or the process has ended."""
    limit = limit or IdleLimit(PATIENCE_S)
    while not is_done() and switch.process.poll() is None:
        if limit.look_s == 0:
            limit.look([switch.activity()])
        assert not limit.is_exceeded, switch.log()
        time.sleep(0.001)


def end_by(switch: SwitchProcess, number: int) -> None:
    """End a switch by a signal, as `SwitchProcess.end` does; it must neither fail nor print anything."""
    switch.process.send_signal(number)
    wait_while_working(switch, lambda: False, IdleLimit(processes._STOP_SECONDS, counts_work=True))
    expected = ("softswitch: ready: ", "softswitch: compiling the switch once")  # a first start's
    unexpected = [line for line in switch.log().splitlines() if not line.startswith(expected)]
    assert (switch.process.returncode, unexpected) == (0, [])


@contextmanager
def starting(program: Path, environment: Environment, prefix: Sequence[str] = ()) -> Iterator[SwitchProcess]:
    """Run a switch that loads a program before it serves."""
    command = switch_command(SOFTSWITCH, "127.0.0.1:0", options=[str(program), *SOCKETS])
    with tempfile.TemporaryFile() as output:
        switch = start_switch([*prefix, *command], output, "", environment)
        try:
            yield switch
        finally:
            switch.process.kill()
            switch.process.wait()


@contextmanager
def setting(program: Path, environment: Environment) -> Iterator[SwitchProcess]:
    """Run a switch that serves, and that a controller gives a program."""
    config = pipeline_config(program)
    assert len(config.p4_device_config) >= MIN_CACHED_BYTES
    options = ["--no-p4", *SOCKETS]
    with (
        processes.softswitch(options=options, environment=environment) as switch,
        P4RuntimeClient(switch.address) as client,
        ThreadPoolExecutor(1) as caller,
    ):
        caller.submit(client.set_pipeline, config)
        yield switch


class Moment(NamedTuple):
    """A compilation that a signal interrupts once some files are in the cache."""

    run: Callable[[Path, Environment], AbstractContextManager[SwitchProcess]]
    before: int
    """Number of files before machine code: the loaded program, and BMv2 JSON if P4 source is given."""
    after: int
    """Number of files at the end."""


MACHINE_CODE = 2  # files, by the program and by the source for LLVM
MOMENTS = {
    "start": Moment(starting, before=2, after=2),
    # The thread that compiles is the one that handles signals.
    "pipeline config": Moment(setting, before=1, after=1 + MACHINE_CODE),
}


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_a_signal_during_a_compilation_ends_the_switch_and_keeps_the_complete_units(
    program: Path, tmp_path: Path, number: int, moment: Moment
) -> None:
    folder = tmp_path / "switch"
    environment = {"XDG_CACHE_HOME": str(folder)}

    def units() -> dict[Path, Unit]:
        return units_of(folder, "p4-*") | units_of(folder, "*.o")

    with moment.run(program, environment) as switch:
        wait_while_working(switch, lambda: len(units()) >= moment.before)
        end_by(switch, number)
    kept = units()
    assert len(kept) == moment.after
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
