"""Cache of machine code if the package is not writable."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from nativekit.cache import cache_of


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files, the only one that can be written to."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(os, "access", lambda path, mode: folder in (Path(path), *Path(path).parents))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return folder


def test_the_user_s_cache_comes_after_the_package_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "not" / "yet"))
    assert cache_of(tmp_path) == tmp_path / "__pycache__"
    assert cache_of(tmp_path / "nowhere") == tmp_path / "not" / "yet" / "hotline" / "nowhere"


def test_without_a_home_code_is_cached_in_a_folder_of_the_user_s_own(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = temporary / f"hotline-{os.getuid()}"
    assert cache_of(tmp_path / "hosts") == own / "hosts"
    assert own.stat().st_mode & 0o777 == 0o700

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert cache_of(tmp_path / "hosts") == own / "hosts"


def test_a_folder_that_others_can_write_to_is_not_trusted(temporary: Path, tmp_path: Path) -> None:
    """Another user could put machine code there."""
    own = temporary / f"hotline-{os.getuid()}"
    own.mkdir()
    own.chmod(0o777)
    assert cache_of(tmp_path / "hosts") not in (own / "hosts", tmp_path)
    own.rmdir()
    (tmp_path / "elsewhere").mkdir()
    own.symlink_to(tmp_path / "elsewhere")
    assert temporary in cache_of(tmp_path / "hosts").parents
    assert cache_of(tmp_path / "hosts").parent != own
