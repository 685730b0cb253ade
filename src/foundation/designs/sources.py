"""The P4 sources of designs, and where the programs are that they are compiled to."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from foundation.checkout import ROOT
from nativekit.cache import user_cache
from nativekit.files import replace_file

COMPILED = "compiled"
"""Name of the folders of compiled programs, beside their sources."""
SUFFIX, P4INFO_SUFFIX = ".p4", ".p4info.txtpb"
_RECORD_SUFFIX = ".outputs.json"
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
    """Return whether JSON and P4Info are undamaged, and compiled from the present sources by any compiler.

    `mark_compiled` records their lengths and checksums, and the time of the newest source. If a file differs
    from that, then it is damaged or something else wrote it, or a source has changed since.
    """
    try:
        return _record_of(output).read_bytes() == _describe_outputs(output, newest_source_ns(source))
    except OSError:
        return False


def mark_compiled(output: Path, newest_ns: int) -> None:
    """Record that JSON and P4Info were compiled from sources whose newest had this time; raises `OSError`.

    The time is that before the compilation.
    """
    replace_file(_record_of(output), _describe_outputs(output, newest_ns), 0o644)


def _record_of(output: Path) -> Path:
    """Return the file beside a program's outputs with what `is_current` compares them with."""
    return output.with_suffix(_RECORD_SUFFIX)


def _describe_outputs(output: Path, newest_ns: int) -> bytes:
    described_files = {}
    for file in (output, output.with_suffix(P4INFO_SUFFIX)):
        content = file.read_bytes()
        described_files[file.name] = {
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    record = {"newest_source_ns": newest_ns, "files": described_files}
    return json.dumps(record, indent=1).encode() + b"\n"


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
