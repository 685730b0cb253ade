"""Folders in which compiled machine code is cached."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """Return the user's cache folder, which may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hotline"


def cache_of(package: Path) -> Path:
    """Return the cache folder of a package: inside it, or in the user's cache if the package is read-only."""
    return package / "__pycache__" if os.access(package, os.W_OK) else user_cache() / package.name
