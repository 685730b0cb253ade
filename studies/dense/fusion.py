"""Which gradients are sent together, where that is by a rule of time and size: fusion buffers and buckets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from foundation.settings import Strict
from studies.dense.layers import Layers

MIB = 2**20


class Fusion(Strict):
    """A buffer is sent when a layer that was just added reaches either bound; else at the end."""

    cycle_us: float | None = Field(default=None, ge=0)
    """Of backward since the last buffer was sent."""
    most_bytes: int | None = Field(default=None, ge=0)
    first_bytes: int | None = Field(default=None, ge=0)
    """The first buffer's bound in place of `most_bytes`."""

    def told(self) -> str:
        """When a buffer is sent, as a reader is told."""
        if self.most_bytes == 0:
            return "one for each layer"
        bounds = []
        if self.cycle_us is not None:
            bounds.append(f"{self.cycle_us / 1e3:g} ms of backward")
        if self.most_bytes is not None:
            first = f" (the first: {self.first_bytes / MIB:g})" if self.first_bytes is not None else ""
            bounds.append(f"{self.most_bytes / MIB:g} MiB{first}")
        return f"sent at {' or '.join(bounds)}" if bounds else "one, at the end of backward"


PRESETS = {
    "horovod-0.20": Fusion(cycle_us=5_000.0, most_bytes=64 * MIB),
    "horovod-0.21": Fusion(cycle_us=1_000.0, most_bytes=128 * MIB),
    "pytorch-ddp-2": Fusion(most_bytes=25 * MIB, first_bytes=1 * MIB),
    "dear": Fusion(most_bytes=25 * MIB),
    "layers": Fusion(most_bytes=0),
    "whole": Fusion(),
}
"""Defaults of others by name and version: Horovod up to 0.20, which [BOTTLENECK] has, and from 0.21 on;
PyTorch 2's DistributedDataParallel; DeAR's code of 2023 (`dear/dear_dopt.py` at 43138d8), which closes a
buffer before it reaches the bound and counts from the first layer on. Then each layer by itself, and all at
the end."""


def fuse(layers: Layers, fusion: Fusion) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """([b] bytes of the buffers in the order in which they are sent, [b] µs since backward began)."""
    sizes: list[int] = []
    times: list[float] = []
    held, began = 0, 0.0
    found, ready = layers.sent()
    for size, at in zip(found.tolist(), ready.tolist(), strict=True):
        held += size
        bound = fusion.first_bytes if not sizes and fusion.first_bytes is not None else fusion.most_bytes
        late = fusion.cycle_us is not None and at - began >= fusion.cycle_us
        if held and (late or (bound is not None and held >= bound)):
            sizes.append(held)
            times.append(at)
            held, began = 0, at
    if held:
        sizes.append(held)
        times.append(layers.total_backward_us)
    return np.array(sizes, dtype=np.int64), np.array(times)
