"""The testbed declares what it and its switch import, and can only be installed in place."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Container, Iterable
from hashlib import sha256
from importlib.metadata import EntryPoint
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import click
import pytest
import tomli
from click.testing import CliRunner

from foundation.checkout import source_folders
from hotline.cli.commands import GROUPS, VerbCommands, hotline
from tests.unit.repository.test_rooms import ROOT, SOURCES, imports

SWITCH = ROOT / "packages" / "softswitch"
INSTALLED_AS = {"grpc": "grpcio", "google": "protobuf", "xdist": "pytest-xdist"}
NOT_NAMED = {"mininet", "markupsafe", "pydantic_core", "yaml"}
"""Mininet is a package of the distribution; the others come with what is required."""


CHECKOUT_ONLY = {"packages", "tests", "tools"}
"""What a package may import from the checkout, without which it is not there."""


def project(folder: Path) -> dict[str, Any]:
    return tomli.loads((folder / "pyproject.toml").read_text())


def requirements(folder: Path) -> set[str]:
    return set(project(folder)["project"]["dependencies"])


def rooms() -> set[str]:
    return {each.parent.name for folder in SOURCES for each in folder.glob("*/__init__.py")}


def test_the_testbed_requires_the_requirements_of_softswitch() -> None:
    full = project(ROOT)["project"]["optional-dependencies"]["full"]
    assert requirements(SWITCH) <= requirements(ROOT).union(full)
    assert project(SWITCH)["project"]["requires-python"] == project(ROOT)["project"]["requires-python"]


def test_the_tests_of_the_testbed_require_the_requirements_of_softswitchs_tests() -> None:
    tests = set(project(SWITCH)["project"]["optional-dependencies"]["test"])
    extras = project(ROOT)["project"]["optional-dependencies"]
    assert tests <= requirements(ROOT).union(extras["full"], extras["test"], extras["dev"])


def distributions(*extras: str) -> set[str]:
    """Return the names of what the testbed requires, also with these extras."""
    optional = project(ROOT)["project"]["optional-dependencies"]
    texts = chain(requirements(ROOT), *(optional[extra] for extra in extras))
    return {re.split("[>=;]", text)[0] for text in texts}


def extras_of_set_up() -> tuple[set[str], set[str]]:
    """Return the extras that `tools/scripts/setup` and `tools/scripts/setup test` install."""
    plain, test = re.findall(
        r'^ *extras="\[([\w,]+)\]"$', (ROOT / "tools" / "scripts" / "setup").read_text(), re.MULTILINE
    )
    return set(plain.split(",")), set(test.split(","))


def imported_at_once(source: Path, expected: Container[str]) -> set[str]:
    """Return the packages that a module imports when it is imported, without the expected ones."""
    text = source.read_text()
    lines = {
        name for name in re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE) if name not in expected
    }
    if not lines:
        return set()
    imported = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    return {
        name for name in lines for node in imported if re.match(rf"(import|from) {name}\b", ast.unparse(node))
    }


def test_make_setup_installs_all_imports_of_test_modules() -> None:
    """So `python -m pytest` runs each module after `make setup`; some tests of a module may need more."""
    extras, extras_of_tests = extras_of_set_up()
    assert extras < extras_of_tests
    paths = project(ROOT)["tool"]["pytest"]["ini_options"]["pythonpath"]
    ours = {path.stem for folder in paths for path in (ROOT / folder).iterdir()}
    known = sys.stdlib_module_names | ours | NOT_NAMED
    folders = [ROOT / "tests", *ROOT.glob("packages/*/tests")]
    sources = [ROOT / "conftest.py", *chain.from_iterable(folder.rglob("*.py") for folder in folders)]
    wanted = {name for source in sources for name in imported_at_once(source, known)}
    assert {"pytest", "trustme"} <= wanted
    installed = {name.replace("-", "_") for name in distributions(*extras)}
    assert {INSTALLED_AS.get(name, name).replace("-", "_") for name in wanted} <= installed


def test_the_testbed_requires_its_imports() -> None:
    """Developers' tools are missing where it is installed without them."""
    required = distributions("full", "torch")
    known = sys.stdlib_module_names | rooms() | NOT_NAMED | {"softswitch", "nativekit"}
    wanted = {
        (INSTALLED_AS.get(top, top), source)
        for room in rooms() - {"tests", "tools"}
        for folder in SOURCES
        for source in (folder / room).rglob("*.py")
        for top in {module.partition(".")[0] for module in imports(source)} - known
    }
    assert {(top, source) for top, source in wanted if top.replace("_", "-") not in required} == set()


def distribution_of(module: str) -> str:
    """Return the distribution that has an imported module, as a `pyproject.toml` names it."""
    top = module.partition(".")[0]
    if top in ("nativekit", "softswitch"):
        return "hotline-softswitch"
    if top in rooms():
        return "hotline-testbed"
    return INSTALLED_AS.get(top, top).replace("_", "-")


def names_of(texts: Iterable[str]) -> set[str]:
    return {re.split("[<>=;]", text)[0] for text in texts}


@pytest.mark.parametrize("folder", sorted(ROOT.glob("packages/*")), ids=lambda folder: folder.name)
def test_a_package_declares_its_imports_and_nothing_else(folder: Path) -> None:
    """Imports that another import guards, or that are for types, may be of an extra."""
    table = project(folder)["project"]
    files = (folder / "src").rglob("*.py")
    known = sys.stdlib_module_names | CHECKOUT_ONLY
    modules = {module for file in files for module in imports(file)}
    wanted = {distribution_of(each) for each in modules if each.partition(".")[0] not in known}
    wanted -= {table["name"], "mininet"}  # Mininet is the distribution's
    required = names_of(table["dependencies"])
    extras = names_of(chain(*table.get("optional-dependencies", {}).values()))
    assert required <= wanted, "required, and not imported"
    assert wanted <= required | extras, "imported, and not required"


def test_projects_require_a_distribution_in_the_same_versions() -> None:
    texts: dict[str, set[str]] = {}
    for folder in (ROOT, *ROOT.glob("packages/*")):
        table = project(folder)["project"]
        for text in chain(table["dependencies"], *table.get("optional-dependencies", {}).values()):
            [name] = names_of([text])
            texts.setdefault(name, set()).add(text.partition(";")[0])
    assert {name: found for name, found in texts.items() if len(found) > 1} == {}


@pytest.mark.parametrize("hook", ["build_wheel", "build_sdist", "get_requires_for_build_wheel"])
def test_the_testbed_is_not_built(hook: str, tmp_path: Path) -> None:
    built = project(ROOT)["build-system"]
    (folder,) = built["backend-path"]
    call = f"import {built['build-backend']} as backend; backend.{hook}({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", call], cwd=ROOT / folder, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "hotline-testbed cannot be installed, it runs from its checkout (`make run-topo`); "
        "its switch can be installed alone (`pip install ./packages/softswitch`)"
    ]
    assert not list(tmp_path.iterdir())


def test_the_testbed_is_installed_in_place_with_its_switch(tmp_path: Path) -> None:
    """Setuptools builds a wheel, to which the paths of the packages' sources are added.

    Metadata that an earlier installation left in the checkout would be found before the new wheel's.
    """
    old_metadata = tmp_path / "checkout" / "hotline_testbed.egg-info"
    old_metadata.mkdir(parents=True)
    (old_metadata / "entry_points.txt").write_text("[console_scripts]\n")
    call = f"""
import in_place
from pathlib import Path
from setuptools import build_meta
from zipfile import ZipFile

def build_editable(folder, settings=None, metadata=None):
    with ZipFile(f"{{folder}}/testbed.whl", "w") as wheel:
        wheel.writestr("testbed.pth", "import testbed")
        wheel.writestr("testbed-1.dist-info/RECORD", "testbed.pth,,\\n")
    return "testbed.whl"

assert in_place.get_requires_for_build_editable == build_meta.get_requires_for_build_editable
build_meta.build_editable = build_editable
in_place._CHECKOUT = Path({str(old_metadata.parent)!r})
assert in_place.build_editable({str(tmp_path)!r}, None) == "testbed.whl"
"""
    subprocess.run([sys.executable, "-c", call], cwd=ROOT / "tools" / "scripts", check=True)
    assert list(old_metadata.parent.iterdir()) == []
    with ZipFile(tmp_path / "testbed.whl") as wheel:
        record = dict(
            row.split(",", 1) for row in wheel.read("testbed-1.dist-info/RECORD").decode().splitlines()
        )
        added, before = wheel.namelist()[:2]
        path = wheel.read(added)
    assert path.decode().splitlines() == [*map(str, source_folders())] and before == "testbed.pth"
    digest = urlsafe_b64encode(sha256(path).digest()).rstrip(b"=").decode()
    assert record == {added: f"sha256={digest},{len(path)}", "testbed.pth": ","}


def test_an_installed_testbed_is_imported_where_folders_have_the_names_of_its_packages(
    tmp_path: Path,
) -> None:
    """As beside a checkout called `hotline`: Python takes any folder of its path for a namespace package."""
    site, beside = tmp_path / "site", tmp_path / "beside"
    site.mkdir()
    names = sorted({"nativekit", "softswitch", *rooms() - {"tests", "tools"}})
    for name in names:
        (beside / name).mkdir(parents=True)
    call = f"""
import site, sys
from importlib.util import find_spec
sys.meta_path[:] = [each for each in sys.meta_path if "editable" not in str(each)]
sys.path[:] = [each for each in sys.path if not each.startswith({str(ROOT)!r} + "/") or ".venv" in each]
site.addsitedir({str(site)!r})
print(*[name for name in {names!r} if find_spec(name).origin is None])
"""
    in_place = "import in_place; print(*in_place._FOLDERS, sep=chr(10))"
    lines = subprocess.run(
        [sys.executable, "-c", in_place],
        cwd=ROOT / "tools" / "scripts",
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    (site / "testbed.pth").write_text(lines)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", call], cwd=beside, env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == []


def test_each_command_has_the_name_of_its_entry_point() -> None:
    assert [command.name for command in hotline.commands.values()] == list(hotline.commands)


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        (["compare", "a", "b"], ["compare"]),
        (["-v", "report"], ["report"]),
        (["--help"], ["compare", "report"]),
        (["fly"], []),
    ],
)
def test_a_process_imports_only_the_command_that_runs(words: list[str], loaded: list[str]) -> None:
    modules = {
        name: EntryPoint(name, f"hotline.cli.report:{name}", "hotline.commands")
        for name in ("compare", "report")
    }
    commands = VerbCommands(modules)
    commands.load(words)
    assert [name for name in modules if isinstance(commands.data[name], click.Command)] == loaded


def test_help_needs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GROUPS, "Packages", ())
    result = CliRunner().invoke(hotline, ["--help"])
    assert result.exit_code == 0 and "simulate" in result.stdout and "Packages" not in result.stdout
