"""Fusion buffers (buckets): which gradients are sent together, by bounds on time and size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from foundation.settings import Strict
from hotline_dense.layers import Layers

MIB = 2**20


class Fusion(Strict):
    """Bounds at which a buffer is sent, checked after each layer; the last buffer is sent at the end."""

    cycle_us: float | None = Field(default=None, ge=0, le=1e9)
    """Time of backward, since the previous buffer, after which one is sent; None means no bound."""
    max_bytes: int | None = Field(default=None, ge=0, le=10**6 * MIB)
    """Size at which a buffer is sent; None means no bound."""
    first_bytes: int | None = Field(default=None, ge=0, le=10**6 * MIB)
    """Size of the first buffer, of the last layers: PyTorch's DistributedDataParallel has 1 MiB, and then 25;
    None means that of the others."""

    def describe(self) -> str:
        if self.max_bytes == 0:
            return "one for each layer"
        bounds = []
        if self.cycle_us is not None:
            bounds.append(f"{self.cycle_us / 1e3:g} ms of backward")
        if self.max_bytes is not None:
            first_bound = f" (the first: {self.first_bytes / MIB:g})" if self.first_bytes is not None else ""
            bounds.append(f"{self.max_bytes / MIB:g} MiB{first_bound}")
        return f"sent at {' or '.join(bounds)}" if bounds else "one, at the end of backward"


PRESETS = {
    "horovod-0.20": Fusion(cycle_us=5_000.0, max_bytes=64 * MIB),
    "horovod-0.21": Fusion(cycle_us=1_000.0, max_bytes=128 * MIB),
    "pytorch-ddp-2": Fusion(max_bytes=25 * MIB, first_bytes=1 * MIB),
    "dear": Fusion(max_bytes=25 * MIB),
    "layers": Fusion(max_bytes=0),
    "whole": Fusion(),
}
"""Defaults of other software by name and version: Horovod up to 0.20, which [BOTTLENECK] uses, and from 0.21
on; PyTorch 2's DistributedDataParallel; DeAR's code of 2023 (`dear/dear_dopt.py` at 43138d8), which, unlike
`fuse`, closes a buffer before it reaches the bound and counts from the first layer on. `layers` sends each
layer by itself, `whole` sends all layers at the end."""


def fuse(layers: Layers, fusion: Fusion) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the buffers' bytes[b] in send order, and the times[b], in µs of backward, of their readiness."""
    sizes: list[int] = []
    times: list[float] = []
    buffer_bytes, cycle_start = 0, 0.0
    layer_sizes, ready_times = layers.sizes_and_ready_times()
    for size, time in zip(layer_sizes.tolist(), ready_times.tolist(), strict=True):
        buffer_bytes += size
        bound = fusion.first_bytes if not sizes and fusion.first_bytes is not None else fusion.max_bytes
        is_due = fusion.cycle_us is not None and time - cycle_start >= fusion.cycle_us
        if buffer_bytes and (is_due or (bound is not None and buffer_bytes >= bound)):
            sizes.append(buffer_bytes)
            times.append(time)
            buffer_bytes, cycle_start = 0, time
    if buffer_bytes:
        sizes.append(buffer_bytes)
        times.append(layers.total_backward_us)
    return np.array(sizes, dtype=np.int64), np.array(times)
