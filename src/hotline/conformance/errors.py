"""What a run of vectors may end with; the text of each is one clear line."""

from __future__ import annotations

from foundation.errors import HotlineError


class ConformanceError(HotlineError):
    """Base of all errors that the runner reports."""


class StfError(ConformanceError):
    """A line of an STF file that is malformed, or that names what the program does not have."""


class Mismatch(ConformanceError):
    """The switch did something else than the vectors expect."""
