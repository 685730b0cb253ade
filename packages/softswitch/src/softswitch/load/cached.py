"""Large programs, cached on disk once they are loaded: to read one back takes a quarter of the time."""

from __future__ import annotations

import hashlib
import io
import pickle
import platform
from dataclasses import fields, is_dataclass
from typing import Any

from softswitch import ir
from softswitch.cache import cached_object, source_key_parts
from softswitch.load import load_program

MIN_CACHED_BYTES = 1 << 20
"""Smallest JSON whose program is cached: smaller ones are loaded in some 40 ms."""


class ProgramPickler(pickle.Pickler):
    """Pickles dataclasses as calls of their classes, which unpickle in less than half of the time."""

    def reducer_override(self, each: object) -> Any:  # NotImplemented, or a callable and its arguments
        if isinstance(each, type) or not is_dataclass(each) or isinstance(each, ir.Program):
            return NotImplemented
        return type(each), tuple(getattr(each, field.name) for field in fields(each))


def load_cached_program(data: bytes) -> ir.Program:
    """Return what `load_program` returns, or raise what it raises."""
    if len(data) < MIN_CACHED_BYTES:
        return load_program(data)
    key_parts = source_key_parts("program", hashlib.sha256(data).hexdigest(), platform.python_version())
    try:
        program: ir.Program = pickle.loads(cached_object(key_parts, lambda: _pickled(load_program(data))))
    except RecursionError:  # pickle needs more of the stack than the loader
        return load_program(data)
    return program


def _pickled(program: ir.Program) -> bytes:
    stream = io.BytesIO()
    ProgramPickler(stream, pickle.HIGHEST_PROTOCOL).dump(program)
    return stream.getvalue()
