"""The public logs: where each file is from, and how it is studied. No file is part of this repository."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from foundation.errors import DataError, reason_of


@dataclass(frozen=True, slots=True)
class PublicLog:
    title: str
    file: str
    """Name of the file in the folder of the logs."""
    origin: str
    """Package or repository, with its version or commit, and the path of the file in it."""
    rows: int
    sha256: str
    hot_keys: int
    """Keys in the switch when policies are compared: a twentieth of the log's keys."""
    options: dict[str, object] = field(default_factory=dict)
    """How the log is read, as the commands have it."""

    def find(self, folder: Path) -> Path:
        """Return the file in a folder; raise `DataError` if it is missing or another one."""
        path = folder / self.file
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {reason_of(error)}; expected {self.origin}") from error
        if found != self.sha256:
            raise DataError(
                f"{path}: expected the file with sha256 {self.sha256}, {self.origin}; got {found}"
            )
        return path

    @property
    def source(self) -> dict[str, object]:
        return {
            "title": self.title,
            "file": self.file,
            "origin": self.origin,
            "rows": self.rows,
            "sha256": self.sha256,
        }
