"""Training with rows: the loss is that of rows of one value."""

from __future__ import annotations

import numpy as np
import pytest

from foundation.protocol.header import padded_dim
from hosts.model import LogisticRegression
from hosts.workload.generator import Shape, generate


@pytest.mark.parametrize("dim", [3, 16, 100])
def test_the_loss_with_rows_equals_the_loss_with_single_values(dim: int) -> None:
    trace = generate(
        Shape("t", 500, 50, 0.5, 40, 4), workers=1, steps=300, seed=2, progress=lambda done: None
    )
    width = padded_dim(dim)
    rows, values = np.zeros((500, width), np.uint32), np.zeros(500, np.uint32)
    of_rows, of_values = LogisticRegression(dim=dim), LogisticRegression()
    losses = []
    for step in range(trace.steps):
        batch = trace.batch(1, step)
        push, loss = of_rows.step(batch, rows[batch.positions].ravel())
        rows[batch.positions] += push.reshape(-1, width)
        push, expected = of_values.step(batch, values[batch.positions])
        values[batch.positions] += push
        assert loss == pytest.approx(expected, abs=1e-4)
        losses.append(loss)
    assert np.mean(losses[-50:]) < np.mean(losses[:50]) and not rows[:, dim:].any() and rows[:, dim - 1].any()
