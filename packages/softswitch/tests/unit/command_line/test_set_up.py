"""What set-up compiles is compiled by no switch: programs, for both datapaths and for all users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nativekit.notices import notices_to
from softswitch import cache
from softswitch.jit import MachineCode
from softswitch.kernel.control import build_control_code
from softswitch.kernel.front import build_front
from softswitch.memory.layout import make_layout
from softswitch.p4runtime.loaded_config import LoadedConfig
from softswitch.set_up import compile_programs
from switch_harness import PROGRAMS

FILES = PROGRAMS / "control.json", PROGRAMS / "control.p4info.txtpb"


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have empty caches; yield the user's."""
    monkeypatch.setattr(cache, "SET_UP_FOLDER", tmp_path / "set-up")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    build_control_code.cache_clear()
    yield tmp_path / "user"
    build_control_code.cache_clear()


def compiled_by_a_start() -> list[str]:
    """Make what a switch makes of a new program, on packet sockets and in the kernel; return the notices."""
    compiled: list[str] = []
    build_control_code.cache_clear()
    with notices_to(lambda name, seconds: compiled.append(name)):
        program = LoadedConfig.read(*FILES).program
        MachineCode(program)
        build_front(program, make_layout(program))
        build_control_code()
    return compiled


def test_a_program_of_set_up_is_not_compiled_again(caches: Path) -> None:
    compile_programs([FILES])
    stored = {file.name for file in cache.SET_UP_FOLDER.iterdir()}
    assert len(stored) >= 4 and not [*caches.rglob("*.o")]
    assert compiled_by_a_start() == []
    assert not [*caches.rglob("*.o")]  # nothing was missing, so nothing was stored


def test_a_new_set_up_replaces_the_programs_of_the_last_set_up(caches: Path) -> None:
    cache.SET_UP_FOLDER.mkdir()
    (cache.SET_UP_FOLDER / "old.o").touch()
    compile_programs([])
    assert "old.o" not in {file.name for file in cache.SET_UP_FOLDER.iterdir()}


def test_without_set_up_a_program_is_compiled_and_stored_for_the_user(caches: Path) -> None:
    assert compiled_by_a_start() != []
    assert list((caches / "hotline").glob("*.o")) and not cache.SET_UP_FOLDER.exists()
    assert compiled_by_a_start() == []
