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
    def recipe(self) -> str:
        return f"{self.file}: {self.origin}; {self.rows:,} rows, sha256 {self.sha256}"


LOGS = (
    PublicLog(
        title="MovieLens",
        file="ml-100k.inter",
        origin="recbole/dataset_example/ml-100k/ml-100k.inter in the wheel of recbole 1.2.1 (PyPI)",
        rows=100_000,
        sha256="4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
        hot_keys=130,
        options={"batch": 10},
    ),
    PublicLog(
        title="Criteo",
        file="criteo.tsv",
        origin=(
            "data/criteo/train.csv in github.com/Lapis-Hong/Wide-ResDNN, "
            "commit 9889f939deb904a35692e2efdc6ab4f743a7df71"
        ),
        rows=7_200,
        sha256="2b0614035f6c931dc4ac2c1a1a26fa954f2b9231703f3a77bcdd53d9d9f29872",
        hot_keys=1_700,
        options={"batch": 10},
    ),
    PublicLog(
        title="CloudPhysics",
        file="cloudPhysicsIO.oracleGeneral.bin",
        origin=(
            "data/cloudPhysicsIO.oracleGeneral.bin in github.com/1a1a11a/libCacheSim, "
            "commit aa0fc40914b2b786f4b9f4dafb099f8f332b216a"
        ),
        rows=113_872,
        sha256="65438dd7b2d3dec7ffe8a5c9348045da92de3311f339b7b59c9a0a44e6050dea",
        hot_keys=2_400,
        options={"batch": 1},
    ),
)
"""Ratings of films by users, clicks on advertisements by 26 categories, and the blocks of a disk."""
