"""A module's tests go to one process; tests on a network to both, in namespaces of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from switch_harness.namespaces import on_the_machines_network

PROJECT = Path(__file__).parents[2]
TESTS = """
import os, pathlib, socket, pytest
@pytest.fixture(scope="{scope}", autouse=True)
def made_for_all() -> None: ...
@pytest.mark.parametrize("number", range(6))
def test_it(number):
    names, files = [name for _, name in socket.if_nameindex()], os.listdir("/sys/class/net")
    seen = names, files, os.path.exists("/run/hotline.lock")
    line = f"{{os.environ['PYTEST_XDIST_WORKER']}} {{seen}}"
    with open(pathlib.Path({folder!r}) / {name!r}, "a") as file:
        print(line, file=file)
"""
HOOKS = "pytest_xdist_make_scheduler, pytest_xdist_setupnodes"
ALONE = "(['lo'], ['lo'], False)"


def play(folder: Path, modules: list[str], more: str = "") -> dict[str, set[str]]:
    """What the tests of these modules see, by module."""
    for name in modules:
        module = folder / "tests" / f"{name}.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        scope = "module" if "shared" in name else "function"
        module.write_text(TESTS.format(folder=str(folder), name=module.stem, scope=scope))
    hooks = f"from switch_harness import plugin\n{more}\nfrom switch_harness.plugin import {HOOKS}"
    (folder / "conftest.py").write_text(hooks)
    (folder / "pytest.ini").write_text("[pytest]")
    command = [sys.executable, "-m", "pytest", "-n", "2", "--import-mode=importlib", "tests"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(PROJECT / "src"), str(PROJECT / "tests")]),
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return {name: set((folder / Path(name).name).read_text().splitlines()) for name in modules}


SHARED = ["unit/test_shared_1", "unit/test_shared_2"]


@pytest.mark.soak
def test_where_there_is_one_network_its_tests_all_go_to_one_process(tmp_path: Path) -> None:
    networks = ["netns/test_some", "netns/test_others"]
    seen = play(tmp_path, [*networks, "unit/test_more"], "plugin.python_in_its_own = lambda: None")
    assert len(seen[networks[0]] | seen[networks[1]]) == 1
    assert seen["unit/test_more"]


@pytest.mark.soak
def test_what_a_module_makes_once_is_made_in_one_process(tmp_path: Path) -> None:
    seen = play(tmp_path, [*SHARED, "unit/test_more"])
    assert all(len(seen[name]) == 1 for name in SHARED)


@pytest.mark.netns
def test_each_process_has_its_own_network_and_run(tmp_path: Path) -> None:
    seen = play(tmp_path, ["netns/test_some"])  # each process is given two of the first tests
    assert seen["netns/test_some"] == {f"gw0 {ALONE}", f"gw1 {ALONE}"}


@pytest.mark.netns
def test_what_installs_something_has_the_machines_network() -> None:
    names = [*on_the_machines_network(), "readlink", "/proc/self/ns/net"]
    there = subprocess.run(names, check=True, capture_output=True, text=True).stdout.strip()
    is_here = there == os.readlink("/proc/self/ns/net")
    assert is_here == (not on_the_machines_network())
