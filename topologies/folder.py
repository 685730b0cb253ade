"""The folder of a run: `runs/<time>-<target>`, with `runs/latest` pointing to the newest."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path

from logs.merge import finish_merge


def create_run_folder(runs: Path, target: str) -> Path:
    """Make a new run folder with `parts` and `logs` in it."""
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{target}"
    run = (runs / name).resolve()
    number = 1
    while run.exists():
        number += 1
        run = run.with_name(f"{name}-{number}")
    for folder in (run / "parts", run / "logs"):
        folder.mkdir(parents=True)
    return run


def tidy(run: Path) -> bool:
    """Leave of a run that was killed what it would have left; whether there was anything to do."""
    is_untidy = (run / "parts").is_dir() or (run / "trace").is_dir()
    shutil.rmtree(run / "trace", ignore_errors=True)
    finish_merge(run)
    if is_untidy:
        give_to_user(run)
    return is_untidy


def point_latest_to(run: Path) -> None:
    """Let `latest` beside the run folder point to it; readers see the old or the new link."""
    partial = run.parent / ".latest.partial"
    partial.unlink(missing_ok=True)
    partial.symlink_to(run.name)
    partial.replace(run.parent / "latest")


def give_to_user(folder: Path) -> None:
    """Under sudo, give a folder and all that is in it to the user who asked."""
    if "SUDO_UID" not in os.environ:
        return
    owner = int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
    for path in (folder, *folder.rglob("*")):
        os.chown(path, *owner, follow_symlinks=False)
