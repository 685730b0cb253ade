"""`hotline new` writes a design that compiles, passes its tests and trains in a simulation."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foundation.designs import registry
from switch_harness.wording import says
from tests.harness.cli import invoke, json_of

FILES = {
    "__init__.py", "frame.p4", "idea.p4", "idea.py", "run.toml", "test_idea.py", "turn_around.p4",
}  # fmt: skip


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("designs")
    result = invoke("new", "fresh.idea", "--into", folder)
    assert result.exit_code == 0, result.output
    yield folder / "fresh"
    for name in [name for name in sys.modules if name.split(".")[0] == "fresh"]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def _path(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(registry, "_external_designs", {})
    importlib.invalidate_caches()


def test_the_package_has_program_module_test_and_settings(package: Path) -> None:
    assert {file.name for file in package.iterdir()} >= FILES


def test_the_unit_tests_of_a_new_design_pass(package: Path) -> None:
    assert pytest.main(["-q", "-p", "no:cacheprovider", str(package)]) == 0


def test_the_program_has_the_numbers_of_the_arms_in_python(package: Path) -> None:
    file = package / "idea_arms.p4"
    file.write_text("const bit<16> ARM_IDEA = 1;\n")
    arms = registry.design("fresh.idea").arms
    assert [line for line in file.read_text().splitlines() if line.startswith("const")] == [
        f"const bit<16> ARM_IDEA_OFF = {arms[0].job};",
        f"const bit<16> ARM_IDEA = {arms[1].job};",
    ]


def test_a_simulation_of_a_new_design_loses_nothing_and_shows_the_register(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")  # so that titles stay whole
    config = tmp_path / "run.toml"
    config.write_text(f'runs = "{tmp_path}/runs"\n{(package / "run.toml").read_text()}')
    result = invoke("simulate", config)
    assert result.exit_code == 0, result.output
    assert "were pushed and added: none lost" in result.output
    run = tmp_path / "runs" / "latest"
    registers = json_of("report", run)["registers"]
    [(title, used)] = registers.items()
    assert title == "HotlineIngress.values (used)" and 0 < used <= 2000
    assert f"{title} {used:,}" in " ".join(invoke("report", run).output.split())
    compared = invoke("compare", f"{run}:idea", f"{run}:idea-off").output
    assert says(compared, "Registers at the end of the run", title, f"{used:,}")


def test_nothing_is_overwritten(package: Path) -> None:
    texts = {file: file.read_bytes() for file in package.iterdir() if file.is_file()}
    for name in ("fresh.idea", "fresh.other"):
        result = invoke("new", name, "--into", package.parent)
        assert result.exit_code == 1 and "nothing is overwritten" in result.output
    assert {file: file.read_bytes() for file in texts} == texts


@pytest.mark.parametrize(
    "name", ["mine", "mine.", ".idea", "Mine.idea", "mine.my-idea", "mine.a.b", "class.x"]
)
def test_a_bad_name_is_one_error(name: str, tmp_path: Path) -> None:
    result = invoke("new", name, "--into", tmp_path)
    assert result.exit_code == 1 and "expected PACKAGE.NAME" in result.output and repr(name) in result.output
    assert not list(tmp_path.iterdir())


def test_the_name_of_a_package_that_python_has_is_refused(tmp_path: Path) -> None:
    result = invoke("new", "json.idea", "--into", tmp_path)
    assert result.exit_code == 1 and "'json'" in result.output
