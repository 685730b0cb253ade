"""How a log of accesses is read: settings of each command that takes one, with one help text."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from foundation.logs.access.block import MAX_BAD, SAMPLES_PER_STEP, ReadOptions, read_options
from foundation.logs.access.column_roles import ROLES, add_columns
from foundation.settings import Strict


def _as_names(value: object) -> object:
    return () if value is None else (value,) if isinstance(value, str) else value


LogColumns: TypeAlias = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_names),
    Field(
        description=f"Columns of the log, by name or number: {', '.join(ROLES)}; each key column is a table; "
        "key@TABLE=NAME,NAME gives several one table. May be repeated; None means guessed."
    ),
]
LogTexts: TypeAlias = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_names),
    Field(description="A column whose cells are one text each, also if they look like numbers or lists."),
]
LogIgnored: TypeAlias = Annotated[
    tuple[str, ...], BeforeValidator(_as_names), Field(description="A column that is given no role.")
]
LogFormat: TypeAlias = Annotated[
    Literal[
        "criteo", "recbole", "json", "libffm", "libsvm", "web", "table", "lists", "column", "parquet",
        "arrow", "oracle-general",
    ]
    | None,
    Field(description="Format of the log; None means the one that explains most of its first lines."),
]  # fmt: skip
LogSeparator: TypeAlias = Annotated[
    str | None,
    Field(
        description="What separates the values of a line: a text, or tab, space, comma, semicolon or bar; "
        "None means guessed."
    ),
]
LogBatch: TypeAlias = Annotated[
    int, Field(ge=1, description="Rows in a mini-batch, for a log without an iteration column.")
]
LogSkipBad: TypeAlias = Annotated[bool, Field(description="Skip and count bad rows.")]
LogMaxBad: TypeAlias = Annotated[
    float, Field(ge=0, le=1, description="Share of bad rows up to which --skip-bad skips them.")
]


class LogFormatSettings(Strict):
    columns: LogColumns = ()
    text: LogTexts = ()
    ignore: LogIgnored = ()
    weight: str | None = Field(
        default=None, description="Column of counts: a row stands for so many equal rows."
    )
    format: LogFormat = None
    separator: LogSeparator = None
    skip_bad: LogSkipBad = False
    max_bad: LogMaxBad = MAX_BAD

    @property
    def all_columns(self) -> str | None:
        """What is said of columns, as one text; None if nothing is."""
        weights = () if self.weight is None else (self.weight,)
        return add_columns(self.columns, text=self.text, ignore=self.ignore, weight=weights)

    def read_options_of(self, batch: int) -> ReadOptions:
        """Options of reading the log; raises `DataError`."""
        return read_options(self.all_columns, batch, self.skip_bad, self.format, self.separator, self.max_bad)


class LogSettings(LogFormatSettings):
    batch: LogBatch = SAMPLES_PER_STEP

    @property
    def read_options(self) -> ReadOptions:
        """Options of reading the log; raises `DataError`."""
        return self.read_options_of(self.batch)
