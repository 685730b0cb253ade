"""Helpers of tests: pipelines, constructs, networks of veth pairs, models of P4Runtime entities."""

from __future__ import annotations

from pathlib import Path

PROGRAMS = Path(__file__).parents[1] / "programs" / "compiled"
"""Compiled programs of the tests."""
