"""Steps of PyTorch's optimisers on a small table: committed vectors, and those of an installed PyTorch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.optimisers import SGD, Adagrad, Adam, parse

VECTORS = Path(__file__).with_name("torch_optimisers.json")
"""Gradients, PyTorch's version, and the values after each step by optimiser.

`python -m tests.harness.torch_optimisers` writes it anew where PyTorch is installed.
"""
ROWS, DIM, _STEPS = 5, 3, 12
SCALE = 2.0**12
OPTIMISERS = (
    "sgd(lr=0.3)", "adagrad(lr=0.1)", "adagrad(lr=0.5, eps=0.01, initial=0.25)", "adam",
    "adam(lr=0.2, beta1=0.5, beta2=0.75, eps=0.001)",
)  # fmt: skip
Values = NDArray[np.float32]


class Step(NamedTuple):
    rows: NDArray[np.int64]
    units: NDArray[np.int64]
    """[rows, DIM]: gradients in units of 1 / SCALE, some of them 0."""


@cache
def _content() -> Any:
    return json.loads(VECTORS.read_text())


def start() -> Values:
    """Return the values [ROWS, DIM] before the first step."""
    return np.array(_content()["start"], np.float32).reshape(ROWS, DIM)


def steps() -> list[Step]:
    return [
        Step(np.array(rows), np.array(units).reshape(len(rows), DIM)) for rows, units in _content()["steps"]
    ]


def vectors(text: str) -> list[Values]:
    """Return the committed values [ROWS, DIM] after each step of an optimiser of `OPTIMISERS`."""
    return [np.array(each, np.float32).reshape(ROWS, DIM) for each in _content()["values"][text]]


def of_torch(text: str, start: Values, steps: Sequence[Step]) -> list[Values]:
    """Return the values [ROWS, DIM] after each step of PyTorch's optimiser."""
    import torch

    values = torch.from_numpy(start.copy()).requires_grad_()
    optimiser = torch_optimiser(text, values)
    found = []
    for step in steps:
        gradient = torch.from_numpy((step.units / SCALE).astype(np.float32))
        rows = torch.from_numpy(step.rows)[None]
        with torch.sparse.check_sparse_tensor_invariants():
            values.grad = torch.sparse_coo_tensor(rows, gradient, (ROWS, DIM))
            optimiser.step()
        found.append(values.detach().numpy().copy())
    return found


def torch_optimiser(text: str, values: Any) -> Any:
    """Return PyTorch's optimiser of a text, for one tensor."""
    import torch

    match parse(text):
        case SGD(lr=lr):
            return torch.optim.SGD([values], lr=lr)
        case Adagrad(lr=lr, eps=eps, initial=initial):
            return torch.optim.Adagrad([values], lr=lr, eps=eps, initial_accumulator_value=initial)
        case Adam(lr=lr, beta1=beta1, beta2=beta2, eps=eps):
            return torch.optim.SparseAdam([values], lr=lr, betas=(beta1, beta2), eps=eps)
    raise ValueError(f"PyTorch has no optimiser {text}")


def _make_steps() -> list[Step]:
    random, made = np.random.default_rng(8), []
    for _ in range(_STEPS):
        rows = np.sort(random.choice(ROWS, random.integers(1, ROWS + 1), replace=False))
        units = random.integers(-20_000, 20_000, (len(rows), DIM))
        made.append(Step(rows, units * (random.integers(0, 4, units.shape) > 0)))
    return made


def main() -> None:
    import torch

    begin, made = np.random.default_rng(7).normal(size=(ROWS, DIM)).astype(np.float32), _make_steps()
    parts = {
        "torch": torch.__version__,
        "start": begin.reshape(-1).tolist(),
        "steps": [[step.rows.tolist(), step.units.reshape(-1).tolist()] for step in made],
        "values": {
            text: [each.reshape(-1).tolist() for each in of_torch(text, begin, made)] for text in OPTIMISERS
        },
    }
    # A line of text has the values after one step.
    VECTORS.write_text(json.dumps(parts).replace("], [", "],\n[").replace('": ', '":\n') + "\n")


if __name__ == "__main__":
    main()
