"""Roles of the columns of a table, as `--columns` and the options beside it give them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foundation.errors import DataError
from foundation.text import one_line, shortened

ROLES = ("key", "time", "table", "iteration", "worker", "op", "weight", "dim")
TREATMENTS = ("text", "ignore")
"""What `--columns` may say of a column besides its role; `--text` and `--ignore` are short for them."""
LISTED = ("key", *TREATMENTS)  # of which there may be several columns


@dataclass(frozen=True, slots=True)
class AccessColumns:
    """Name of the column of each role; each of several columns of keys is a table, but for the `shared`."""

    key: tuple[str, ...] = ()
    time: str | None = None
    table: str | None = None
    iteration: str | None = None
    """Column with the number of an access's mini-batch; with `worker`, numbers count per worker."""
    worker: str | None = None
    op: str | None = None
    weight: str | None = None
    """Column with a number of equal rows that a row stands for."""
    dim: str | None = None
    """Column with the number of values of the rows that a row's keys name."""
    text: tuple[str, ...] = ()
    """Columns whose cells are one text each: neither integers nor lists."""
    ignore: tuple[str, ...] = ()
    """Columns that are given no role."""
    shared: tuple[tuple[str, str], ...] = ()
    """Columns of keys that name rows of a table that is not called as they are, and the table of each."""

    def table_of(self, key: str) -> str:
        """Return the name of the table that a column of keys has rows of."""
        return dict(self.shared).get(key, key)

    @property
    def key_tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(self.table_of, self.key)))

    @property
    def others(self) -> dict[str, str]:
        return {role: name for role in ROLES if role != "key" and (name := getattr(self, role)) is not None}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.key, *self.others.values())))

    def __str__(self) -> str:
        own = [name for name in self.key if name not in dict(self.shared)]
        keys = [f"key={','.join(own)}"] if own else []
        keys += [f"key@{table}={name}" for name, table in self.shared]
        lists = [f"{role}={','.join(names)}" for role in TREATMENTS if (names := getattr(self, role))]
        return ",".join([*keys, *lists, *(f"{role}={name}" for role, name in self.others.items())])


def parse_columns(text: str) -> AccessColumns:
    """Parse `key=user_id,item_id,time=timestamp`: a name without a role has the role before it.

    In `key@users=buyer,seller` both columns have keys of one table, `users`.
    """
    lists: dict[str, list[str]] = {role: [] for role in LISTED}
    other_columns: dict[str, str] = {}
    shared: dict[str, str] = {}
    role = table = ""
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals:
            (role, at, table), name = name.strip().partition("@"), value
            if at and (role != "key" or not table):
                raise DataError(f"--columns {text}: expected key@TABLE=NAME, got {part!r}")
        name = name.strip()
        if role not in (*ROLES, *TREATMENTS) or not name:
            roles = ", ".join((*ROLES, *TREATMENTS))
            raise DataError(f"--columns {text}: expected ROLE=NAME with a role of {roles}, got {part!r}")
        if role in lists:
            lists[role].append(name)
            if table and shared.setdefault(name, table) != table:
                raise DataError(f"--columns {text}: expected one table for {name}, got {table} as another")
        elif other_columns.get(role, name) != name:
            raise DataError(
                f"--columns {text}: expected one column with the role {role}, got {name!r} as another"
            )
        else:
            other_columns[role] = name
    key, text_columns, ignored = (tuple(dict.fromkeys(names)) for names in lists.values())
    return AccessColumns(
        key, text=text_columns, ignore=ignored, shared=tuple(shared.items()), **other_columns
    )


def add_columns(columns: Sequence[str], **of_role: Iterable[str]) -> str | None:
    """Join repeated `--columns` and the names that further options give a role; None if there are none."""
    further = (f"{role}={name}" for role, names in of_role.items() for name in names)
    return ",".join((*columns, *further)) or None


def join_names(names: Sequence[str]) -> str:
    return shortened(one_line(", ".join(names)))
