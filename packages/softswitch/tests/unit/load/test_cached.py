"""A program that is read back from the cache is the one that its JSON declares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest

from softswitch.errors import ProgramError
from softswitch.load import cached, load_program
from softswitch.load.cached import load_cached_program
from switch_harness import PROGRAMS

DATA = (PROGRAMS / "l3.json").read_bytes()


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cached, "MIN_CACHED_BYTES", 0)
    return tmp_path


def refuse(_: object) -> NoReturn:
    raise AssertionError("the program is loaded again")


def test_a_cached_program_is_not_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_program(DATA)
    assert load_cached_program(DATA) == loaded
    monkeypatch.setattr(cached, "load_program", refuse)
    again = load_cached_program(DATA)
    assert again == loaded and repr(again) == repr(loaded)
    with pytest.raises(AssertionError, match="loaded again"):
        load_cached_program(DATA + b" ")


def test_a_cached_program_is_loaded_again_with_changed_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    load_cached_program(DATA)
    monkeypatch.setattr("softswitch.cache.source_digest", lambda: "other sources")
    monkeypatch.setattr(cached, "load_program", refuse)
    with pytest.raises(AssertionError, match="loaded again"):
        load_cached_program(DATA)


def test_a_refused_program_is_not_cached(empty_cache: Path) -> None:
    for _ in range(2):
        with pytest.raises(ProgramError, match="not a BMv2 program"):
            load_cached_program(json.dumps([]).encode())
    assert not list(empty_cache.rglob("*.o"))


def test_a_small_program_is_not_cached(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    monkeypatch.setattr(cached, "MIN_CACHED_BYTES", len(DATA) + 1)
    assert load_cached_program(DATA) == load_program(DATA)
    assert not list(empty_cache.rglob("*.o"))


def test_a_program_too_deep_for_pickle_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def dump(*_: object) -> NoReturn:
        raise RecursionError

    monkeypatch.setattr(cached.ProgramPickler, "dump", dump)
    assert load_cached_program(DATA) == load_program(DATA)
