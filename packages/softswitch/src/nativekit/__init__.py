"""Helpers for Python that numba compiles: decorators, records, references, and a plain-Python form."""
