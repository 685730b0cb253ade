"""The P4 sources of designs, and where the programs are that they are compiled to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from foundation.checkout import ROOT
from nativekit.cache import user_cache

COMPILED = "compiled"
"""Name of the folders of compiled programs, beside their sources."""
SUFFIX, P4INFO_SUFFIX = ".p4", ".p4info.txtpb"
_SWITCH = ROOT / "packages" / "softswitch" / "src" / "softswitch"
_COMPILER_FOLDERS = (_SWITCH / "p4", _SWITCH / "ir")
_sources_of_cached: dict[Path, Path] = {}  # by the output in the user's cache


def output_of(source: Path) -> Path:
    """Return the BMv2 JSON of a P4 source: in the folder `compiled` beside it, or in the user's cache.

    The cache has it if the user may not write beside the source.
    """
    source = source.absolute()
    folder = source.parent / COMPILED
    name = f"{source.stem}.json"
    if os.access(folder if folder.is_dir() else source.parent, os.W_OK | os.X_OK):
        return folder / name
    digest = hashlib.sha256(str(source).encode()).hexdigest()[:16]
    output = user_cache() / "designs" / digest / COMPILED / name
    _sources_of_cached[output] = source
    return output


def source_of(output: Path) -> Path | None:
    """Return the P4 source of BMv2 JSON in a folder `compiled`, or None if there is none.

    A program of the folder `p4src` has a folder of its own: `p4src/NAME/NAME.p4`.
    """
    if output in _sources_of_cached:
        return _sources_of_cached[output]
    if output.parent.name != COMPILED:
        return None
    tree, name = output.parent.parent, f"{output.stem}{SUFFIX}"
    return next((file for file in (tree / output.stem / name, tree / name) if file.is_file()), None)


def is_current(output: Path, source: Path) -> bool:
    """Return whether JSON and P4Info were compiled from the present sources, by whatever compiler.

    `mark_compiled` gives them the time of the newest source. If a file has another time, then something else
    wrote it, or a source has changed since.
    """
    newest_ns = newest_source_ns(source)
    return all(file.is_file() and file.stat().st_mtime_ns == newest_ns for file in _outputs(output))


def mark_compiled(output: Path, newest_ns: int) -> None:
    """Give JSON and P4Info the time that the newest source had before the compilation; raises `OSError`."""
    for file in _outputs(output):
        os.utime(file, ns=(newest_ns, newest_ns))


def _outputs(output: Path) -> tuple[Path, Path]:
    return output, output.with_suffix(P4INFO_SUFFIX)


def newest_source_ns(source: Path) -> int:
    """Return the time of the newest file that may decide what a source is compiled to."""
    return max(file.stat().st_mtime_ns for file in (source, *_possible_inputs(source)) if file.is_file())


def _possible_inputs(source: Path) -> Iterator[Path]:
    folder = source.parent
    tree = folder.parent if folder.name == source.stem else folder
    for each in (tree, ROOT / "p4src"):
        yield from each.rglob(f"*{SUFFIX}")
    for each in _COMPILER_FOLDERS:
        yield from each.rglob("*.p[y4]")
