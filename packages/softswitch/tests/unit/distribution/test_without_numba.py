"""Without numba softswitch says what is missing, and nativekit runs compiled functions as Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from softswitch.bmv2.install import install
from switch_harness.wording import says_in_one_line

ROOT = Path(__file__).parents[3]
BLOCKER = '''
import sys


class Blocker:
    """Finder that refuses numba and llvmlite."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("llvmlite", "numba"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocker())
'''
FUNCTIONS = """
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nativekit.bits import popcount, swap16, swap32, swap64
from nativekit.compile import cached_entry_point, compiled, int64
from nativekit.generic import generics, implement
from nativekit.memory import byte_at, store_item_release
from nativekit.plain import plain
from nativekit.records import Ints
from nativekit.reference import as_ref, pinned_ref, row


class State(NamedTuple):
    numbers: Ints


class Ops(NamedTuple):
    add: object


OPS = generics(Ops)


@compiled
def add(state, number):
    state.numbers[0] += number
    return int64(state.numbers[0])


implement(State, OPS, Ops(add))


def wrap(state, number):
    return OPS.add(as_ref(state), number) * np.int64(2**62)


entry = cached_entry_point(wrap, Path(__file__).parent, ())
state = State(np.zeros(1, np.int64))
many = State(np.arange(6).reshape(3, 2))
store_item_release(state.numbers, 0, 3)
try:
    byte_at(0)
except ImportError as error:
    refused = str(error)
print(json.dumps({
    "wrapped": int(entry(pinned_ref(state), 2)),
    "plain": plain(entry) is entry,
    "row": row(many, 1).numbers.tolist(),
    "swapped": [int(swap(0x0102)) for swap in (swap16, swap32, swap64)],
    "bits": int(popcount(0b1011)),
    "refused": refused,
}))
"""


def without_numba(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "sitecustomize.py").write_text(BLOCKER)
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT / 'src'}"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=folder, capture_output=True, text=True, timeout=60
    )


def test_compiled_functions_run_as_python_without_numba(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    done = without_numba(tmp_path, "functions.py")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert says_in_one_line(found.pop("refused"), "nativekit.memory.byte_at", "numba", "llvmlite")
    assert found == {
        # 5 * 2^62 wraps in 64 bits, and without a warning.
        "wrapped": 2**62, "plain": True, "row": [2, 3], "swapped": [0x0201, 0x02010000, 0x0201 << 48],
        "bits": 3,
    }  # fmt: skip
    assert "RuntimeWarning" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [["--no-p4"], ["explain", "x.json"], ["conformance"]], ids=lambda a: a[0]
)
def test_softswitch_without_numba_ends_with_the_name_of_the_missing_package(
    tmp_path: Path, arguments: list[str]
) -> None:
    done = without_numba(tmp_path, "-m", "softswitch", *arguments)
    assert done.returncode == 1 and not done.stdout
    assert says_in_one_line(done.stderr, "softswitch", "numba", "llvmlite", "pip install")


def test_simple_switch_grpc_without_numba_ends_with_the_name_of_the_missing_package(tmp_path: Path) -> None:
    install(tmp_path / "bin")
    done = without_numba(tmp_path, str(tmp_path / "bin" / "simple_switch_grpc"), "--no-p4")
    assert done.returncode == 1
    assert says_in_one_line(done.stderr, "softswitch", "numba", "llvmlite", "pip install")


def test_softswitch_without_numba_shows_its_options(tmp_path: Path) -> None:
    done = without_numba(tmp_path, "-m", "softswitch", "--help")
    assert done.returncode == 0 and "--grpc-server-addr" in done.stdout
