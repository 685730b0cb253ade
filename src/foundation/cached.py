"""Results that are cached as JSON in a folder of a user, and are computed again if a file is damaged."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from foundation.settings import Strict

CachedT = TypeVar("CachedT", bound="Cached")


class Cached(Strict):
    fingerprint: str
    """Digest of everything that the result depends on: sources, settings, inputs."""
    checksum: str = ""
    """Digest of all other fields and of the file's name (`with_checksum`)."""


def with_checksum(cached: CachedT, file: Path) -> CachedT:
    """Return what is to be written to a file, by whose name it differs from other files of the folder."""
    unchecked = cached.model_copy(update={"checksum": ""})
    checksum = hashlib.sha256(f"{file.name} {unchecked.model_dump_json()}".encode()).hexdigest()[:16]
    return cached.model_copy(update={"checksum": checksum})


def read_cached(file: Path, fingerprint: str, cached_class: type[CachedT]) -> CachedT | None:
    """Return what a file has if it is undamaged and has this fingerprint."""
    try:
        cached = cached_class.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None
    is_whole = cached == with_checksum(cached, file)
    return cached if is_whole and cached.fingerprint == fingerprint else None
