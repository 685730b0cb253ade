"""Bitmaps of lanes (bit i = lane i) as bool arrays, and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.header import LANES


def bitmap_of(lanes: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


def lanes_in(bitmap: int, count: int) -> NDArray[np.bool_]:
    octets = np.frombuffer(bitmap.to_bytes(LANES // 8, "little"), dtype=np.uint8)
    return np.unpackbits(octets, count=count, bitorder="little").view(np.bool_)
