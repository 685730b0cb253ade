"""Cache of machine code if the package is not writable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nativekit import cache
from nativekit.cache import cache_of, code_folder, read_entry, user_cache, write_entry

NOBODY = 65534


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


def test_a_folder_that_other_users_can_write_to_is_not_trusted(temporary: Path, tmp_path: Path) -> None:
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


def _make_homes(folder: Path) -> dict[str, Path]:
    """Homes in which an unprivileged user can make no folder."""
    homes = {
        name: folder / name
        for name in ("missing", "unreadable", "unwritable", "a file", "a program", "dangling", "a loop")
    }
    for name, mode in (("unreadable", 0o000), ("unwritable", 0o555)):
        homes[name].mkdir()
        homes[name].chmod(mode)
    homes["a file"].touch()
    homes["a program"].touch(mode=0o777)
    homes["dangling"].symlink_to(folder / "nowhere" / "at all")
    homes["a loop"].symlink_to(homes["a loop"])
    homes["missing"] /= "too"
    homes["below a file"] = homes["a file"] / "home"
    homes["too long"] = folder / ("x" * 300)
    homes["a cache that is a file"] = folder / "home"
    (folder / "home").mkdir()
    (folder / "home" / ".cache").touch()
    (folder / "home" / "hotline").touch()
    folder.chmod(0o755)
    return homes


# Prints what `user_cache` returns in each environment, or the error. Arguments: a temporary folder, the
# environments, and the user to become.
_PRINT_USER_CACHES = """
import json, os, sys, tempfile
from nativekit.cache import user_cache

tempfile.tempdir = sys.argv[1]
if os.getuid() == 0:
    os.setgroups([])
    os.setuid(int(sys.argv[3]))
answers = []
for environment in json.loads(sys.argv[2]):
    for name in ("HOME", "XDG_CACHE_HOME"):
        os.environ.pop(name, None)
    os.environ.update(environment)
    try:
        answers.append(str(user_cache()))
    except Exception as error:
        answers.append(repr(error))
print(json.dumps(answers))
"""


def _user_caches_of_nobody(environments: list[dict[str, str]], temporary: Path) -> list[str]:
    """What `user_cache` returns to an unprivileged user in each environment, or the error."""
    arguments = [str(temporary), json.dumps(environments), str(NOBODY)]
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_USER_CACHES, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_a_home_in_which_nothing_can_be_made_is_replaced_by_a_temporary_folder(variable: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        (temporary := Path(name) / "temporary").mkdir()
        temporary.chmod(0o777)
        homes = _make_homes(Path(name))
        found = _user_caches_of_nobody([{variable: str(home)} for home in homes.values()], temporary)
        user = NOBODY if os.getuid() == 0 else os.getuid()
        assert dict(zip(homes, found, strict=True)) == dict.fromkeys(homes, f"{temporary}/hotline-{user}")
        homes["unreadable"].chmod(0o700)  # to remove it


def test_a_relative_cache_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the specification of XDG_CACHE_HOME says: it would be another folder in each working directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for relative in ("", ".", "cache"):
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        assert user_cache() == tmp_path / ".cache" / "hotline"


@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_a_name_in_the_temporary_folder_that_is_taken_is_not_used(
    kind: str, temporary: Path, tmp_path: Path
) -> None:
    own = temporary / f"hotline-{os.getuid()}"
    own.touch() if kind == "file" else own.symlink_to(tmp_path / "nowhere")
    found = user_cache()
    assert (found.parent, found.is_dir(), found != own) == (temporary, True, True)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30))
def test_a_cache_keeps_the_last_used_entries_up_to_a_size(uses: list[tuple[int, bool]]) -> None:
    """Entries of 100 bytes, of which three fit; other files stay."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(cache, "MAX_BYTES", 350)
        patched.setattr(cache, "_BYTES_BETWEEN_LOOKS", 0)
        package = Path(folder)
        entries = [code_folder(package, f"v{number}") / f"f{number}.nbc" for number in range(3)]
        entries += [package / "__pycache__" / name for name in ("a.o", "b.o", "p4-c")]
        other = package / "__pycache__" / "module.pyc"
        other.parent.mkdir()
        other.write_bytes(bytes(10_000))
        kept: list[int] = []
        for time_s, (number, is_read) in enumerate(uses, 1):
            if not is_read:
                write_entry(entries[number], bytes(68))
                kept = [*(each for each in kept if each != number), number][-3:]
            elif (content := read_entry(entries[number])) is not None:
                assert content == bytes(68)
                kept = [*(each for each in kept if each != number), number]
            # Times of the file system are too coarse for an order.
            for place, each in enumerate(kept):
                os.utime(entries[each], (time_s, time_s + place))
            found = {number for number, entry in enumerate(entries) if entry.exists()}
            assert found == set(kept) and other.exists()
        assert not any(not [*each.iterdir()] for each in other.parent.glob("compiled-*"))
