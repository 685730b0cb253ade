"""Steps of FBGEMM's exact row-wise Adagrad: committed vectors.

`python -m tests.harness.fbgemm_adagrad` writes them anew where `fbgemm-gpu-cpu` is installed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

VECTORS = Path(__file__).with_name("fbgemm_adagrad.json")
DIMS = (4, 16, 64)
ROWS, STEPS, RATE, EPS = 6, 8, 0.05, 1e-8
UNITS = 2**12
"""Gradients are whole numbers of 1 / UNITS."""


class Step(NamedTuple):
    rows: NDArray[np.int64]  # [n], ascending
    units: NDArray[np.int32]  # [n, dim]


def weights() -> dict[int, NDArray[np.float32]]:
    """Return the committed rows after each step by dim: [STEPS, ROWS, dim]; they begin at 0."""
    content = json.loads(VECTORS.read_text())["dims"]
    return {
        int(dim): np.array(rows, np.float32).reshape(STEPS, ROWS, int(dim)) for dim, rows in content.items()
    }


def make_steps(dim: int) -> list[Step]:
    random, steps = np.random.default_rng(dim), []
    for _ in range(STEPS):
        rows = np.sort(random.choice(ROWS, random.integers(1, ROWS + 1), replace=False))
        steps.append(Step(rows, random.integers(-UNITS, UNITS, (len(rows), dim)).astype(np.int32)))
    return steps


def train(dim: int, steps: list[Step]) -> list[list[float]]:
    """Return the weights after each step, by FBGEMM on the CPU."""
    import torch
    from fbgemm_gpu import split_table_batched_embeddings_ops_training as ops
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode

    table: Any = ops.SplitTableBatchedEmbeddingBagsCodegen(
        [(ROWS, dim, EmbeddingLocation.HOST, ops.ComputeDevice.CPU)],
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=RATE,
        eps=EPS,
        pooling_mode=PoolingMode.SUM,
    )
    (weights,) = table.split_embedding_weights()
    weights.data.zero_()
    after = []
    for step in steps:
        bags = table(torch.from_numpy(step.rows), torch.arange(len(step.rows) + 1))
        bags.backward(torch.from_numpy((step.units / UNITS).astype(np.float32)))
        after.append(table.split_embedding_weights()[0].detach().numpy().ravel().tolist())
    return after


def main() -> None:
    import fbgemm_gpu
    import torch

    dims = {dim: train(dim, make_steps(dim)) for dim in DIMS}
    versions = {"torch": torch.__version__, "fbgemm-gpu-cpu": fbgemm_gpu.__version__}
    text = json.dumps({"versions": versions, "dims": dims})
    VECTORS.write_text(text.replace("], [", "],\n[").replace('": ', '":\n') + "\n")


if __name__ == "__main__":
    main()
