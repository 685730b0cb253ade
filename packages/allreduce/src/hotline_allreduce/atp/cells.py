"""The cells of a job: a hash of the job and the place in the window, without repetition within a worker.

As in in-ATP/ATP's `common/HashTable.cc`: the CRC-32 of job, place and a salt, each in two little-endian
bytes, cut to 16 bits, modulo the number of cells. So with 20,000 cells the first 5,536 are hit a third more
often. The salt grows until the cell is not in the worker's list.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from hotline_allreduce.atp.packet import CELLS

_FIRST_BYTE_VALUES = 255
"""Number of values of the salt's first byte (0 to 254, as in ATP), after which the second byte grows."""


def cells_of(app: int, places: int, cells: int = CELLS) -> NDArray[np.int64]:
    """Return a job's initial cells, int64[places]; raise `ValueError` for more places than cells."""
    if places > cells:
        raise ValueError(f"expected at most {cells} places, got {places}")
    job_cells: dict[int, None] = {}
    for place in range(places):
        salt = 0
        while (cell := _hash(app, place, salt) % cells) in job_cells:
            salt += 1
        job_cells[cell] = None
    return np.array(list(job_cells), np.int64)


def _hash(app: int, place: int, salt: int) -> int:
    second, first = divmod(salt, _FIRST_BYTE_VALUES)
    return zlib.crc32(struct.pack("<HHBB", app, place & 0xFFFF, first, second)) & 0xFFFF
