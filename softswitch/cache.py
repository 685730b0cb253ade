"""Where machine code is kept for the next start."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """The user's own folder for it, which need not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hotline"


def cache_of(package: Path) -> Path:
    """The folder for a package's compiled functions: in it, or the user's where it cannot be written."""
    return package / "__pycache__" if os.access(package, os.W_OK) else user_cache() / package.name
