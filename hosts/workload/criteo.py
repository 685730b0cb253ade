"""A workload shaped as a DLRM on Criteo's clicks: 26 tables of different sizes, dims and skews.

The sizes are the distinct values of each category in the 45,840,617 samples of Criteo's Display Advertising
Challenge (2014), as in facebookresearch/dlrm. The skews are fitted to a second published number, how many of
them are in ten samples or more (ChenglongChen/kaggle-2014-criteo, stats/field_count.r0.t10.txt). Correlations
of the categories are not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.header import padded_dim
from foundation.protocol.rows import RowRange, RowRanges
from hosts.workload.generator import PowerLaw, bins_of, bisect

SAMPLES = 45_840_617
MAX_ROWS = 2**15
"""Rows of a table; larger tables put their values into these rows by modulo, as DLRM's --max-ind-range does.
All rows together have 14 million values, which agents can allocate."""
_FREQUENT = 10  # samples that a frequent value is in
_MAX_EXPONENT = 2.5
"""Exponent of tables whose rarest value is frequent, which fits any exponent up to a larger one."""
_SHIFT = 1.0


@dataclass(frozen=True, slots=True)
class Table:
    """A category with its distinct values, and those of them that are in ten samples or more."""

    values: int
    frequent: int

    @property
    def rows(self) -> int:
        return min(self.values, MAX_ROWS)

    @property
    def dim(self) -> int:
        """The fourth root of the distinct values, padded: TensorFlow's rule of thumb for embeddings."""
        return padded_dim(round(self.values**0.25))

    def law(self) -> PowerLaw:
        """Return the law in which the last frequent value is in ten samples of `SAMPLES`."""

        def negative_samples(exponent: float) -> float:
            law = PowerLaw(self.values, exponent, _SHIFT)
            low, high = law.cumulative(np.array([self.frequent - 1.0, self.frequent]))
            return -float(high - low) * SAMPLES

        # The integral has another form for an exponent of 1; bisecting these bounds never yields exactly 1.
        exponent = bisect(negative_samples, -_FREQUENT, low=0.8001, high=_MAX_EXPONENT)
        return PowerLaw(self.values, exponent, _SHIFT)


TABLES = tuple(
    Table(values, frequent)
    for values, frequent in (
        (1_460, 1_457), (583, 554), (10_131_227, 193_948), (2_202_608, 138_800), (305, 305), (24, 18),
        (12_517, 11_969), (633, 633), (3, 3), (93_145, 42_645), (5_683, 5_177), (8_351_593, 192_772),
        (3_194, 3_174), (27, 26), (14_992, 11_421), (5_461_306, 181_074), (10, 10), (5_652, 4_653),
        (2_173, 2_031), (4, 4), (7_046_547, 189_656), (18, 17), (15, 15), (286_181, 59_696), (105, 85),
        (142_572, 45_570),
    )
)  # fmt: skip
FIRST_ROWS = tuple(accumulate((table.rows for table in TABLES), initial=0))
"""Position of the first row of each table, and the number of all rows."""
RANGES: RowRanges = tuple(
    RowRange(first, table.dim) for first, table in zip(FIRST_ROWS, TABLES, strict=False)
)
MAX_DIM = max(table.dim for table in TABLES)


class CriteoTables:
    """26 features a sample, one of each table (`generator.Features`); the rows of a table are shuffled."""

    name, parameters, features_per_sample, ranges = "criteo", FIRST_ROWS[-1], len(TABLES), RANGES

    def __init__(self, keys_per_step: int, random: np.random.Generator) -> None:
        self._laws = [table.law() for table in TABLES]
        self._rows = [
            first + random.permutation(table.rows).astype(np.uint32)
            for first, table in zip(FIRST_ROWS, TABLES, strict=False)
        ]
        edges = [bins_of(table.values, 1) for table in TABLES]

        def expected_keys(samples: float) -> float:
            pairs = zip(self._laws, edges, strict=True)
            return float(sum(law.updates(round(samples), of_law).sum() for law, of_law in pairs))

        self.samples = max(1, round(bisect(expected_keys, keys_per_step, low=1, high=100 * keys_per_step)))

    def positions(self, uniform: NDArray[np.float64]) -> NDArray[np.uint32]:
        drawn = np.empty(uniform.shape, np.uint32)
        for k, (law, rows) in enumerate(zip(self._laws, self._rows, strict=True)):
            ranks = law.ranks(uniform[:, k :: len(TABLES)])
            drawn[:, k :: len(TABLES)] = rows[ranks % len(rows)]
        return drawn
