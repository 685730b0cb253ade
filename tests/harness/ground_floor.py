"""A Python with the packages that a run on BMv2 with agents of Scapy needs, and with no others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

_TESTBED = "hotline-testbed"  # its metadata alone: it is imported from the checkout


def make_ground_floor(folder: Path, more: Iterable[str] = ()) -> Path:
    """Make an environment of what the run requires, and of `more` packages; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [packages] = folder.glob("lib/python3*/site-packages")
    for each in _with_requirements([*_required_by(distribution(_TESTBED)), "mininet", *more]):
        for path in _top_level(each):
            link = packages / path.name
            if not link.exists():
                link.symlink_to(path)
    metadata = _metadata_of(distribution(_TESTBED))
    (packages / metadata.name).symlink_to(metadata)
    return folder / "bin" / "python"


def _with_requirements(names: Iterable[str]) -> Iterator[Distribution]:
    remaining, seen = [canonicalize_name(name) for name in names], set[str]()
    while remaining:
        if (name := remaining.pop()) in seen:
            continue
        seen.add(name)
        yield (found := distribution(name))
        remaining += _required_by(found)


def _required_by(found: Distribution) -> list[NormalizedName]:
    """Return what a distribution requires on this Python, without its extras."""
    return [
        canonicalize_name(requirement.name)
        for requirement in map(Requirement, found.requires or ())
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    ]


def _top_level(found: Distribution) -> set[Path]:
    """Return the files and folders that a distribution has in `site-packages`."""
    metadata = _metadata_of(found)
    # Packages of Debian list no files, but the names that they import as.
    names = {file.parts[0] for file in found.files or ()} | set(
        (found.read_text("top_level.txt") or "").split()
    )
    paths = {metadata.parent / name for name in names if name not in ("..", "__pycache__")}
    return {metadata, *(path for path in paths if path.exists())}


def _metadata_of(found: Distribution) -> Path:
    # A distribution has the place of its metadata in a private attribute only.
    path: Path = found._path  # type: ignore[attr-defined]
    return path
