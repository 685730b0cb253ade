"""Schemas of designs' programs, which connections share, and the wire versions of programs."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache

import finsy as fy
from finsy.p4schema import P4SchemaCache

from controller.errors import PipelineError
from foundation.designs.interface import Design
from foundation.designs.registry import HOW_TO_COMPILE

_SCHEMAS = P4SchemaCache()  # type: ignore[no-untyped-call]  # finsy gives it no types
"""Schemas of programs, of which finsy would make one for each connection."""
_DEFAULT_WIRE_VERSION = "1"  # of programs whose p4info names no version


def find_wire_version(schema: fy.P4Schema, design: Design) -> str | None:
    # A program with other tables is not one of this project, and so has no wire version.
    has_same_tables = {table.alias for table in schema.tables} == {
        table.alias for table in schema_of(design).tables
    }
    if not has_same_tables or not schema.p4info:
        return None
    return schema.p4info.pkg_info.version or _DEFAULT_WIRE_VERSION


def shared_schemas() -> AbstractContextManager[object]:
    """Let finsy share schemas, unless the caller already does."""
    return _SCHEMAS if P4SchemaCache.current() is None else nullcontext()


@cache
def schema_of(design: Design) -> fy.P4Schema:
    try:
        with shared_schemas():
            return fy.P4Schema(design.p4info)
    except OSError as error:
        raise PipelineError(f"{design.p4info}: cannot be read: {error.strerror}; {HOW_TO_COMPILE}") from error
