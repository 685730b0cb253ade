"""A damaged file in the cache is a file that is not there: what it held is computed and cached again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nativekit.cache import read_entry, write_entry
from switch_harness.damage import DAMAGES, damage

PROJECT = Path(__file__).parents[3]
MODULE = """
from pathlib import Path

from nativekit.compile import cached_entry_point


def doubled(number):
    return number + number


doubled = cached_entry_point(doubled, Path(__file__).parent, [Path(__file__)])
"""
FILES = 7
"""A program, its machine code, its code for BPF, object code of both, and the code of two signatures."""


def test_every_cached_file_may_be_damaged_in_any_way(tmp_path: Path) -> None:
    """In processes of their own: half an object file may end a process by SIGSEGV."""
    (tmp_path / "made.py").write_text(MODULE)
    (tmp_path / "__pycache__").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "switch_harness.cachers", str(tmp_path)],
        cwd=PROJECT / "tests",
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(PROJECT / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"files": FILES, "kinds": [".nbc", ".o"], "faults": []}


@pytest.mark.parametrize("way", DAMAGES)
@pytest.mark.parametrize("content", [b"", b"a", bytes(range(256)) * 40])
def test_a_damaged_cache_entry_is_ignored_and_can_be_written_again(
    tmp_path: Path, way: str, content: bytes
) -> None:
    entry, other = tmp_path / "entry", tmp_path / "other"
    write_entry(entry, content)
    write_entry(other, content)
    assert read_entry(entry) == content
    damage(entry, way, other.read_bytes())
    assert read_entry(entry) is None
    write_entry(entry, content)
    assert read_entry(entry) == content
    assert sorted(tmp_path.iterdir()) == [entry, other]


def test_an_entry_that_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    write_entry(tmp_path / "file" / "entry", b"content")
    assert read_entry(tmp_path / "file" / "entry") is None


def test_cached_files_are_read_only_by_functions_that_verify_their_content() -> None:
    """No other module looks for the cache's folders, and none uses numba's own cache."""
    sources = {
        str(file.relative_to(PROJECT / "src")): file.read_text() for file in (PROJECT / "src").rglob("*.py")
    }
    names = ("user_cache", "cache_of", "code_folder", "cache=True")
    users = {name for name, text in sources.items() if any(each in text for each in names)}
    assert users == {"nativekit/cache.py", "nativekit/machine_code.py", "softswitch/cache.py"}
