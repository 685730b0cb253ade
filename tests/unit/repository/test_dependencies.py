"""Every dependency has one lowest version in all projects, and a line in docs/dependencies.md."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import tomli
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
LINE = re.compile(r"\| ([\w-]+) \| ([\w.]+) \| \S.*\|")


def requirements() -> Iterator[Requirement]:
    for file in (ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")):
        project = tomli.loads(file.read_text())["project"]
        extras = project.get("optional-dependencies", {}).values()
        for texts in (project["dependencies"], *extras):
            yield from map(Requirement, texts)


def test_each_dependency_has_one_lowest_version_and_a_line_with_a_reason() -> None:
    lowest: dict[str, set[str]] = defaultdict(set)
    for requirement in requirements():
        if not requirement.name.startswith("hotline-"):
            bounds = [each.version for each in requirement.specifier if each.operator == ">="]
            lowest[requirement.name.lower()].update(bounds or ["any"])
    lines = dict(LINE.findall((ROOT / "docs" / "dependencies.md").read_text()))
    assert {name: {version} for name, version in lines.items()} == {"package": {"from"}} | lowest
