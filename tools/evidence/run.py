"""Run the stages: steps that are done with today's code are not run again."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path

from experiment.machine import describe_machine
from foundation.checkout import ROOT, environment_with_checkout
from foundation.logs.parts import make_folder, write_text
from foundation.protocol.header import VERSION
from tools.evidence.result import EvidenceError, Machine, Origin, Result, Table
from tools.evidence.stage import Stage, Step

OUTPUT = "output"
"""File of a step's folder with what its command printed."""
_DONE = "done"
"""File of a step's folder with the digest of the code that the step has been run with, and its seconds."""


def run_stage(stage: Stage, folder: Path, progress: Callable[[str], None]) -> Iterator[tuple[str, Result]]:
    """Run a stage's remaining steps in `folder`, and yield its results by name."""
    digest = stage.digest()
    for step in stage.steps:
        if _is_done(folder / step.name, digest):
            progress(f"{stage.name}, {step.name}: done before")
            continue
        progress(f"{stage.name}, {step.name}: {step.shown}")
        _run(step, folder / step.name, digest)
    yield from as_results(stage, stage.tables(folder), digest)


def as_results(stage: Stage, tables: Mapping[str, Table], digest: str) -> Iterator[tuple[str, Result]]:
    if set(tables) != set(stage.results):
        raise EvidenceError(
            f"stage {stage.name}: expected the results {sorted(stage.results)}, found {sorted(tables)}"
        )
    origin = Origin(
        commands=tuple(step.shown for step in stage.steps), commit=commit(), code=digest, wire=VERSION,
        date=datetime.now(timezone.utc).date(), machine=machine(), seeds=stage.seeds,
    )  # fmt: skip
    for name, table in tables.items():
        yield name, Result(stage=stage.name, table=table, origin=origin)


def _is_done(folder: Path, digest: str) -> bool:
    done = folder / _DONE
    return done.is_file() and done.read_text().split()[0] == digest


def _run(step: Step, folder: Path, digest: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    step.write_files(folder)
    begin = time.monotonic()
    with (folder / OUTPUT).open("w") as output:
        done = subprocess.run(
            step.command(folder), cwd=ROOT, env=environment_with_checkout(), stdout=output, check=False
        )
    if done.returncode:
        raise EvidenceError(f"{step.shown}: expected exit status 0, found {done.returncode}; see {folder / OUTPUT}")
    write_text(folder / _DONE, f"{digest} {time.monotonic() - begin:.0f}\n")


def commit() -> str:
    """Return the commit of the checkout, with a + if files differ from it."""
    head = _git("rev-parse", "--short=8", "HEAD").strip()
    return head + ("+" if _git("status", "--porcelain", "--untracked-files=no").strip() else "")


def _git(*arguments: str) -> str:
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def machine() -> Machine:
    facts = describe_machine()
    return Machine(cpu=str(facts["cpu"]), cores=int(facts["cpus"]), kernel=str(facts["kernel"]))
