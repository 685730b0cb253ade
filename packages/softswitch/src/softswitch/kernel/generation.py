"""The pinned objects of one pipeline (see `kernel.pins`): its maps, and a folder for its control plane."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from softswitch.errors import KernelError
from softswitch.kernel import bpf

OBJECTS = "bpf"
# An arena has at most 4 GiB. After `_ADDRESS_RANGES` generations, the addresses repeat.
_FIRST_ADDRESS, _ADDRESS_SPAN, _ADDRESS_RANGES = 1 << 44, 1 << 32, 1 << 10


class Generation:
    """The pinned objects of one pipeline; `is_restored` is true if another process created them."""

    def __init__(self, folder: Path, number: int, is_restored: bool) -> None:
        self.number, self.is_restored = number, is_restored
        self.is_current = is_restored
        """Whether the pipeline processes packets; if not, closing the pipeline removes the generation."""
        self.folder = folder / str(number)
        self._objects = folder / OBJECTS / str(number)
        # An arena has the same address in every process that maps it.
        self.address = _FIRST_ADDRESS + number % _ADDRESS_RANGES * _ADDRESS_SPAN
        if not is_restored:
            self.folder.mkdir()
            self._objects.mkdir()

    def open_map(self, name: str, create: Callable[[], int]) -> int:
        path = self._objects / name
        if self.is_restored:
            return bpf.open_pinned(path)
        descriptor = create()
        try:
            bpf.pin(path, descriptor)
        except KernelError:
            bpf.close(descriptor)
            raise
        return descriptor

    def remove(self) -> None:
        for folder in (self.folder, self._objects):
            shutil.rmtree(folder, ignore_errors=True)
