"""The settings of studies of cache policies and of miss ratios, and of a log that is generated for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from controller.hotset.choice import MAX_KEYS
from foundation.errors import DataError
from foundation.logs.access.access_settings import LogBatch, LogSettings
from foundation.logs.access.block import SAMPLES_PER_STEP, ReadOptions
from foundation.logs.access.dims import RowLogSettings, RowSettings
from foundation.logs.time_split import TRAIN_SHARE
from foundation.protocol.header import padded_dim
from foundation.protocol.rows import banks_of_row
from foundation.settings import Strict

DEFAULT_PERIOD_S = 10.0
MIN_PERIODS = 20
_MIN_STEPS = 2
"""Steps of the shortest default period. The keys of a step are distinct, so a set that is cleared after each
step could never hit."""
WRITES_PER_S = 572_000.0
"""Table writes/s for a hot set over gRPC, measured at an otherwise idle softswitch in the kernel
(docs/performance.md)."""


DEFAULT_SIZES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)


def _max_rows(rows: RowSettings) -> int:
    """Return the maximum number of rows in the switch, if all have the smallest dim."""
    return MAX_KEYS // banks_of_row(padded_dim(rows.min_dim))


class GeneratedLog(Strict):
    built_in: Literal["r1", "r2", "criteo"] | None = None
    """Generate a log instead of reading files: with the skew of Pan et al. (2020), or with the 26 tables and
    the dims of a DLRM on Criteo's clicks."""
    steps: int = Field(default=4000, ge=4)
    """With --built-in: steps of all workers together."""
    half_life: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """With --built-in: steps after which half of the ranks have another key."""
    shift: bool = False
    """With --built-in: half of the hot keys change at three quarters of the log."""

    @model_validator(mode="after")
    def _check_changes(self) -> Self:
        if self.built_in == "criteo" and (self.half_life is not None or self.shift):
            raise ValueError("half_life and shift: expected built_in r1 or r2, got criteo, whose keys stay")
        return self


class StudySettings(RowLogSettings):
    sizes: tuple[Annotated[int, Field(ge=1, le=MAX_KEYS)], ...] = DEFAULT_SIZES
    """Numbers of keys in the switch; by default, those that fit with rows of the dim."""
    policies: tuple[str, ...] = ()
    train_share: float = Field(default=TRAIN_SHARE, gt=0, lt=1)
    """Fixed sets are chosen from this first share of the steps; all policies are scored on the rest."""
    rate: float = Field(default=250.0, gt=0, allow_inf_nan=False)
    """Steps/s of all workers, to compute moves/s and the steps of a period."""
    period_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds after which sets are chosen again, and hashed slots are cleared; None means 10, or a twentieth
    of a short log."""
    writes_per_s: float = Field(default=WRITES_PER_S, gt=0, allow_inf_nan=False)
    """Table writes/s of the control plane; the default is the rate of softswitch."""
    servers: int = Field(default=2, ge=1, le=1000)
    """Number of parameter servers."""
    samples_per_step: LogBatch = SAMPLES_PER_STEP

    @property
    def read_options(self) -> ReadOptions:
        """Options of reading the log; raises `DataError`."""
        return self.read_options_of(self.samples_per_step)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_sizes(cls, given: Any) -> Any:  # the input of pydantic, of any type
        """Leave out default sizes of which no more rows fit; `for_log` does so after a log is read."""
        if not isinstance(given, dict) or given.get("sizes", DEFAULT_SIZES) != DEFAULT_SIZES:
            return given
        try:
            rows = RowSettings(dim=given.get("dim"), dims=given.get("dims", ()))
            if not rows.are_dims_known:
                return given
            return {**given, "sizes": tuple(size for size in DEFAULT_SIZES if size <= _max_rows(rows))}
        except (ValueError, DataError):  # which the checks of fields, and of the log, report
            return given

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if (problem := self._size_problem()) is not None:
            raise ValueError(problem)
        return self

    def _size_problem(self) -> str | None:
        if not self.are_dims_known or max(self.sizes) <= (max_rows := _max_rows(self)):
            return None
        return (
            f"sizes ({max(self.sizes)}): expected at most {max_rows:,}, as many rows of "
            f"{self.describe_dims(self.min_dim)} as the switch has slots for"
        )

    def for_log(self, dims: Sequence[int]) -> Self:
        """Return the settings for a log whose rows have these dims, with sizes that fit.

        Of the default sizes those that do not fit are left out; other sizes raise `DataError`.
        """
        settings = self.with_dims_of_log(dims)
        if self.sizes == DEFAULT_SIZES:
            sizes = tuple(size for size in DEFAULT_SIZES if size <= _max_rows(settings))
            return settings.model_copy(update={"sizes": sizes})
        if (problem := settings._size_problem()) is not None:
            raise DataError(problem)
        return settings

    def period(self, steps: int) -> int:
        if self.period_s is not None:
            return max(1, round(self.period_s * self.rate))
        return max(_MIN_STEPS, min(round(DEFAULT_PERIOD_S * self.rate), steps // MIN_PERIODS))


class MemorySettings(LogSettings, RowLogSettings):
    memory: tuple[Annotated[int, Field(ge=1)], ...] = (50_000, 200_000, 500_000, 1_000_000)
    """Bytes of the switch's memory, registers and table entries together."""


class MissRatioSettings(LogSettings, RowLogSettings):
    sample: float | None = Field(default=None, gt=0, le=1)
    """Share of the keys to sample (SHARDS), for large logs; prints the estimated error; None means all
    keys."""
