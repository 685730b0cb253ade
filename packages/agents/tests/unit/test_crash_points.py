"""Commands that change files are killed before every call, and every call fails: old or new files remain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from controller.hotset import choice
from experiment.folder import finish_run_folder, point_to_latest
from foundation.errors import HotlineError
from foundation.logs.columns import LOGS, UPDATES
from foundation.logs.parts import Parts, save_arrays, write_into_folder, write_text
from hosts.unreplayed import UNREPLAYED_FOLDER
from hosts.workload.generator import R1, generate
from hosts.workload.trace import Trace
from hotline_agents.offline_recovery import open_crashed_run
from switch_harness.file_layer import WritingCommand, judge
from tests.harness.cli import invoke
from tests.harness.crashed_run import CrashedRunFolder
from tests.harness.records import a_record
from topologies.lock_record import LockRecord, read_record

Found = Mapping[str, object]
ROWS = {"job": np.array([1, 1]), "ps": np.array([0, 0]), "key": np.array([7, 9]), "updates": np.array([2, 3])}


def content_of(*names: str) -> Callable[[Path], Found]:
    def read(folder: Path) -> Found:
        files = {name: folder / name for name in names}
        return {name: file.read_bytes() if file.exists() else None for name, file in files.items()}

    return read


def nothing(_folder: Path) -> None: ...


def write_old_text(folder: Path) -> None:
    (folder / "text").write_text("old")


def save(folder: Path, value: int) -> None:
    save_arrays(folder / "arrays.npz", {"a": np.full(5000, value), "b": np.full(10, value)})


def read_arrays(folder: Path) -> Found:
    with np.load(folder / "arrays.npz") as arrays:
        return {"arrays": [arrays[name].tolist() for name in ("a", "b")]}


def write_part(folder: Path) -> None:
    Parts(folder, "updates-ps-0", UPDATES).write(ROWS)


def read_parts(folder: Path) -> Found:
    return {"rows": sum(pl.read_parquet(file).height for file in folder.glob("*.parquet")) > 0}


def prepare_killed_run(folder: Path) -> None:
    a_record().write(folder)
    for name in ("parts", "logs", "trace"):
        (folder / name).mkdir()
    write_part(folder / "parts")


def read_logs(folder: Path) -> Found:
    files = {log: folder / f"{log}.parquet" for log in LOGS}
    return {log: pl.read_parquet(file).rows() if file.exists() else None for log, file in files.items()}


def prepare_killed_durable_run(folder: Path) -> None:
    for name in ("trace/keys.npy", *(f"parts/{name}" for name in AGENT_FILES)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)


AGENT_FILES = ("ps-0.db", "ps-0.db-wal", "replay-worker-1-job-3.bin", "ledger-worker-1-job-3-epoch-1.bin")


def read_agent_files(folder: Path) -> Found:
    """Return which files are in the folder for `recover`; no file may be missing, or in two folders."""
    files = [file for pattern in ("*.db*", "*.bin", "keys.npy") for file in folder.rglob(pattern)]
    assert {file.name for file in files} == {"keys.npy", *AGENT_FILES} and len(files) == 1 + len(AGENT_FILES)
    return {file.name: file.parent.name == UNREPLAYED_FOLDER for file in files}


def recover(folder: Path) -> None:
    with open_crashed_run(folder) as crashed_run:
        crashed_run.recover()


def read_servers(folder: Path) -> Found:
    with open_crashed_run(folder) as crashed_run:
        unreplayed = [tuple(each) for each in crashed_run.unreplayed()]
    return {"values": (CrashedRunFolder.reopen(folder).held().tolist(), unreplayed)}


def write_update_log(folder: Path) -> None:
    pl.DataFrame({"key": [5, 6, 7], "updates": [3, 2, 1]}).write_parquet(folder / "log.parquet")
    choice.write(choice.build([folder / "log.parquet"], 1), folder / "hot.parquet")


def hotline(*arguments: str) -> Callable[[Path], None]:
    """Return a call of a command; names with a point are files in the folder."""

    def run(folder: Path) -> None:
        result = invoke(*(folder / each if "." in each else each for each in arguments))
        if result.exit_code:
            raise HotlineError(result.stderr.strip())

    return run


def write_latest(folder: Path) -> None:
    for name in ("1", "2"):
        (folder / "runs" / name).mkdir(parents=True)
        a_record().write(folder / "runs" / name)


def is_linked(folder: Path) -> Found:
    return {"latest": (folder / "runs" / "latest").is_dir()}


@cache
def small_trace() -> Trace:
    return generate(replace(R1, parameters=500, hot=50, keys_per_step=20), workers=1, steps=3, seed=1)


def write_trace(folder: Path) -> None:
    small_trace().save(folder / "trace")


def read_trace(folder: Path) -> Found:
    try:
        trace = Trace.load(folder / "trace")
    except HotlineError:
        return {"trace": None}
    return {"trace": trace.position.tolist()}


def write_lock(folder: Path, run: str) -> None:
    with open(folder / "lock", "r+b", buffering=0) as file:
        LockRecord(interfaces=["s1-eth1"], run=run, pid=1, since=0.0).write(file)


def read_lock(folder: Path) -> Found:
    return {"record": read_record(folder / "lock")}


def prepare_lock(folder: Path) -> None:
    (folder / "lock").touch()
    write_lock(folder, "a folder with a longer name")


def command(
    prepare: Callable[[Path], Any], run: Callable[[Path], Any], read: Callable[[Path], Found], **more: Any
) -> WritingCommand:
    return WritingCommand(prepare, run, read, errors=(HotlineError, OSError), **more)


COMMANDS = {
    "a text": command(write_old_text, lambda to: write_text(to / "text", "new " * 9), content_of("text")),
    "a text in a new folder": command(
        nothing, lambda to: write_into_folder(to / "a" / "b", "new"), content_of("a/b")
    ),
    "a checkpoint of a script": command(partial(save, value=1), partial(save, value=2), read_arrays),
    "a part of a log": command(nothing, write_part, read_parts, leaves_files=False),
    "a run's record": command(
        lambda to: a_record().write(to), lambda to: a_record(error="new").write(to), content_of("run.json")
    ),
    "tidying a killed run": command(prepare_killed_run, finish_run_folder, read_logs),
    "tidying a killed run with durable servers": command(
        prepare_killed_durable_run, finish_run_folder, read_agent_files
    ),
    "the lock file": command(prepare_lock, partial(write_lock, run="new"), read_lock),
    "the link to the latest run": command(
        write_latest, lambda to: point_to_latest(to / "runs"), is_linked
    ),
    "a trace": command(nothing, write_trace, read_trace),
    "hotset build": command(
        write_update_log, hotline("hotset", "build", "log.parquet", "--top-k", "2", "-o", "hot.parquet"),
        content_of("hot.parquet"),
    ),
    "hotset curve": command(
        write_update_log, hotline("hotset", "curve", "log.parquet", "-o", "curve.csv"),
        content_of("curve.csv"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_or_has_a_full_disk_leaves_the_old_or_new_file(
    tmp_path: Path, name: str
) -> None:
    judged = judge(COMMANDS[name], tmp_path)
    assert judged.kills >= 2 and judged.failures >= 2, judged


RECOVER = command(CrashedRunFolder, recover, read_servers)


@pytest.mark.parametrize("stride", [40, pytest.param(1, marks=pytest.mark.soak)])
def test_a_recovery_that_is_killed_or_has_a_full_disk_leaves_the_old_or_new_files(
    tmp_path: Path, stride: int
) -> None:
    judged = judge(RECOVER, tmp_path, stride)
    assert judged.kills >= 6 and judged.failures >= 4, judged
