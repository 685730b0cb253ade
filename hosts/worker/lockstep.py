"""What state machines of workers that push together know alike, besides what those of all designs do."""

from __future__ import annotations

INTEGERS, FLOATS = 5, 6
"""Operations besides those of all designs: an all-reduce of integers, or of floats."""
PATIENCE_NS = 10_000_000_000
"""After so long in which nothing has come an operation has stalled."""
