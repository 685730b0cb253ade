"""The lock files have one version of each dependency for every Python, and no address."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[3]
LOCKS = {
    name: (ROOT / name).read_text().splitlines() for name in ("requirements.lock", "tools/scripts/shell.lock")
}


def requirements(lines: list[str]) -> list[Requirement]:
    return [Requirement(line) for line in lines if not line.lstrip().startswith("#")]


def wanted(lock: str) -> list[Requirement]:
    if lock == "tools/scripts/shell.lock":
        return requirements((ROOT / "tools/scripts/shell.in").read_text().splitlines())
    projects = [
        tomli.loads((ROOT / at / "pyproject.toml").read_text())["project"]
        for at in (".", "packages/softswitch")
    ]
    texts = [text for project in projects for text in project["dependencies"]]
    extras = projects[0]["optional-dependencies"]
    return [Requirement(text) for text in texts + extras["full"] + extras["test"] + extras["dev"]]


def applies(requirement: Requirement, environment: dict[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(environment)


@pytest.mark.parametrize("python", ["3.10.4", "3.11.2", "3.12.3", "3.13.0"])
@pytest.mark.parametrize("lock", LOCKS)
def test_every_dependency_is_locked_to_one_accepted_version(lock: str, python: str) -> None:
    environment = {"python_version": python.rpartition(".")[0], "python_full_version": python}
    pins = [pin for pin in requirements(LOCKS[lock]) if applies(pin, environment)]
    for dependency in wanted(lock):
        if applies(dependency, environment):
            (pin,) = [pin for pin in pins if pin.name.lower() == dependency.name.lower()]
            (version,) = pin.specifier
            assert version.operator == "=="
            assert dependency.specifier.contains(Version(version.version)), f"{dependency}: run `make lock`"


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_files_name_no_index_and_no_hash(lock: str) -> None:
    assert [line for line in LOCKS[lock] if "://" in line or "--hash" in line or "index-url" in line] == []
