"""Options of `softswitch net`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class NetOptions:
    file: Path
    sources: Path | None
    pings_all: bool
    runs: tuple[tuple[str, str], ...]
    is_json: bool
    grpc_port: int

    @property
    def is_interactive(self) -> bool:
        return not self.pings_all and not self.runs
