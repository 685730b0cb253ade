"""Roles of the columns of a table: as given by `--columns`, or guessed from the header."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from foundation.errors import DataError
from foundation.text import one_line, shortened

ROLES = ("key", "time", "table", "iteration", "worker", "op")
_KEY_NAME = re.compile(r"(.*_)?(id|ids|key|keys|obj|object|item|user|movie|lbn|lba|uid|iid)|c\d+|cat_?\d+")
_CAMEL_ID = re.compile(r".*[a-z](Id|ID)s?")
_TIME_NAME = re.compile(r"(.*_)?(timestamp|time|ts|datetime|date)|t")
_COMMON_NAMES = {
    "table": ("table", "table_id", "table_name"),
    "iteration": ("iteration", "step", "batch", "batch_id"),
    "worker": ("worker", "worker_id", "rank"),
}


@dataclass(frozen=True, slots=True)
class AccessColumns:
    """Name of the column of each role; with several columns of keys, each is a table."""

    key: tuple[str, ...] = ()
    time: str | None = None
    table: str | None = None
    iteration: str | None = None
    """Column with the number of an access's mini-batch; with `worker`, numbers count per worker."""
    worker: str | None = None
    op: str | None = None

    @property
    def others(self) -> dict[str, str]:
        return {role: name for role in ROLES if role != "key" and (name := getattr(self, role)) is not None}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.key, *self.others.values())))

    def __str__(self) -> str:
        keys = [f"key={','.join(self.key)}"] if self.key else []
        return ",".join([*keys, *(f"{role}={name}" for role, name in self.others.items())])


def parse_columns(text: str) -> AccessColumns:
    """Parse `key=user_id,item_id,time=timestamp`: a name without a role has the role before it."""
    keys: list[str] = []
    other_columns: dict[str, str] = {}
    role = ""
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals:
            role, name = name.strip(), value
        name = name.strip()
        if role not in ROLES or not name:
            roles = ", ".join(ROLES)
            raise DataError(f"--columns {text}: expected ROLE=NAME with a role of {roles}, got {part!r}")
        if role == "key":
            keys.append(name)
        elif role in other_columns:
            raise DataError(
                f"--columns {text}: expected one column with the role {role}, got {name!r} as another"
            )
        else:
            other_columns[role] = name
    return AccessColumns(key=tuple(keys), **other_columns)


def resolve(
    requested: AccessColumns, names: Sequence[str], lists: Collection[str], location: str
) -> AccessColumns:
    """Return the columns of a table with this header; guess the columns of roles that `requested` lacks.

    `lists` are the columns that hold lists of keys. A pattern such as `C*` stands for all matching columns.
    """
    for name in (*requested.key, *requested.others.values()):
        if not any(fnmatchcase(column, name) or column == name for column in names):
            raise DataError(f"{location}: expected a column {name!r}, got the columns {_join_names(names)}")
    if requested == AccessColumns() and {"key", "updates"} <= set(names) and "iteration" not in names:
        raise DataError(
            f"{location}: has key, updates: counts without their order; expected one access a row "
            "(`hotline hotset curve` computes the share of the top k keys from counts)"
        )
    guesses = _guess(names, lists, set(requested.others.values()))
    keys = tuple(
        column
        for pattern in requested.key
        for column in names
        if column == pattern or fnmatchcase(column, pattern)
    )
    columns = replace(guesses, key=tuple(dict.fromkeys(keys)) or guesses.key, **requested.others)
    # A requested time excludes the mini-batches that the header suggests.
    if requested.time is not None and requested.iteration is None:
        columns = replace(columns, iteration=None, worker=requested.worker, op=requested.op)
    # A guessed key with another role is no key, a requested one is both.
    other_names = set(columns.others.values())
    columns = replace(columns, key=tuple(key for key in columns.key if key not in other_names or key in keys))
    if not columns.key:
        raise DataError(
            f"{location}: no column looks like a key; "
            f"expected --columns key=NAME with one of {_join_names(names)}"
        )
    return columns


def looks_like_key(name: str) -> bool:
    return bool(_KEY_NAME.fullmatch(name.lower()) or _CAMEL_ID.fullmatch(name))


def _guess(names: Sequence[str], lists: Collection[str], excluded: Collection[str]) -> AccessColumns:
    # Of names that differ by case only, the dict keeps the first of the header, as it is filled in reverse.
    names_by_lower = {name.lower(): name for name in reversed(names) if name not in excluded}
    other_columns = {
        role: next(
            (names_by_lower[candidate] for candidate in candidates if candidate in names_by_lower), None
        )
        for role, candidates in _COMMON_NAMES.items()
    }
    time = next(
        (name for lower_name, name in reversed(names_by_lower.items()) if _TIME_NAME.fullmatch(lower_name)),
        None,
    )
    if other_columns["iteration"] is None:
        other_columns["worker"] = None
    op = names_by_lower.get("op") if other_columns["iteration"] is not None else None
    taken_names = {*excluded, *other_columns.values(), time, op}
    keys = [name for name in names if name not in taken_names and (name in lists or looks_like_key(name))]
    if "key" in names_by_lower:
        keys = [names_by_lower["key"]]
    if other_columns["iteration"] is not None:  # mini-batches are in order without a time
        time = None
    return AccessColumns(key=tuple(keys), time=time, op=op, **other_columns)


def _join_names(names: Sequence[str]) -> str:
    return shortened(one_line(", ".join(names)))
