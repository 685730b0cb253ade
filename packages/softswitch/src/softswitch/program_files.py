"""Programs as files: BMv2 JSON, with P4Info beside it or not, or P4 source, which is compiled.

The compiler is imported where a file is P4 source, so that a process with BMv2 JSON starts without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from google.protobuf import text_format

from softswitch.errors import ProgramError, SwitchError
from softswitch.files import read_file
from softswitch.p4runtime.messages import p4i

SOURCE_SUFFIX = ".p4"


class ProgramFile(NamedTuple):
    """A program's BMv2 JSON, and the P4Info that the compiler made of its source; None for JSON."""

    json: bytes
    p4info: p4i.P4Info | None = None


def read_program(
    path: Path, folders: Sequence[Path] = (), definitions: Sequence[tuple[str, str]] = ()
) -> ProgramFile:
    """Return a program; raise `SwitchError` if the file cannot be read or compiled.

    `folders` are searched for the files that P4 source includes, and `definitions` are its macros.
    """
    if path.suffix != SOURCE_SUFFIX:
        if folders or definitions:
            raise SwitchError(f"{path}: expected P4 source (.p4) with -I and -D, got another file")
        return ProgramFile(read_file(path))
    if not path.is_file():
        raise SwitchError(f"{path}: No such file or directory")
    from softswitch.p4.cached import compile_cached

    try:
        made = compile_cached(path, folders, definitions)
    except ProgramError as error:
        raise SwitchError(f"{path} cannot be compiled\n{error}") from None
    return ProgramFile(made.json, text_format.Parse(made.p4info, p4i.P4Info()))
