"""Assignment of keys to RPCs by hash lane, for register reads; workers have packing of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.header import BITMAP_DTYPE, LANES


@dataclass(frozen=True, slots=True)
class Packing:
    size: int  # number of keys of the operation
    position: NDArray[np.int32]
    """[n, LANES]: index of the lane's key in the operation; `size` if the lane is not live."""
    ps: NDArray[np.uint16]
    count: NDArray[np.uint8]
    """[n]: number of lanes of the RPC."""
    live: NDArray[np.unsignedinteger]
    """[n]: bitmap of the live lanes."""

    def __len__(self) -> int:
        return len(self.ps)


def packing(size: int, position: NDArray[np.int32], ps: NDArray[np.uint16]) -> Packing:
    """Return the packing with the keys at `position` [n, LANES] in the lanes, and `ps` [n] as servers."""
    is_live = position != size
    # An RPC has lanes up to its last live one, the first of the reversed order.
    return Packing(
        size=size,
        position=position,
        ps=ps,
        count=(LANES - is_live[:, ::-1].argmax(axis=1)).astype(np.uint8),
        live=np.packbits(is_live, axis=1, bitorder="little").view(BITMAP_DTYPE)[:, 0],
    )


def pack_hashed(ps: NDArray[np.uint16], lane: NDArray[np.uint8]) -> Packing:
    """Assign each key to its hash lane in an RPC to its PS (both [size]); RPCs to different PSs alternate."""
    size = len(ps)
    n_ps = int(ps.max()) + 1 if size else 1
    # Keys with the same PS and lane need an RPC each.
    rank = rank_in_group(ps.astype(np.uint32) * LANES + lane)
    rpc, row = np.unique(rank * n_ps + ps, return_inverse=True)
    position = np.full((len(rpc), LANES), size, dtype=np.int32)
    position[row, lane] = np.arange(size)
    return packing(size, position, (rpc % n_ps).astype(np.uint16))


def rank_in_group(group: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
    """Return, for each entry of `group` [n], the number of equal entries before it: [n]."""
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - starts[group[order]]
    return rank
