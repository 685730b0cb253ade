"""Functions that only compiled functions call get no machine code of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numba.core.codegen import JITCodeLibrary

from nativekit.compile import cached_entry_point, compiled, inlined, int64


@compiled
def doubled(value: int) -> int:
    return 2 * value


@inlined
def incremented(value: int) -> int:
    return value + 1


@compiled
def factorial_of_incremented(value: int) -> int:
    product = int64(1)
    for factor in range(2, incremented(value) + 1):
        product *= factor
    return product


def calls_them(value: int) -> int:
    return doubled(doubled(value)) + factorial_of_incremented(value)


def test_only_the_entry_point_becomes_machine_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emitted: list[str] = []
    emit: Callable[[Any], None] = JITCodeLibrary._finalize_specific

    def record(library: Any) -> None:
        emitted.append(str(library.name))
        emit(library)

    monkeypatch.setattr(JITCodeLibrary, "_finalize_specific", record)
    entry = cached_entry_point(calls_them, tmp_path, ())
    assert entry(4) == 16 + 120
    assert [name for name in emitted if name != "nrt"] == ["calls_them"]  # nrt is numba's runtime
    assert cached_entry_point(calls_them, tmp_path, ())(5) == 20 + 720  # from the cache
