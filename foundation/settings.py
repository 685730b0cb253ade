from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, field_validator

T = TypeVar("T")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*")
    @classmethod
    def _refuse_nul(cls, value: T) -> T:
        # The system's calls take no path or argument with a NUL byte.
        if isinstance(value, str | Path) and "\0" in str(value):
            raise ValueError("expected text without NUL bytes")
        return value
