from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

T = TypeVar("T")
JobId: TypeAlias = Annotated[int, Field(ge=0, le=0xFFFF)]
_MESSAGES = {
    "extra_forbidden": "there is no such field",
    "unexpected_keyword_argument": "there is no such field",
    "missing": "expected this field, found none",
}
"""Kind of pydantic's error -> message, instead of pydantic's own."""


def first_error(error: ValidationError) -> str:
    """Return the first error of a file's fields in one line: the path of the field, and the reason."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    message = _MESSAGES.get(first["type"], first["msg"])
    return f"{place}: {message}" if place else message


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*")
    @classmethod
    def _refuse_nul(cls, value: T) -> T:
        # The system's calls take no path or argument with a NUL byte.
        if isinstance(value, str | Path) and "\0" in str(value):
            raise ValueError("expected text without NUL bytes")
        return value
