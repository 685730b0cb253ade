"""Roles of the columns of a table: as given by `--columns`, or guessed from the header."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from foundation.errors import DataError
from foundation.text import one_line, shortened

ROLES = ("key", "time", "table", "iteration", "worker", "op")
_KEY = re.compile(r"(.*_)?(id|ids|key|keys|obj|object|item|user|movie|lbn|lba|uid|iid)|c\d+|cat_?\d+")
_CAMEL_ID = re.compile(r".*[a-z](Id|ID)s?")
_TIME = re.compile(r"(.*_)?(timestamp|time|ts|datetime|date)|t")
_NAMES = {
    "table": ("table", "table_id", "table_name"),
    "iteration": ("iteration", "step", "batch", "batch_id"),
    "worker": ("worker", "worker_id", "rank"),
}


@dataclass(frozen=True, slots=True)
class Columns:
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
        return {role: name for role in ROLES[1:] if (name := getattr(self, role)) is not None}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.key, *self.others.values())))

    def __str__(self) -> str:
        keys = [f"key={','.join(self.key)}"] if self.key else []
        return ",".join([*keys, *(f"{role}={name}" for role, name in self.others.items())])


def parse_columns(text: str) -> Columns:
    """Parse `key=user_id,item_id,time=timestamp`: a name without a role has the role before it."""
    keys: list[str] = []
    others: dict[str, str] = {}
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
        elif role in others:
            raise DataError(f"--columns {text}: expected one column with the role {role}, got {name!r}, too")
        else:
            others[role] = name
    return Columns(key=tuple(keys), **others)


def resolve(given: Columns, names: Sequence[str], lists: Collection[str], where: str) -> Columns:
    """Return the columns of a table with this header; guess the columns of roles that `given` lacks.

    `lists` are the columns that hold lists of keys. A pattern such as `C*` stands for all matching columns.
    """
    for name in (*given.key, *given.others.values()):
        if not any(fnmatchcase(each, name) or each == name for each in names):
            raise DataError(f"{where}: expected a column {name!r}, got the columns {_join_names(names)}")
    if given == Columns() and {"key", "updates"} <= set(names) and "iteration" not in names:
        raise DataError(
            f"{where}: has key, updates: counts without their order; expected one access a row "
            "(`hotline hotset curve` computes the share of the top k keys from counts)"
        )
    guessed = _guess(names, lists, set(given.others.values()))
    keys = tuple(
        each for wanted in given.key for each in names if each == wanted or fnmatchcase(each, wanted)
    )
    found = replace(guessed, key=tuple(dict.fromkeys(keys)) or guessed.key, **given.others)
    if given.time is not None and given.iteration is None:
        found = replace(found, iteration=None, worker=given.worker, op=given.op)
    used = set(found.others.values())
    found = replace(found, key=tuple(key for key in found.key if key not in used or key in keys))
    if not found.key:
        raise DataError(
            f"{where}: no column looks like a key; "
            f"expected --columns key=NAME with one of {_join_names(names)}"
        )
    return found


def looks_like_key(name: str) -> bool:
    return bool(_KEY.fullmatch(name.lower()) or _CAMEL_ID.fullmatch(name))


def _guess(names: Sequence[str], lists: Collection[str], excluded: Collection[str]) -> Columns:
    lower = {name.lower(): name for name in reversed(names) if name not in excluded}
    others = {
        role: next((lower[each] for each in wanted if each in lower), None) for role, wanted in _NAMES.items()
    }
    time = next((name for low, name in reversed(lower.items()) if _TIME.fullmatch(low)), None)
    if others["iteration"] is None:
        others["worker"] = None
    op = lower.get("op") if others["iteration"] is not None else None
    used = {*excluded, *others.values(), time, op}
    keys = [name for name in names if name not in used and (name in lists or looks_like_key(name))]
    if "key" in lower:
        keys = [lower["key"]]
    if others["iteration"] is not None:
        time = None
    return Columns(key=tuple(keys), time=time, op=op, **others)


def _join_names(names: Sequence[str]) -> str:
    return shortened(one_line(", ".join(names)))
