"""Run the stages: steps that are done with today's code are not run again."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timezone
from pathlib import Path

from experiment.machine_description import describe_machine
from foundation.checkout import ROOT, environment_with_checkout
from foundation.logs.parts import make_folder, write_text
from foundation.protocol.header import VERSION
from foundation.settings import Strict
from tools.evidence.result import EvidenceError, Machine, Origin, Result, Table
from tools.evidence.stage import OUTPUT, Stage, Step, digest_of, files_of

_DONE = "done"
"""File of a step's folder that has been run, with its `Done`."""


class Done(Strict):
    """How a step was run."""

    digest: str
    """Digest of the stage's code."""
    commit: str
    date: date
    seconds: int


def run_stage(stage: Stage, folder: Path, progress: Callable[[str], None]) -> Iterator[tuple[str, Result]]:
    """Run a stage's remaining steps in `folder`, and yield its results by name."""
    digest = stage.digest()
    for step in stage.steps:
        done = _read_done(folder / step.name)
        if done is not None and done.digest == digest:
            progress(f"{stage.name}, {step.name}: done before, in {done.seconds:,} s")
            continue
        progress(f"{stage.name}, {step.name}: {step.shown}")
        _run(step, folder / step.name, digest, commit(stage.sources()))
    yield from as_results(stage, stage.tables(folder), _last_done(stage, folder))


def _last_done(stage: Stage, folder: Path) -> Done:
    found = (_read_done(folder / step.name) for step in stage.steps)
    return max((each for each in found if each is not None), key=lambda each: each.date)


def as_results(stage: Stage, tables: Mapping[str, Table], done: Done) -> Iterator[tuple[str, Result]]:
    if set(tables) != set(stage.results):
        raise EvidenceError(
            f"stage {stage.name}: expected the results {sorted(stage.results)}, found {sorted(tables)}"
        )
    origin = Origin(
        commands=tuple(step.shown for step in stage.steps), commit=done.commit, code=done.digest,
        wire=VERSION, date=done.date, machine=machine(), seeds=stage.seeds,
    )  # fmt: skip
    for name, table in tables.items():
        yield name, Result(stage=stage.name, table=table, origin=origin)


def followed_today(result: Result) -> Result:
    """Return a result whose recipe was followed now, on this machine, with this checkout's code."""
    sources = files_of(result.origin.sources)
    renewed = {
        "commit": commit(sorted(sources)), "code": digest_of(sources), "wire": VERSION,
        "date": datetime.now(timezone.utc).date(), "machine": machine(),
    }  # fmt: skip
    return result.model_copy(update={"origin": result.origin.model_copy(update=renewed)})


def _read_done(folder: Path) -> Done | None:
    try:
        return Done.model_validate_json((folder / _DONE).read_bytes())
    except (OSError, ValueError):
        return None  # not run, or by an interrupted process: it is run again


def _run(step: Step, folder: Path, digest: str, at_commit: str) -> None:
    # What an interrupted command has written stays: studies continue from the points that they have.
    make_folder(folder)
    (folder / _DONE).unlink(missing_ok=True)
    step.write_files(folder)
    begin = time.monotonic()
    with (folder / OUTPUT).open("w") as output:
        done = subprocess.run(
            step.command(folder), cwd=ROOT, env=environment_with_checkout(), stdout=output, check=False
        )
    if done.returncode:
        raise EvidenceError(
            f"{step.shown}: expected exit status 0, found {done.returncode}; see {folder / OUTPUT}"
        )
    end = Done(
        digest=digest, commit=at_commit, date=datetime.now(timezone.utc).date(),
        seconds=round(time.monotonic() - begin),
    )  # fmt: skip
    write_text(folder / _DONE, end.model_dump_json() + "\n")


def commit(sources: Sequence[Path]) -> str:
    """Return the commit of the checkout, with a + if one of these files differs from it."""
    head = _git("rev-parse", "--short=8", "HEAD").strip()
    names = [str(path.relative_to(ROOT)) for path in sources]
    return head + ("+" if _git("status", "--porcelain", "--", *names).strip() else "")


def _git(*arguments: str) -> str:
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def machine() -> Machine:
    facts = describe_machine()
    return Machine(cpu=str(facts["cpu"]), cores=int(facts["cpus"]), kernel=str(facts["kernel"]))
