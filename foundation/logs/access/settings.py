"""How a log of accesses is read: settings of each command that takes one, with one help text."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from foundation.logs.access.block import SAMPLES_PER_STEP, ReadOptions, read_options
from foundation.logs.access.columns import ROLES
from foundation.settings import Strict

LogColumns: TypeAlias = Annotated[
    str | None,
    Field(
        description=f"Columns of the log: {', '.join(ROLES)}; each key column is a table; None means guessed."
    ),
]
LogBatch: TypeAlias = Annotated[
    int, Field(ge=1, description="Rows in a mini-batch, for a log without an iteration column.")
]
LogSkipBad: TypeAlias = Annotated[bool, Field(description="Skip and count bad rows.")]


class LogSettings(Strict):
    columns: LogColumns = None
    batch: LogBatch = SAMPLES_PER_STEP
    skip_bad: LogSkipBad = False

    @property
    def read_options(self) -> ReadOptions:
        """Options of reading the log; raises `DataError`."""
        return read_options(self.columns, self.batch, self.skip_bad)
