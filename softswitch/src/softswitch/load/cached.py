"""Large programs, cached on disk once they are loaded: to read one back takes a quarter of the time."""

from __future__ import annotations

import hashlib
import pickle
import platform

from softswitch import ir
from softswitch.cache import cached_object, source_key_parts
from softswitch.load import load_program

MIN_CACHED_BYTES = 1 << 20
"""Smallest JSON whose program is cached: smaller ones are loaded in some 40 ms."""


def load_cached_program(data: bytes) -> ir.Program:
    """Return what `load_program` returns, or raise what it raises."""
    if len(data) < MIN_CACHED_BYTES:
        return load_program(data)
    key_parts = source_key_parts("program", hashlib.sha256(data).hexdigest(), platform.python_version())
    try:
        program: ir.Program = pickle.loads(
            cached_object(key_parts, lambda: pickle.dumps(load_program(data), pickle.HIGHEST_PROTOCOL))
        )
    except RecursionError:  # pickle needs more of the stack than the loader
        return load_program(data)
    return program
