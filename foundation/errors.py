"""The base of all errors that a user may be told."""

from __future__ import annotations


class HotlineError(Exception):
    """Its text is one clear line: the value, where it stands, and what would be right."""
