"""Tests of a module with shared fixtures go to one xdist worker; network tests to all, in namespaces."""

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
def fixture() -> None: ...
@pytest.mark.parametrize("number", range(6))
def test_it(number):
    names, files = [name for _, name in socket.if_nameindex()], os.listdir("/sys/class/net")
    seen = names, files, os.path.exists("/run/hotline.lock")
    line = f"{{os.environ['PYTEST_XDIST_WORKER']}} {{seen}}"
    with open(pathlib.Path({folder!r}) / {name!r}, "a") as file:
        print(line, file=file)
"""
HOOKS = "pytest_xdist_make_scheduler, pytest_xdist_setupnodes"
ISOLATED = "(['lo'], ['lo'], False)"


def run_tests(folder: Path, modules: list[str], patch: str = "") -> dict[str, set[str]]:
    """Run test modules in two xdist workers; return what the tests observed, by module."""
    for name in modules:
        module = folder / "tests" / f"{name}.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        scope = "module" if "shared" in name else "function"
        module.write_text(TESTS.format(folder=str(folder), name=module.stem, scope=scope))
    hooks = f"from switch_harness import plugin\n{patch}\nfrom switch_harness.plugin import {HOOKS}"
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
def test_without_namespaces_all_network_tests_go_to_one_process(tmp_path: Path) -> None:
    networks = ["netns/test_some", "netns/test_others"]
    seen = run_tests(tmp_path, [*networks, "unit/test_more"], "plugin.namespaced_python = lambda: None")
    assert len(seen[networks[0]] | seen[networks[1]]) == 1
    assert seen["unit/test_more"]


@pytest.mark.soak
def test_a_module_with_a_shared_fixture_goes_to_one_process(tmp_path: Path) -> None:
    seen = run_tests(tmp_path, [*SHARED, "unit/test_more"])
    assert all(len(seen[name]) == 1 for name in SHARED)


@pytest.mark.netns
def test_each_process_has_its_own_network_and_run(tmp_path: Path) -> None:
    seen = run_tests(tmp_path, ["netns/test_some"])  # each process is given two of the first tests
    assert seen["netns/test_some"] == {f"gw0 {ISOLATED}", f"gw1 {ISOLATED}"}


@pytest.mark.netns
def test_installers_use_the_machines_network() -> None:
    command = [*on_the_machines_network(), "readlink", "/proc/self/ns/net"]
    namespace = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    is_here = namespace == os.readlink("/proc/self/ns/net")
    assert is_here == (not on_the_machines_network())
