"""The project's own vectors, tests/vectors/*.stf, with the compiled programs that they are for."""

from __future__ import annotations

from pathlib import Path

from softswitch.conformance.pairs import pairs_in

TESTS = Path(__file__).parents[1]
PAIRS, WITHOUT_PROGRAM = pairs_in([TESTS / "programs" / "compiled"], [TESTS / "vectors"])
