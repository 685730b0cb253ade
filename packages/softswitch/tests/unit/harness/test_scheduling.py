"""Tests of a module go to one xdist worker, the longest module first; network tests to all, in namespaces."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from switch_harness import durations
from switch_harness.namespaces import on_the_machines_network
from switch_harness.scheduling import Scheduling, unit_of

PROJECT = Path(__file__).parents[3]
TESTS = """
import os, pathlib, socket, pytest
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
        module.write_text(TESTS.format(folder=str(folder), name=module.stem))
    hooks = f"from switch_harness import plugin\n{patch}\nfrom switch_harness.plugin import {HOOKS}"
    (folder / "conftest.py").write_text(hooks)
    (folder / "pytest.ini").write_text("[pytest]")
    done = run_session(folder, ["-n", "2", "--import-mode=importlib", "tests"])
    assert done.returncode == 0, done.stdout
    return {name: set((folder / Path(name).name).read_text().splitlines()) for name in modules}


def run_session(folder: Path, options: list[str]) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, with the harness among its modules."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(PROJECT / "src"), str(PROJECT / "tests")]),
    }
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/unit/test_text.py::test_a[1/2::3]", "tests/unit/test_text.py"),
        ("tests/unit/golden/test_golden_page.py::test_a", "tests/unit/golden/"),
        ("packages/paper/tests/unit/test_golden_paper.py::test_a", "tests/unit/golden/"),
        ("packages/answers/tests/unit/test_sweeps.py::test_a", "packages/answers/tests/unit/"),
        ("tests/mininet/test_kills.py::test_a[b]", "tests/mininet/test_kills.py::test_a[b]"),
        ("packages/paper/tests/mininet/test_x.py::test_a", "packages/paper/tests/mininet/test_x.py::test_a"),
        *(
            (f"packages/softswitch/tests/{nodeid}", f"packages/softswitch/tests/{unit}")
            for nodeid, unit in (
                ("netns/test_x.py::test_a", "netns/test_x.py::test_a"),
                ("unit/test_pin.py::test_netns[tests/netns/]", "unit/test_pin.py"),
            )
        ),
    ],
)
def test_a_unit_of_work_is_a_module_a_folder_or_a_network_test(nodeid: str, unit: str) -> None:
    assert unit_of(nodeid) == unit


def test_tests_of_networks_that_share_a_fixture_are_one_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    root = PROJECT.parents[1]
    monkeypatch.chdir(root)
    files = [
        file
        for tests in (root / "tests", *root.glob("packages/*/tests"))
        for folder in ("mininet", "netns")
        for file in (tests / folder).glob("test_*.py")
    ]
    sharing = {file for file in files if any(map(is_of_module_scope, ast.walk(ast.parse(file.read_text()))))}
    assert sharing
    for file in files:
        module = str(file.relative_to(root))
        assert unit_of(f"{module}::test_a") == (module if file in sharing else f"{module}::test_a")


def is_of_module_scope(node: ast.AST) -> bool:
    """Return whether a node is `pytest.fixture(scope="module")`."""
    if not (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fixture"
    ):
        return False
    scopes = [keyword.value for keyword in node.keywords if keyword.arg == "scope"]
    return any(isinstance(scope, ast.Constant) and scope.value == "module" for scope in scopes)


class Process:
    """An xdist worker that records which tests of `COLLECTED` it is sent."""

    shutting_down = False

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="gw")
        self.sent: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


COLLECTED = [
    "tests/mininet/test_x.py::test_slow", "tests/mininet/test_x.py::test_fast",
    *(f"tests/unit/test_{module}.py::test_{number}" for module in "abc" for number in range(2)),
]  # fmt: skip
DURATIONS = {
    "tests/unit/test_b.py": 40.0,
    "tests/mininet/test_x.py::test_slow": 20,
    "tests/unit/test_c.py": 8,
}


def scheduling(folder: Path, processes: int, is_one_network: bool) -> tuple[Scheduling, list[Process]]:
    """Return a scheduler of processes that have collected `COLLECTED`, and have been sent a first unit."""
    (folder / durations.FILE).parent.mkdir()
    (folder / durations.FILE).write_text(durations.write(DURATIONS))
    option = SimpleNamespace(loadscopereorder=True)
    config: Any = SimpleNamespace(
        option=option, rootpath=folder, getvalue={"tx": [f"{processes}*popen"]}.__getitem__
    )
    made = Scheduling(config, None, is_one_network=is_one_network)
    nodes = [Process() for _ in range(processes)]
    for node in nodes:
        made.add_node(node)
        made.add_node_collection(node, COLLECTED)
    made.schedule()
    return made, nodes


@pytest.mark.parametrize("is_one_network", [False, True])
def test_the_longest_unit_is_first_and_tests_of_one_network_share_a_process(
    tmp_path: Path, is_one_network: bool
) -> None:
    """A run of Mininet's without a duration counts as ten seconds, any other unit as none."""
    made, [node] = scheduling(tmp_path, 1, is_one_network)
    while made.has_pending:
        [done, *_] = [k for k in node.sent if not is_complete(made, node, k)]
        made.mark_test_complete(node, done)
    b, a, c, slow, fast = [4, 5], [2, 3], [6, 7], [0], [1]
    networks = [*slow, *fast] if is_one_network else slow
    assert node.sent == [*b, *networks, *([] if is_one_network else fast), *c, *a]


def is_complete(made: Scheduling, node: Process, index: int) -> bool:
    return any(tests.get(COLLECTED[index], False) for tests in made.assigned_work[node].values())


def test_two_processes_begin_with_the_two_longest_units(tmp_path: Path) -> None:
    _, nodes = scheduling(tmp_path, 2, False)
    assert [COLLECTED[node.sent[0]].partition("::")[0] for node in nodes] == [
        "tests/unit/test_b.py", "tests/mininet/test_x.py",
    ]  # fmt: skip


def test_tests_of_networks_go_to_one_process_at_a_time_while_other_units_are_left(tmp_path: Path) -> None:
    made, nodes = scheduling(tmp_path, 2, False)
    slow, fast, a, b, c = [0], [1], [2, 3], [4, 5], [6, 7]
    assert [node.sent for node in nodes] == [[*b, *c], [*slow, *fast]]
    made.mark_test_complete(nodes[1], *slow)
    assert nodes[1].sent == [*slow, *fast, *a]


@pytest.mark.parametrize("completed", range(3))
def test_units_of_a_crashed_process_but_the_crashing_test_go_to_other_processes(
    tmp_path: Path, completed: int
) -> None:
    made, nodes = scheduling(tmp_path, 2, False)
    for index in nodes[1].sent[:completed]:
        made.mark_test_complete(nodes[1], index)
    crashed = nodes[1].sent[completed]
    assert made.remove_node(nodes[1]) == COLLECTED[crashed]
    while made.has_pending:
        [done, *_] = [k for k in nodes[0].sent if not is_complete(made, nodes[0], k)]
        made.mark_test_complete(nodes[0], done)
    assert sorted([*nodes[1].sent[: completed + 1], *nodes[0].sent]) == list(range(len(COLLECTED)))


CRASHING = """
import os, pytest
@pytest.mark.parametrize("number", range({tests}))
def test_it(number):
    if (number, {name!r}) == ({crashing}, "b"):
        os.abort()
"""


@pytest.mark.parametrize(("tests", "crashing"), [(1, 0), (4, 0), (4, 2), (4, 3)])
def test_a_session_ends_with_one_failure_after_a_process_has_crashed(
    tmp_path: Path, tests: int, crashing: int
) -> None:
    for name in "abcde":
        module = CRASHING.format(tests=tests, name=name, crashing=crashing)
        (tmp_path / f"test_{name}.py").write_text(module)
    (tmp_path / "conftest.py").write_text(f"from switch_harness.plugin import {HOOKS}")
    (tmp_path / "pytest.ini").write_text("[pytest]")
    done = run_session(tmp_path, ["-n", "2", "-q", "-p", "no:faulthandler"])
    assert done.returncode == 1, done.stdout
    assert f"1 failed, {5 * tests - 1} passed" in done.stdout


def test_written_durations_are_read_back(tmp_path: Path) -> None:
    """Those of tests that the session has not run are kept, unless their module has gone."""
    file = tmp_path / durations.FILE
    file.parent.mkdir()
    (tmp_path / "kept.py").write_text("")
    recorder = durations.DurationRecorder(file, unit_of)
    for nodeid, seconds in (
        ("a.py::test_1", 0.7),
        ("a.py::test_2", 1.0),
        ("b.py::test", 12.4),
        ("c.py::t", 0.9),
    ):
        report: Any = SimpleNamespace(nodeid=nodeid, duration=seconds)
        recorder.pytest_runtest_logreport(report)
    recorder.pytest_sessionfinish(1)
    assert not file.exists() and durations.parse(file) == {}
    file.write_text(durations.write({"kept.py": 5, "gone.py": 7, "a.py": 9}))
    recorder.pytest_sessionfinish(0)
    assert durations.parse(file) == {"b.py": 12, "kept.py": 5, "a.py": 2}
    assert file.read_text().splitlines()[1].endswith("b.py")


@pytest.mark.netns
def test_each_process_has_its_own_network_and_run(tmp_path: Path) -> None:
    seen = run_tests(tmp_path, ["netns/test_some"])  # each process is given two of the tests at first
    assert seen["netns/test_some"] == {f"gw0 {ISOLATED}", f"gw1 {ISOLATED}"}


ALONE = """
import os, pathlib
def test_it(): pathlib.Path("seen").write_text(os.readlink("/proc/self/ns/pid"))
"""
ON_THE_MACHINE = "from switch_harness import namespaces, plugin\nplugin.is_namespaced = lambda: {}\n"
LOADS = "def pytest_configure(config): config.pluginmanager.register(plugin)\n"


@pytest.mark.netns
@pytest.mark.parametrize(
    ("is_namespaced", "options", "restarts"),
    [
        # The session that is started again finds itself in namespaces.
        ("'AGAIN' in os.environ or os.environ.update(AGAIN='1')", [], True),
        ("True", [], False),
        ("False", ["--collect-only"], False),
    ],
    ids=["of the machine", "in namespaces", "that only collects"],
)
def test_a_session_of_root_runs_in_namespaces(
    tmp_path: Path, is_namespaced: str, options: list[str], restarts: bool
) -> None:
    (tmp_path / "conftest.py").write_text("import os\n" + ON_THE_MACHINE.format(is_namespaced) + LOADS)
    (tmp_path / "test_alone.py").write_text(ALONE)
    (tmp_path / "pytest.ini").write_text("[pytest]")
    done = run_session(tmp_path, ["-q", "-p", "no:cacheprovider", *options])
    assert done.returncode == 0, done.stdout + done.stderr
    if options:
        assert not (tmp_path / "seen").exists() and "test_it" in done.stdout
        return
    namespace = (tmp_path / "seen").read_text()
    assert (namespace != os.readlink("/proc/self/ns/pid")) is restarts
    assert "1 passed" in done.stdout


@pytest.mark.netns
def test_installers_use_the_machines_network() -> None:
    command = [*on_the_machines_network(), "readlink", "/proc/self/ns/net"]
    namespace = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    is_here = namespace == os.readlink("/proc/self/ns/net")
    assert is_here == (not on_the_machines_network())
