"""The committed compiler output belongs to the committed sources."""

from __future__ import annotations

import hashlib
from pathlib import Path

P4SRC = Path(__file__).parents[2] / "p4src"


def test_artefacts_are_of_these_sources() -> None:
    recorded = dict(
        reversed(line.split("  ./")) for line in (P4SRC / "compiled/sources.sha256").read_text().splitlines()
    )
    present = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in P4SRC.glob("*.p4")}
    assert recorded == present, "p4src/*.p4 has changed since p4src/compiled was built: run `make p4`"
