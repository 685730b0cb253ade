"""Names of a program's parts, and what its source calls them.

softswitch's compiler marks what it makes by a `$`, which no name of P4_16 has. A number behind a `$` tells
apart parts that the source gives one name. What has no name in the source begins with `$`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

SCALARS = "$scalars"
"""The metadata instance whose fields are the scalar variables of the source."""


def unique_name(name: str, taken: set[str]) -> str:
    """Return a name that is not taken yet, with a number if another part has it, and take it."""
    candidate, number = name, 0
    while candidate in taken:
        number += 1
        candidate = f"{name}${number}"
    taken.add(candidate)
    return candidate


def find_by_end(name: str, objects: Mapping[str, T]) -> T | None:
    """Return the object of a name, or else the only one whose name ends with it, as `t` of `ingress.t`."""
    if name in objects:
        return objects[name]
    found = [each for full_name, each in objects.items() if full_name.endswith(f".{name}")]
    return found[0] if len(found) == 1 else None


def source_name(name: str) -> str:
    """Return the name in the source; it is empty if the compiler has made the part."""
    return name.partition("$")[0]


def source_field_name(header: str, field: str) -> str:
    """Return the name of a field with its header, or that of the variable that it is."""
    if header == SCALARS:
        return source_name(field)
    parts = source_name(header), source_name(field)
    return ".".join(filter(None, parts)) if parts[0] or not header else ""
