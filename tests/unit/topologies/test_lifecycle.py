"""Messages at the end of a failed or interrupted run. No network is built."""

from __future__ import annotations

import asyncio
import errno
import logging
import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest
from rich.console import Console

from analysis.record import Accounting, read_record
from experiment.errors import AgentFailed, RunFailed
from experiment.folder import create_run_folder, finish_run_folder
from experiment.run_config import Config, Faults
from foundation.errors import DataError
from hosts.unreplayed import UNREPLAYED_FOLDER
from switch_harness.waiting import PATIENCE_S
from tests.harness.children import child
from tests.harness.records import a_record
from tests.harness.sessions import quiet, real_session
from topologies import lifecycle
from topologies.session import RealSession
from topologies.testbed import TestbedKind

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a part")


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(lifecycle, "_run_until_signal", AsyncMock(side_effect=error))


def test_a_run_logs_more_than_warnings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.Logger("root of a run", logging.WARNING)
    root.addHandler(logging.StreamHandler())
    monkeypatch.setattr(logging, "getLogger", lambda name="": root if not name else logging.Logger(name))
    lifecycle.configure_logging(Console(stderr=True))
    root.info("learning rate 8.03")
    assert capsys.readouterr().err == "learning rate 8.03\n"


def test_only_the_first_error_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk there is not even a run.json."""
    failing(monkeypatch, FULL)
    run = create_run_folder(tmp_path, "softswitch")
    message = rf"No space left on device.* the disk of {tmp_path} \(.* MB\) is full"
    with pytest.raises(RunFailed, match=message):
        lifecycle._run_and_report(Config(runs=tmp_path), Mock(spec=TestbedKind), None, run, quiet())


def test_a_defect_shows_its_traceback_and_leaves_a_run_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, ZeroDivisionError())
    run = create_run_folder(tmp_path, "softswitch")
    a_record().write(run)
    with pytest.raises(ZeroDivisionError):
        lifecycle._run_and_report(Config(runs=tmp_path), Mock(spec=TestbedKind), None, run, quiet())
    assert (tmp_path / "latest").resolve() == run


def test_beyond_the_limit_the_error_names_the_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, AgentFailed("PS 1 did not answer"))
    run = create_run_folder(tmp_path, "softswitch")
    config = Config(runs=tmp_path, faults=Faults(loss=0.4, reordering=0.2))
    message = r"^PS 1 did not answer \(0\.4 loss, 0\.2 reordering in force; runs complete"
    with pytest.raises(RunFailed, match=message):
        lifecycle._run_and_report(config, Mock(spec=TestbedKind), None, run, quiet())


def test_a_run_folder_can_be_read_after_any_failure_of_writing_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = DataError("rpc.parquet: cannot be written: No space left on device")
    run = create_run_folder(tmp_path, "softswitch")
    (run / "trace").mkdir()
    (run / "trace" / "keys").write_bytes(bytes(100_000))
    # As this process does, which so keeps the space of a file that is removed.
    with (run / "trace" / "keys").open("rb") as mapped:
        trace = mmap.mmap(mapped.fileno(), 0, access=mmap.ACCESS_READ)
    experiment = pytest.importorskip("topologies.experiment", reason="needs Mininet")
    monkeypatch.setattr(experiment, "merge_logs", Mock(side_effect=full))
    with pytest.raises(OSError, match="a part"), experiment._write_results_at_end(run, a_record(), quiet()):
        assert read_record(run).error == "it was killed"
        raise FULL
    assert read_record(run).error == str(FULL)
    assert trace.size() == 0
    # The logs are in there still.
    assert (run / "parts").is_dir() and not (run / "trace").exists()


def durable_run(runs: Path) -> Path:
    """Return the folder of a run with a durable server and sparse keys."""
    run = create_run_folder(runs, "softswitch")
    (run / "trace").mkdir()
    for name in ("parts/ps-0.db", "parts/replay-worker-1-job-1.bin", "trace/keys.npy"):
        (run / name).write_text(name)
    return run


def preserved_files(run: Path) -> list[str]:
    return sorted(file.name for file in (run / UNREPLAYED_FOLDER).iterdir())


PRESERVED = ["keys.npy", "ps-0.db", "replay-worker-1-job-1.bin"]


def test_a_run_that_ends_early_preserves_the_files_of_its_agents(tmp_path: Path) -> None:
    experiment = pytest.importorskip("topologies.experiment", reason="needs Mininet")
    run = durable_run(tmp_path)
    with pytest.raises(RuntimeError), experiment._write_results_at_end(run, a_record(), quiet()):
        raise RuntimeError
    assert preserved_files(run) == PRESERVED
    assert not (run / "parts").exists() and not (run / "trace").exists()


def test_files_of_agents_that_cannot_be_preserved_are_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = pytest.importorskip("topologies.experiment", reason="needs Mininet")
    run = durable_run(tmp_path)
    monkeypatch.setattr(experiment, "preserve_unaccounted_updates", Mock(side_effect=FULL))
    with pytest.raises(RuntimeError), experiment._write_results_at_end(run, a_record(), quiet()):
        raise RuntimeError
    assert (run / "parts" / "ps-0.db").exists() and (run / "trace" / "keys.npy").exists()


def test_an_accounted_run_preserves_nothing(tmp_path: Path) -> None:
    experiment = pytest.importorskip("topologies.experiment", reason="needs Mininet")
    run = durable_run(tmp_path)
    account = Accounting(sent=1, applied=1, lost=0, unknown=0, mismatched_keys=0, overflows=0)
    with experiment._write_results_at_end(run, a_record(accounting=account), quiet()):
        pass
    assert not (run / "parts").exists() and not (run / UNREPLAYED_FOLDER).exists()


def test_a_second_signal_preserves_the_files_of_agents(tmp_path: Path) -> None:
    run = durable_run(tmp_path)
    kind = Mock(spec=TestbedKind)
    lifecycle._clean_up(Config(runs=tmp_path), kind, run)
    kind.remove_remains.assert_called_once()
    assert preserved_files(run) == PRESERVED and not (run / "trace").exists()


def test_a_folder_of_a_run_that_was_killed_is_tidied(tmp_path: Path) -> None:
    run = create_run_folder(tmp_path, "softswitch")
    (run / "trace").mkdir()
    a_record().write(run)
    assert finish_run_folder(run)
    logs = ["connections.parquet", "operations.parquet", "rpc.parquet", "updates.parquet"]
    assert sorted(file.name for file in run.iterdir()) == sorted([*logs, "logs", "run.json"])
    assert not finish_run_folder(run)


def test_an_interrupted_run_says_where_its_logs_are(tmp_path: Path) -> None:
    run = create_run_folder(tmp_path, "softswitch")
    there = lifecycle._describe_results(run)
    assert str(run) in there and "parts" in there and "`make clean`" in there
    finish_run_folder(run)
    there = lifecycle._describe_results(run)
    assert there.endswith(str(run)) and "parts" not in there


async def test_an_interrupted_load_ends_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Workers whose keys are on their way would never come to the end of their steps."""
    begun = asyncio.Event()

    async def load_all(*_: object, **__: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    class Endless(RealSession):
        async def run_steps(self, *_: Any, **__: Any) -> Any:
            await asyncio.Event().wait()

    controller = MagicMock()
    controller.return_value.__aenter__.return_value.load_all = load_all
    monkeypatch.setattr("topologies.session.own_controller", controller)
    session = real_session(run=tmp_path, of=Endless)
    loading = asyncio.ensure_future(session.load([1]))
    beginning = asyncio.ensure_future(begun.wait())
    await asyncio.wait([loading, beginning], return_when=asyncio.FIRST_COMPLETED)
    assert not loading.done(), loading.result()
    loading.cancel()
    assert (await asyncio.wait([loading], timeout=PATIENCE_S))[0] == {loading}


REPORTING = """
import sys, threading
from pathlib import Path
from unittest.mock import Mock
from analysis.record import Accounting
from tests.harness.records import a_block, a_record
from tests.harness.sessions import quiet
from topologies import lifecycle
from experiment.run_config import Config
from experiment.folder import create_run_folder
from topologies.signals import STOP

runs = Path(sys.argv[1])
run = create_run_folder(runs, "softswitch")

async def whole(*_):
    account = Accounting(sent=1, applied=1, lost=0, unknown=0, mismatched_keys=0, overflows=0)
    a_record(accounting=account, blocks=[a_block(0, "offload")]).write(run)

def summarise(*_):
    print("ready", flush=True)
    threading.Event().wait()

lifecycle._run_until_signal = whole
lifecycle.summarise = summarise
STOP.listen()
STOP.exit(lifecycle._run_and_report(Config(runs=runs), Mock(), None, run, quiet()))
"""


def test_ctrl_c_during_the_report_names_the_logs_and_the_report_command(tmp_path: Path) -> None:
    command, pipe = [sys.executable, "-c", REPORTING, str(tmp_path)], subprocess.PIPE
    with child(command, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
    folder = (tmp_path / "latest").resolve()
    assert f"{folder} has all logs" in errors and f"`./hotline report {folder}`" in errors
    assert "Traceback" not in errors


def test_in_a_pipe_a_warning_is_one_line_and_is_printed_once() -> None:
    """Mininet would give every logger a handler of its own, which ends no line."""
    warning = "many words " * 20 + "end"
    program = f"""
import logging
from rich.console import Console
from topologies import lifecycle, mininet_api
lifecycle.configure_logging(Console(stderr=True))
logging.getLogger("made.after.mininet").warning({warning!r})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", f"{warning}\n")
