"""Packages that not all installations have, and what installs each of them."""

from __future__ import annotations

_EXTRAS = {"pynng": "nanomsg", "scapy": "network"}


def installation(package: str) -> str | None:
    """Return the command that installs an optional package, and None for other packages."""
    extra = _EXTRAS.get(package)
    return None if extra is None else f"pip install 'hotline-softswitch[{extra}]'"


def missing_package(error: ImportError, what: str) -> str | None:
    """Return what to install for `what`, the subject of the sentence; None for other errors."""
    package = (error.name or "").partition(".")[0]
    command = installation(package)
    return None if command is None else f"{what} needs {package}, which cannot be imported: {command}"
