"""Stages are done one after the other, each in a folder of its own; what is done is not done again."""

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
from typing import Any

from foundation.errors import HotlineError
from foundation.logs.parts import write_text
from studies.paper.plan import Stage

Progress = Callable[[float, float, str], None]
"""Told seconds done and in all, as planned, and what is being done."""
_ROOT = Path(__file__).parents[2]
_LOG = "stage.log"
_WATCH_S = 0.2
_END_S = 3.0


class StageFailed(HotlineError):
    """A stage has failed; the text has its last line."""


def result_of(stage: Stage, folder: Path) -> Path:
    """What a finished stage has left: a run's folder, or Fig. 9's file."""
    return folder / stage.name / ("latest" if stage.is_run else "connections.parquet")


def is_done(stage: Stage, folder: Path) -> bool:
    """Whether it was done before, with the same settings."""
    result = result_of(stage, folder)
    written = result / "report.html" if stage.is_run else result
    try:
        same = (folder / stage.name / "run.toml").read_text() == toml(_settings(stage, folder))
    except OSError:
        return False
    return same and written.exists()


def do_stages(stages: Sequence[Stage], folder: Path, progress: Progress) -> None:
    """Do what is left of them; raises `StageFailed`. Ctrl-C ends a stage, and what was done before stays."""
    whole = sum(stage.seconds for stage in stages)
    done = 0.0
    for stage in stages:
        progress(done, whole, stage.name)
        if not is_done(stage, folder):
            _do(stage, folder, partial(_pass, progress, done, whole, stage))
        done += stage.seconds
    progress(whole, whole, "report")


def _pass(progress: Progress, before: float, whole: float, stage: Stage, seconds: float) -> None:
    """Tell that a stage has gone on for so long; no more than was planned counts."""
    progress(before + min(seconds, stage.seconds), whole, stage.name)


def toml(settings: Mapping[str, Any]) -> str:
    """Settings as a TOML file; tables come last."""
    plain = [
        f"{name} = {json.dumps(value)}\n" for name, value in settings.items() if not isinstance(value, dict)
    ]
    tables = [
        f"\n[{name}]\n" + "".join(f"{key} = {json.dumps(each)}\n" for key, each in value.items())
        for name, value in settings.items()
        if isinstance(value, dict)
    ]
    return "".join(plain + tables)


def _settings(stage: Stage, folder: Path) -> dict[str, Any]:
    return {**stage.settings, "runs": str(folder / stage.name)} if stage.is_run else dict(stage.settings)


def _do(stage: Stage, folder: Path, passed: Callable[[float], None]) -> None:
    own = folder / stage.name
    own.mkdir(parents=True, exist_ok=True)
    config = own / "run.toml"
    write_text(config, toml(_settings(stage, folder)))
    begun = time.monotonic()
    with (own / _LOG).open("wb") as log:
        # In a session of its own: this process hears Ctrl-C, and passes it on.
        process = subprocess.Popen(
            _command(stage, folder, config),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                passed(time.monotonic() - begun)
                time.sleep(_WATCH_S)
        except BaseException:
            print(f"hotline: ending stage {stage.name}", file=sys.stderr, flush=True)
            _end(process)
            raise
    if process.returncode != 0:
        config.unlink()
        lines = (own / _LOG).read_text(errors="replace").strip().splitlines()
        last = lines[-1] if lines else "it said nothing"
        raise StageFailed(
            f"stage {stage.name} ended with code {process.returncode}: {last}; see {own / _LOG}"
        )


def _command(stage: Stage, folder: Path, config: Path) -> list[str]:
    if stage.is_run:
        return [str(_ROOT / "hotline"), "run", f"CONFIG={config}"]
    options = [f"--{name}={value}" for name, value in stage.settings.items()]
    return [sys.executable, "-m", "studies.paper.connections", "-o", str(result_of(stage, folder)), *options]


def _end(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C would, and by force where that takes too long."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
