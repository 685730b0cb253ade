"""Exceptions of the bench."""


class BenchError(Exception):
    """What keeps the bench from running, in one line."""
