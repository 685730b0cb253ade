"""Limits on the resources of a submission's process."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Limits of one child process."""

    cpu_s: int = 30
    """CPU time in s, with that of the imports; the kernel ends the process after it."""
    idle_s: float = 20.0
    """Time in s for which the process may sleep while the checker waits for its answer."""
    memory_mb: int = 1500
    """Address space in MB."""
    file_kb: int = 4096
    """Size of a file that it writes, and of its folder, in kB."""
    open_files: int = 128


DEFAULT = Limits()
