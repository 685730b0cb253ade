"""`make test-changed`: what a test uses in any way, it is affected by; and most tests by few changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from foundation.checkout import ROOT
from tools.affected import __main__ as command
from tools.affected.uses import EVERY_TEST, Checkout

FILES = {
    "conftest.py": "from foundation import fixed",
    "src/foundation/fixed.py": "import foundation.deep",
    "src/foundation/deep.py": "",
    "src/foundation/registry.py": (
        'from importlib.metadata import entry_points\nentry_points(group="a.verbs")'
    ),
    "src/foundation/core_verb.py": "",
    "hosts/__init__.py": "",
    "hosts/agents.py": "def main() -> None:\n    from hosts.lazily import one",
    "hosts/lazily.py": "",
    "hosts/design.py": 'AGENTS = "hosts.agents:AGENTS"',
    "src/analysis/page.py": 'read("page.html.j2"), glob("models/*")',
    "src/analysis/page.html.j2": "",
    "src/analysis/models/one.csv": "",
    "docs/guide.md": "",
    "tools/scripts/run": 'exec python -m hosts.agents "$@"',
    "packages/more/src/more/verb.py": "from more.other import it",
    "packages/more/src/more/other.py": "",
    "packages/more/pyproject.toml": '[project.entry-points."a.verbs"]\nadd = "more.verb:main"',
    "pyproject.toml": '[project.entry-points."a.verbs"]\nrun = "foundation.core_verb:main"',
    "tests/__init__.py": "",
    "tests/unit/conftest.py": "import hosts.design",
    "tests/unit/test_conftest.py": "",
    "tests/test_import.py": "from foundation import (\n    deep,  # is one\n)",
    "tests/test_chain.py": "import hosts.design",
    "tests/test_process.py": 'run([python, "-m", "hosts.agents"])',
    "tests/test_script.py": 'run(ROOT / "tools" / "scripts" / "run")',
    "tests/test_data.py": "import analysis.page",
    "tests/test_docs.py": 'ROOT.rglob("*.md")',
    "tests/test_sources.py": 'ROOT.rglob("*.py")',
    "tests/test_a_verb.py": 'import foundation.registry\ninvoke("add")',
    "tests/test_all_verbs.py": "import foundation.registry\nfor each in registry.NAMES: ...",
    "tests/test_core_verb.py": "import foundation.registry",
}
SOURCES = "test_sources"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "affected"),
    [
        ("src/foundation/deep.py", {"import", SOURCES}),
        ("hosts/agents.py", {"chain", "process", "script", SOURCES}),
        ("hosts/lazily.py", {"chain", "process", "script", SOURCES}),
        ("hosts/__init__.py", {"chain", "conftest", "process", "script", SOURCES}),
        ("hosts/design.py", {"chain", "conftest", SOURCES}),
        ("src/analysis/page.html.j2", {"data"}),
        ("src/analysis/models/one.csv", {"data"}),
        ("docs/guide.md", {"docs"}),
        ("tools/scripts/run", {"script"}),
        ("packages/more/src/more/other.py", {"a_verb", "all_verbs", SOURCES}),
        ("src/foundation/core_verb.py", {"a_verb", "all_verbs", "core_verb", SOURCES}),
        ("tests/test_chain.py", {"chain", SOURCES}),
        ("tests/unit/conftest.py", {"conftest", SOURCES}),
        *((name, None) for name in ("conftest.py", "src/foundation/fixed.py", *map(str, sorted(EVERY_TEST)))),
    ],
)
def test_a_change_affects_the_tests_that_use_the_changed_file(
    tree: Path, changed: str, affected: set[str] | None
) -> None:
    checkout = Checkout(tree, map(Path, [*FILES, changed]))
    found = checkout.affected_tests([Path(changed)])
    names = {f"test_{each.removeprefix('test_')}.py" for each in affected or ()}
    assert {file.name for file in found} == (names if affected else {file.name for file in checkout.tests})


def test_a_deleted_module_affects_the_tests_that_still_import_the_module(tree: Path) -> None:
    (tree / "hosts/lazily.py").unlink()
    (tree / "tests/test_chain.py").unlink()
    found = Checkout(tree, map(Path, FILES)).affected_tests([Path("hosts/lazily.py")])
    assert {file.name for file in found} == {"test_process.py", "test_script.py", f"{SOURCES}.py"}


LOADED = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
for module in list(sys.modules.values()):
    print(getattr(module, "__file__", None))
"""
TESTS = (
    "packages.scripts.tests.unit.test_script",
    "packages.agents.tests.unit.test_ps_server",
    "packages.simulator.tests.unit.test_faults",
)


def test_all_that_tests_import_is_found() -> None:
    """What Python has loaded after it has imported some tests is a subset of what their text uses."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = {Path(line) for line in listed.stdout.splitlines()}
    run = subprocess.run(
        [sys.executable, "-c", LOADED, *TESTS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    inside = (Path(line) for line in run.stdout.splitlines() if line.startswith(f"{ROOT}/"))
    loaded = {file.relative_to(ROOT) for file in inside} & files
    checkout = Checkout(ROOT, files)
    used = frozenset().union(
        *(checkout.files_used_by(Path(*name.split(".")).with_suffix(".py")) for name in TESTS)
    )
    assert len(loaded) > 300 and loaded - used == set()


def run_git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_the_command_prints_tests_of_changed_new_and_renamed_files(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "ROOT", tree)
    run_git(tree, "init")
    run_git(tree, "add", ".")
    run_git(tree, "commit", "-m", "one")
    result = CliRunner().invoke(command.main)
    assert result.exit_code == 1 and "HEAD" in result.stderr and "--since" in result.stderr
    (tree / "docs/guide.md").write_text("more")
    (tree / "tests/test_new.py").write_text("")
    result = CliRunner().invoke(command.main)
    expected = ["tests/test_docs.py", "tests/test_new.py", "tests/test_sources.py"]
    assert (result.exit_code, result.stdout.splitlines()) == (0, expected)
    run_git(tree, "add", ".")
    run_git(tree, "mv", "hosts/lazily.py", "hosts/renamed.py")
    run_git(tree, "commit", "-m", "two")
    result = CliRunner().invoke(command.main, ["--since", "HEAD~"])
    assert {"tests/test_docs.py", "tests/test_chain.py"} <= {*result.stdout.splitlines()}
    assert CliRunner().invoke(command.main, ["--since", "nowhere"]).exit_code == 1
