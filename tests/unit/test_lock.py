"""requirements.lock has one version of each dependency for every Python, and no address."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "requirements.lock").read_text().splitlines()
PINS = [Requirement(line) for line in LINES if not line.lstrip().startswith("#")]


def wanted() -> list[Requirement]:
    projects = [
        tomli.loads((ROOT / at / "pyproject.toml").read_text())["project"] for at in (".", "softswitch")
    ]
    texts = [text for project in projects for text in project["dependencies"]]
    return [Requirement(text) for text in texts + projects[0]["optional-dependencies"]["dev"]]


def applies(requirement: Requirement, environment: dict[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(environment)


@pytest.mark.parametrize("python", ["3.10.4", "3.11.2", "3.12.3", "3.13.0"])
def test_every_dependency_has_one_version_that_it_accepts(python: str) -> None:
    environment = {"python_version": python.rpartition(".")[0], "python_full_version": python}
    pins = [pin for pin in PINS if applies(pin, environment)]
    for dependency in wanted():
        if applies(dependency, environment):
            (pin,) = [pin for pin in pins if pin.name.lower() == dependency.name.lower()]
            (version,) = pin.specifier
            assert version.operator == "=="
            assert dependency.specifier.contains(Version(version.version)), f"{dependency}: run `make lock`"


def test_nothing_says_where_it_comes_from() -> None:
    assert [line for line in LINES if "://" in line or "--hash" in line or "index-url" in line] == []
