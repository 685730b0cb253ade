"""Compilations are reported when no cache has their machine code, each with what it consists of as one."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nativekit import notices
from nativekit.compile import cached_entry_point
from nativekit.notices import compiling, notices_to
from softswitch import jit
from switch_harness.constructs import compiled

SOURCE = """
from nativekit.compile import compiled

@compiled
def add(a, b):
    return a + b

def add_twice(a, b):
    return add(add(a, b), b)
"""


def entry_point(folder: Path) -> Callable[..., Any]:
    """Return a new dispatcher, as of another process, whose machine code is cached in the folder."""
    spec = importlib.util.spec_from_file_location("noticed", folder / "noticed.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    add_twice: Callable[..., Any] = module.add_twice
    return cached_entry_point(add_twice, folder, [folder / "noticed.py"])


def test_compiling_an_entry_point_is_reported_until_its_code_is_cached(tmp_path: Path) -> None:
    (tmp_path / "noticed.py").write_text(SOURCE)
    reported: list[tuple[str, bool]] = []
    with notices_to(lambda name, seconds: reported.append((name, seconds is not None and seconds > 0))):
        for _ in range(2):
            assert entry_point(tmp_path)(1, 2) == 5
    # The function that it calls is a part of it.
    assert reported == [("noticed.add_twice", False), ("noticed.add_twice", True)]
    entry_point(tmp_path)(1.0, 2.0)  # compiled for another type, after the block
    assert len(reported) == 2


def test_a_part_is_not_reported_and_an_error_ends_a_notice() -> None:
    reported: list[tuple[str, bool]] = []
    with notices_to(lambda name, seconds: reported.append((name, seconds is None))):
        with pytest.raises(ValueError, match="inner"), compiling("whole"):
            with compiling("part"):
                pass
            raise ValueError("inner")
        with compiling("next"):
            pass
    assert reported == [("whole", True), ("whole", False), ("next", True), ("next", False)]
    assert notices._notices == []


def test_compiling_a_program_is_reported_until_its_code_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = compiled("match_kinds")
    names: list[str] = []
    with notices_to(lambda name, seconds: names.append(name)):
        for _ in range(2):
            jit.MachineCode(program)
    assert names == ["the switch's program"] * 2
