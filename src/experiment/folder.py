"""The folder of a run, `runs/<time>-<target>`, and the link `runs/latest` to the newest readable one."""

from __future__ import annotations

import logging
import os
import shutil
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from experiment.errors import PreflightError
from foundation.logs.merge import finish_merge
from hosts.unreplayed import preserve_agent_files

log = logging.getLogger(__name__)


def create_run_folder(runs: Path, target: str) -> Path:
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{target}"
    run = (runs / name).resolve()
    number = 1
    while run.exists():
        number += 1
        run = run.with_name(f"{name}-{number}")
    try:
        for folder in (run / "parts", run / "logs"):
            folder.mkdir(parents=True)
    except OSError as error:
        raise PreflightError(
            f"runs = {runs}: {error.strerror}; set runs in CONFIG to a folder that can be written"
        ) from None
    return run


def finish_run_folder(run: Path) -> bool:
    """Preserve and merge what a killed run has left; return whether it ended early. May be repeated."""
    was_unfinished = is_unfinished(run)
    if preserve_agent_files(run):
        log.warning(
            "the run in %s ended early: `./hotline recover %s --apply` completes its servers' files", run, run
        )
    shutil.rmtree(run / "trace", ignore_errors=True)
    finish_merge(run)
    if was_unfinished:
        chown_to_sudo_user(run)
    point_to_latest(run.parent)
    return was_unfinished


def is_unfinished(run: Path) -> bool:
    return (run / "parts").is_dir() or (run / "trace").is_dir()  # a run that ends normally leaves neither


def point_to_latest(runs: Path) -> None:
    """Point `latest` atomically to the last run with a record or report; remove `latest` if there is none."""
    mtimes_ns = {run: time for run in runs.glob("*") if not run.is_symlink() and (time := _mtime_ns(run))}
    latest = runs / "latest"
    if not mtimes_ns:
        latest.unlink(missing_ok=True)
        return
    partial = runs / ".latest.partial"
    partial.unlink(missing_ok=True)
    partial.symlink_to(max(mtimes_ns, key=mtimes_ns.__getitem__).name)
    chown_to_user(partial)
    partial.replace(latest)


def _mtime_ns(run: Path) -> int | None:
    for name in ("run.json", "report.html"):
        with suppress(OSError):
            return (run / name).stat().st_mtime_ns
    return None


def chown_to_sudo_user(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        chown_to_user(path)


def chown_to_user(path: Path) -> None:
    if "SUDO_UID" in os.environ:
        os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]), follow_symlinks=False)
