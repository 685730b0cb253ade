"""Stages as subprocesses, one after the other; the results of finished stages are reused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from foundation.checkout import ROOT
from foundation.errors import HotlineError
from foundation.logs.parts import write_text
from hotline_paper.plan import Stage

Progress = Callable[[float, float, str], None]
"""Callback that gets the completed and total planned seconds, and the current activity."""

_LOG = "stage.log"
_POLL_S = 0.2
_KILL_AFTER_S = 3.0


class StageFailed(HotlineError):
    """A stage failed; the text has its last line of output."""


def result_path(stage: Stage, folder: Path) -> Path:
    return folder / stage.name / ("latest" if stage.is_run else "connections.parquet")


def is_done(stage: Stage, folder: Path) -> bool:
    result = result_path(stage, folder)
    output = result / "report.html" if stage.is_run else result
    try:
        settings = (folder / stage.name / "run.toml").read_text()
    except OSError:
        return False
    return settings == to_toml(_settings(stage, folder)) and output.exists()


def run_stages(stages: Sequence[Stage], folder: Path, progress: Progress) -> None:
    total = sum(stage.seconds for stage in stages)
    done = 0.0
    for stage in stages:
        progress(done, total, stage.name)
        if not is_done(stage, folder):
            _run_stage(stage, folder, partial(_report_elapsed, progress, done, total, stage))
        done += stage.seconds
    progress(total, total, "report")


def _report_elapsed(progress: Progress, done: float, total: float, stage: Stage, seconds: float) -> None:
    progress(done + min(seconds, stage.seconds), total, stage.name)


def to_toml(settings: Mapping[str, object]) -> str:
    tables = {name: value for name, value in settings.items() if isinstance(value, dict)}
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items() if name not in tables]
    return "".join(lines) + "".join(f"\n[{name}]\n{to_toml(table)}" for name, table in tables.items())


def _settings(stage: Stage, folder: Path) -> dict[str, object]:
    return {**stage.settings, "runs": str(folder / stage.name)} if stage.is_run else dict(stage.settings)


def _run_stage(stage: Stage, folder: Path, report_elapsed: Callable[[float], None]) -> None:
    stage_folder = folder / stage.name
    stage_folder.mkdir(parents=True, exist_ok=True)
    config = stage_folder / "run.toml"
    write_text(config, to_toml(_settings(stage, folder)))
    start = time.monotonic()
    with (stage_folder / _LOG).open("wb") as log:
        # In a new session, Ctrl-C does not reach the process: `_terminate` sends SIGINT.
        process = subprocess.Popen(
            _command(stage, folder, config),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                report_elapsed(time.monotonic() - start)
                time.sleep(_POLL_S)
        except BaseException:
            print(f"hotline: ending stage {stage.name}", file=sys.stderr, flush=True)
            _terminate(process)
            raise
    if process.returncode != 0:
        config.unlink()  # without it `is_done` is False, even if an earlier run left a result
        lines = (stage_folder / _LOG).read_text(errors="replace").strip().splitlines()
        last_line = lines[-1] if lines else "no output"
        raise StageFailed(
            f"stage {stage.name} ended with code {process.returncode}: {last_line}; see {stage_folder / _LOG}"
        )


def _command(stage: Stage, folder: Path, config: Path) -> list[str]:
    if stage.is_run:
        return [str(ROOT / "hotline"), "run", f"CONFIG={config}"]
    command = [sys.executable, "-m", "hotline_paper.connections", "-o", str(result_path(stage, folder))]
    return command + [f"--{name}={value}" for name, value in stage.settings.items()]


def _terminate(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(_KILL_AFTER_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
