from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TypeAlias

_File: TypeAlias = str | PathLike[str]
LogFiles: TypeAlias = _File | Sequence[_File]
"""A file, folder or pattern of an access log (docs/logs.md), or several, which are merged."""


def paths_of(files: LogFiles) -> list[Path]:
    if isinstance(files, str | PathLike):
        return [Path(files)]
    return [Path(each) for each in files]
