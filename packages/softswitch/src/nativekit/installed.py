"""Whether numba and llvmlite can be imported; without them compiled functions run as plain Python."""

from __future__ import annotations

import sys
from importlib.util import find_spec

_PACKAGES = ("llvmlite", "numba")


class NumbaMissing(ImportError):
    """numba or llvmlite is not installed; the text says what needs them, and how to install them."""


def _reason_of_absence() -> str | None:
    try:
        absent = [name for name in _PACKAGES if find_spec(name) is None]
    except ImportError as error:
        return str(error)
    return f"No module named {absent[-1]!r}" if absent else None


NUMBA_ABSENCE = _reason_of_absence()
"""Why numba and llvmlite cannot be imported; None if both are found. Importing them would be slow."""
HAS_NUMBA = NUMBA_ABSENCE is None


def require_numba(what: str) -> None:
    """Raise `NumbaMissing` without numba; `what` is the subject of the sentence that it says."""
    if not HAS_NUMBA:
        raise NumbaMissing(absence_message(what))


def absence_message(what: str) -> str:
    """Return what to install for `what`, the subject of the sentence, where numba is missing."""
    install = f"`{sys.executable} -m pip install {' '.join(_PACKAGES)}` installs both"
    return f"{what} needs numba and llvmlite, which cannot be imported ({NUMBA_ABSENCE}); {install}"


def is_absence(error: ImportError) -> bool:
    """Return whether an import has failed because numba or llvmlite is missing."""
    return isinstance(error, NumbaMissing) or (error.name or "").partition(".")[0] in _PACKAGES
