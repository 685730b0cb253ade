"""Random vectors of floats. To draw each value of 350 took Hypothesis half a second an example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray


def float_vectors(
    values: int, limit: float, octaves: int, special: Sequence[float]
) -> st.SearchStrategy[NDArray[np.float32]]:
    """Draw vectors float32[workers, values] of 2 to 5 workers, up to `limit` or `special`, by a seed.

    The others are in a random range of magnitudes, of up to so many octaves below `limit`.
    """

    def make(seed: int, workers: int, share: float) -> NDArray[np.float32]:
        rng, shape = np.random.default_rng(seed), (workers, values)
        least, most = sorted(rng.integers(0, octaves, 2, endpoint=True))
        magnitudes = limit * np.exp2(-rng.integers(least, most, shape, endpoint=True).astype(np.float64))
        drawn = magnitudes * rng.uniform(0.5, 1, shape) * rng.choice([-1, 1], shape)
        return np.where(rng.random(shape) < share, rng.choice(special, shape), drawn).astype(np.float32)

    return st.builds(
        make, seed=st.integers(0, 2**32), workers=st.integers(2, 5), share=st.sampled_from([0, 0.1, 0.5])
    )
