"""Settings of a check of submissions."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from hotline_course.limits import Limits

PUBLISHED_SEED = 0
"""Seed of the parameters that students see."""


class CheckSettings(BaseModel):
    """Settings of a check."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: NonNegativeInt = PUBLISHED_SEED
    """Also check with parameters of this seed."""
    exercise: str | None = None
    """The exercise; None means that of the folder's exercise.toml."""
    jobs: int | None = Field(default=None, ge=1)
    """Submissions at a time; None means one for each CPU."""
    cpu_seconds: PositiveInt = Limits().cpu_s
    """CPU time of each child process in s."""


DEFAULT_SETTINGS = CheckSettings()
