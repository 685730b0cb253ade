"""Exceptions of the analysis; each message is one line meant for the user."""


class AnalysisError(Exception):
    """The logs or the record of a run cannot be used; the text names the file and what is wrong."""
