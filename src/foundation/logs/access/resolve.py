"""The columns of a table: those that options name, and guesses for the roles that they do not name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import polars as pl

from foundation.errors import DataError
from foundation.logs.access.column_roles import LISTED, AccessColumns, join_names
from foundation.logs.access.guess import (
    AmbiguousColumnsError,
    ColumnProfile,
    Guess,
    guess_from_names,
    guess_from_values,
)


def resolve(
    requested: AccessColumns,
    sample: pl.DataFrame,
    lists: Collection[str],
    location: str,
    has_header: bool = True,
) -> AccessColumns:
    """Return the columns of a table, given its first rows; guess the roles that `requested` lacks.

    `lists` are the columns that hold lists of keys. A pattern such as `C*` stands for all matching columns,
    and a number that is no name for the column with this number.
    """
    names = sample.columns
    requested = _with_names_of(requested, names, location)
    if requested == AccessColumns() and {"key", "updates"} <= set(names) and "iteration" not in names:
        raise DataError(
            f"{location}: has key, updates: counts without their order; expected one access a row "
            "(`hotline hotset curve` computes the share of the top k keys from counts)"
        )
    if both := set(requested.names) & set(requested.ignore):
        raise DataError(
            f"{location}: expected a column to have a role, or to be ignored, got both for {min(both)!r}"
        )
    excluded = {*requested.others.values(), *requested.ignore}
    profiles = [ColumnProfile(sample[name], name in lists) for name in names]
    guessed_keys, guessed_others = _guess(requested, profiles, excluded, sample, location, has_header)
    columns = AccessColumns(
        requested.key or guessed_keys,
        text=requested.text,
        ignore=requested.ignore,
        shared=requested.shared,
        **{**guessed_others, **requested.others},
    )
    # A requested time excludes the mini-batches that the header suggests.
    if requested.time is not None and requested.iteration is None:
        columns = replace(columns, iteration=None, worker=requested.worker)
    # A guessed key with another role is no key, a requested one is both.
    other_names = set(columns.others.values())
    is_key = [key not in other_names or key in requested.key for key in columns.key]
    columns = replace(columns, key=tuple(key for key, keep in zip(columns.key, is_key, strict=True) if keep))
    if not columns.key:
        raise DataError(
            f"{location}: no column looks like a key; "
            f"expected --columns key=NAME with one of {join_names(names)}"
        )
    if columns.shared and columns.table is not None:
        raise DataError(
            f"{location}: --columns key@{columns.shared[0][1]}=...; expected none beside "
            f"table={columns.table}, a column that names the table of each row"
        )
    if columns.weight is not None and columns.iteration is not None:
        raise DataError(
            f"{location}: --weight {columns.weight}; expected none, because a key counts once in each of "
            f"the mini-batches of column {columns.iteration}"
        )
    return columns


def _guess(
    requested: AccessColumns, profiles: Sequence[ColumnProfile], excluded: Collection[str],
    sample: pl.DataFrame, location: str, has_header: bool,
) -> Guess:  # fmt: skip
    if has_header:
        return guess_from_names(profiles, excluded)
    try:
        return guess_from_values(profiles, excluded, sample)
    except AmbiguousColumnsError as error:
        if requested.key:
            return (), {}
        raise DataError(f"{location}: {error}") from None


def _with_names_of(requested: AccessColumns, names: Sequence[str], location: str) -> AccessColumns:
    def matching(name: str) -> list[str]:
        found = [column for column in names if column == name or fnmatchcase(column, name)]
        if not found and name.isdecimal() and 1 <= int(name) <= len(names):
            found = [names[int(name) - 1]]
        if not found:
            raise DataError(f"{location}: expected a column {name!r}, got the columns {join_names(names)}")
        return found

    key, text, ignored = (
        tuple(dict.fromkeys(column for name in getattr(requested, role) for column in matching(name)))
        for role in LISTED
    )
    others = {role: matching(name)[0] for role, name in requested.others.items()}
    shared = tuple((column, table) for name, table in requested.shared for column in matching(name))
    return AccessColumns(key, text=text, ignore=ignored, shared=shared, **others)
