"""Which key of an operation travels in which lane of which RPC.

Keys that are hinted hot go to their hash lane, in RPCs of their own: only there can the switch serve them,
and only an RPC of which every lane is served never reaches a PS. All other keys fill lanes densely.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.header import BITMAP_DTYPE, LANES


@dataclass(frozen=True, slots=True)
class Packing:
    """Placement of `size` keys in n RPCs: dense RPCs first, and in turn for each PS."""

    size: int
    position: NDArray[np.int32]
    """[n, LANES]: index of the lane's key in the operation; `size` where the lane is not live."""
    ps: NDArray[np.uint16]
    """[n]: id of the PS."""
    count: NDArray[np.uint8]
    """[n]: lanes of the RPC."""
    live: NDArray[np.unsignedinteger]
    """[n]: bitmap of the lanes in use."""
    hashed: NDArray[np.bool_]
    """[n]: keys are in their hash lanes."""

    def __len__(self) -> int:
        return len(self.ps)


def pack(ps: NDArray[np.uint16], lane: NDArray[np.uint8], hinted: NDArray[np.bool_]) -> Packing:
    """Give keys their lanes, by each one's PS, hash lane and hint (all of shape [size])."""
    size = len(ps)
    n_ps = int(ps.max()) + 1 if size else 1
    # Keys of one group compete for the same lanes: one PS's cold keys, or one PS's hot keys of one lane.
    group = np.where(hinted, n_ps + ps.astype(np.uint32) * LANES + lane, ps)
    rank = _rank_in_group(group)
    packet = np.where(hinted, rank, rank // LANES)
    column = np.where(hinted, lane, rank % LANES)
    rpc, row = np.unique((hinted * (size + 1) + packet) * n_ps + ps, return_inverse=True)

    position = np.full((len(rpc), LANES), size, dtype=np.int32)
    position[row, column] = np.arange(size)
    used = position != size
    return Packing(
        size=size,
        position=position,
        ps=(rpc % n_ps).astype(np.uint16),
        count=(LANES - used[:, ::-1].argmax(axis=1)).astype(np.uint8),
        live=np.packbits(used, axis=1, bitorder="little").view(BITMAP_DTYPE)[:, 0],
        hashed=rpc >= (size + 1) * n_ps,
    )


def _rank_in_group(group: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
    """How many earlier elements are in the same group."""
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - starts[group[order]]
    return rank
