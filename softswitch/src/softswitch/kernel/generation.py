"""A pipeline's part of what outlives the process (`pins`): its maps, and a folder for its control plane."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from softswitch.errors import KernelError
from softswitch.kernel import bpf

OBJECTS = "bpf"
"""The bpffs in the folder."""
_FIRST_ADDRESS, _SPAN, _PLACES = 1 << 44, 1 << 32, 1 << 10


class Generation:
    """One pipeline's part; it `is_kept` where another process has made it."""

    def __init__(self, folder: Path, number: int, is_kept: bool) -> None:
        self.number, self.is_kept = number, is_kept
        self.is_current = is_kept
        """Whether packets meet it; one that they never came to meet goes with its pipeline."""
        self.folder = folder / str(number)
        self._objects = folder / OBJECTS / str(number)
        # Wherever it is mapped it has to be at this address.
        self.address = _FIRST_ADDRESS + number % _PLACES * _SPAN
        if not is_kept:
            self.folder.mkdir()
            self._objects.mkdir()

    def map(self, name: str, create: Callable[[], int]) -> int:
        """File descriptor of a map: the one that is kept, or a new one that will be."""
        path = self._objects / name
        if self.is_kept:
            return bpf.get(path)
        descriptor = create()
        try:
            bpf.pin(path, descriptor)
        except KernelError:
            bpf.close(descriptor)
            raise
        return descriptor

    def remove(self) -> None:
        """Give it up."""
        for folder in (self.folder, self._objects):
            shutil.rmtree(folder, ignore_errors=True)
