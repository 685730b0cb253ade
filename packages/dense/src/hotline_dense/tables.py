"""`python -m hotline_dense.tables [LOGS]` generates the tables of `packages/dense/src/hotline_dense/models`.

Estimates are computed from the architectures; the three measured tables are converted from LOGS, the folder
`simulation/bk_time_logs` of a checkout of netx-repo/training-bottleneck.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from hotline_dense import DenseError
from hotline_dense.architectures import ARCHITECTURES
from hotline_dense.catalogue import BACKWARD_SHARE, MODELS_FOLDER, ORIGINS
from hotline_dense.layers import Layers, write_layers

VALUE_BYTES = 4


def estimate(name: str) -> Layers:
    """Split the published time of a step by the multiply-adds of each tensor, rounded to 0.001 µs."""
    tensors = ARCHITECTURES[name]()
    work = np.array([tensor.multiply_adds for tensor in tensors], dtype=np.float64)
    times = ORIGINS[name].step_us * work / work.sum()
    return Layers(
        tuple(tensor.name for tensor in tensors),
        np.array([VALUE_BYTES * tensor.values for tensor in tensors], dtype=np.int64),
        np.round(BACKWARD_SHARE * times, 3),
        np.round((1 - BACKWARD_SHARE) * times, 3),
    )


def convert_log(name: str, log: Path) -> Layers:
    """Convert a log of lines `wait in µs,bytes`, last tensor first; raise `DenseError` for unknown sizes."""
    tensors = ARCHITECTURES[name]()
    lines = log.read_text().split()
    rows = [line.split(",") for line in lines if line.count(",") == 1 and line[0].isdigit()]
    sizes = np.array([int(size) for _, size in rows], dtype=np.int64)[::-1]
    if [VALUE_BYTES * tensor.values for tensor in tensors] != sizes.tolist():
        raise DenseError(f"{log}: expected the sizes of {name}'s tensors, got {sizes.tolist()[:3]}…")
    waits_us = np.array([float(wait) for wait, _ in rows])[::-1]
    return Layers(tuple(tensor.name for tensor in tensors), sizes, waits_us)


def main(arguments: list[str]) -> None:
    for name, origin in ORIGINS.items():
        if origin.is_estimate:
            write_layers(estimate(name), MODELS_FOLDER / f"{name}.csv")
        elif arguments:
            layers = convert_log(name, Path(arguments[0]) / f"{name}.bk.log")
            write_layers(layers, MODELS_FOLDER / f"{name}.csv")


if __name__ == "__main__":
    main(sys.argv[1:])
