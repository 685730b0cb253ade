"""Errors of the analysis."""

from __future__ import annotations

from foundation.errors import HotlineError


class AnalysisError(HotlineError):
    """The record of a run cannot be used; the text names the file and what is wrong."""
