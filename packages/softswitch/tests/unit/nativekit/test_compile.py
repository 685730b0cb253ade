"""Entry points in a process that compiles nothing: their machine code is loaded, and what compiles is not."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from nativekit import machine_code as compiling
from nativekit.compile import cached_entry_point

MODULE = """
from pathlib import Path

from nativekit.compile import cached_entry_point, compiled

HERE = Path(__file__).parent


@compiled
def halved(number):
    return number / 2


def sum_of_halves(numbers, out):
    total = 0.0
    for number in numbers:
        total += halved(number)
    out[0] = total
    return total


sum_of_halves = cached_entry_point(sum_of_halves, HERE, [Path(__file__)])
"""

CALLS = """
import json, sys

import numpy as np

from made import sum_of_halves

numbers, out = np.arange(5), np.zeros(1)
found = [sum_of_halves(numbers, out), out[0], len(sum_of_halves.stats.cache_misses)]
can_compile = "numba.np.linalg" in sys.modules
narrow = sum_of_halves(numbers.astype(np.int32), out)  # of this type there is no machine code yet
print(json.dumps({"found": found, "can_compile": can_compile, "narrow": narrow}))
"""


def call(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", CALLS], cwd=folder, capture_output=True, text=True, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_machine_code_is_loaded_without_the_compiler_and_more_can_be_compiled(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(MODULE)
    (tmp_path / "__pycache__").mkdir()
    first = call(tmp_path)
    assert first == {"found": [5.0, 5.0, 1], "can_compile": True, "narrow": 5.0}
    [folder] = (tmp_path / "__pycache__").glob("compiled-*")
    _, narrow = sorted(folder.rglob("*.nbc"), key=lambda file: file.stat().st_mtime_ns)
    narrow.unlink()
    second = call(tmp_path)
    assert second == {"found": [5.0, 5.0, 0], "can_compile": False, "narrow": 5.0}


def test_threads_do_not_exchange_cache_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's cache folder is a global setting, so that code could land in the working directory."""
    both_make_a_cache = Barrier(2)
    make: Any = compiling._CodeCache  # of numba, without type hints

    def make_beside_another(function: Any) -> Any:
        with suppress(BrokenBarrierError):  # the other thread waits outside, as it should
            both_make_a_cache.wait(timeout=0.2)
        return make(function)

    monkeypatch.setattr(compiling, "_CodeCache", make_beside_another)
    packages = [tmp_path / name for name in ("one", "two")]
    for package in packages:
        (package / "__pycache__").mkdir(parents=True)

    def entry_point(package: Path) -> Any:
        return cached_entry_point(lambda number: number + 1, package, [Path(__file__)])

    with ThreadPoolExecutor(2) as threads:
        entry_points = list(threads.map(entry_point, packages))
    for package, made in zip(packages, entry_points, strict=True):
        assert Path(made.stats.cache_path).is_relative_to(package)


class SameText:
    """Keys that differ, and whose text does not."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __str__(self) -> str:
        return "key"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameText) and self.number == other.number

    def __hash__(self) -> int:
        return self.number


def test_cached_machine_code_belongs_to_one_signature_and_one_source_version(tmp_path: Path) -> None:
    files, newer = (compiling._CodeFiles(tmp_path, "function", version) for version in (1, 2))
    one, other = SameText(1), SameText(2)
    files.save(one, "code")
    assert (files.load(one), files.load(other), newer.load(one)) == ("code", None, None)
    newer.save(one, "newer code")
    assert (newer.load(one), files.load(one), len(list(tmp_path.iterdir()))) == ("newer code", None, 1)


def test_cached_machine_code_of_a_version_whose_classes_are_gone_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class that an older version had in a module cannot be unpickled after it has moved."""
    files, key = compiling._CodeFiles(tmp_path, "function", 1), SameText(1)
    files.save(key, SameText(2))
    assert files.load(key) == SameText(2)
    monkeypatch.delattr(sys.modules[__name__], "SameText")
    assert files.load(key) is None
