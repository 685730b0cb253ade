"""Compiled programs, kept on disk by the content of all files that were read."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nativekit.cache import read_entry, write_entry
from softswitch.cache import SET_UP_FOLDER, store_folder
from softswitch.p4.bmv2_json import bmv2_json_text
from softswitch.p4.compiler import compile_file
from softswitch.p4.diagnostics import SourceFiles
from softswitch.p4.p4info import p4info, p4info_text

_LOG = logging.getLogger(__name__)
_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """The outputs of a program: BMv2's JSON and P4Info as text."""

    json: bytes
    p4info: str
    warnings: tuple[str, ...] = ()


def compiler_digest() -> str:
    """Return a digest of all sources that decide what a program is compiled to."""
    sources = sorted(
        [
            *(_PACKAGE / "p4").rglob("*.p*4"),
            *(_PACKAGE / "p4").rglob("*.py"),
            *(_PACKAGE / "ir").rglob("*.py"),
        ]
    )
    return hashlib.sha256(b"\0".join(each.read_bytes() for each in sources)).hexdigest()


def compile_cached(
    file: Path,
    folders: Sequence[Path] = (),
    definitions: Iterable[tuple[str, str]] = (),
    base: Path | None = None,
) -> CompiledProgram:
    """Return what `compile_file` makes of a file, from disk if no file that it read has changed.

    Warnings are logged where the file is compiled. Positions in the outputs name files relative to `base`.
    """
    definitions = tuple(definitions)
    parts = (
        compiler_digest(),
        str(file.absolute()),
        str(file),
        [str(each.absolute()) for each in folders],
        definitions,
        str(base),
    )
    name = f"p4-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"
    for folder in (store_folder(), SET_UP_FOLDER):
        entry = read_entry(folder / name)
        if entry is not None and (found := _unpacked(entry)) is not None:
            return found
    sources = SourceFiles()
    lowered = compile_file(file, folders, definitions, sources, base)
    warnings = tuple(sources.render(each) for each in sources.warnings)
    for each in warnings:
        _LOG.warning("%s", each)
    made = CompiledProgram(bmv2_json_text(lowered), p4info_text(p4info(lowered)), warnings)
    write_entry(store_folder() / name, _packed(made, sources))
    return made


def _packed(made: CompiledProgram, sources: SourceFiles) -> bytes:
    files = {each: digest for each, digest in sources.digests.items()}
    head = {
        "files": files,
        "absent": sorted(sources.absent),
        "p4info": made.p4info,
        "warnings": made.warnings,
    }
    return json.dumps(head).encode() + b"\n" + made.json


def _unpacked(entry: bytes) -> CompiledProgram | None:
    """Return the program of an entry; None if a file has changed, or one would be taken before it now."""
    head, _, data = entry.partition(b"\n")
    known = json.loads(head)
    if any(Path(each).exists() for each in known["absent"]):
        return None
    for each, digest in known["files"].items():
        try:
            if hashlib.sha256(Path(each).read_bytes()).hexdigest() != digest:
                return None
        except OSError:
            return None
    return CompiledProgram(data, known["p4info"], tuple(known["warnings"]))
