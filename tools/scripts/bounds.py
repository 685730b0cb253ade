"""Compare the projects' lower bounds with the lowest versions that suit each other: `bounds.py LOWEST`.

LOWEST is what `uv pip compile --resolution lowest-direct` wrote for the oldest Python. A bound below its
version there cannot be tried, since another project requires a newer one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import tomli
from packaging.requirements import Requirement
from packaging.version import Version

_NOT_INSTALLED = {"coverage", "torch"}
"""Extras that LOWEST lacks."""


def lower_bounds(project: Path) -> Iterator[Requirement]:
    """Yield the requirements of a pyproject.toml, also of its extras, that have a lower bound."""
    metadata = tomli.loads(project.read_text())["project"]
    extras = metadata.get("optional-dependencies", {})
    installed = [extras[name] for name in extras.keys() - _NOT_INSTALLED]
    for requirement in map(Requirement, chain(metadata.get("dependencies", []), *installed)):
        if any(each.operator == ">=" for each in requirement.specifier):
            yield requirement


def untried(requirement: Requirement, lowest: Mapping[str, Version]) -> Version | None:
    """Return the version in LOWEST if it is above the requirement's lower bound."""
    [bound] = (each.version for each in requirement.specifier if each.operator == ">=")
    version = lowest.get(requirement.name)
    return version if version is not None and version > Version(bound) else None


def read_versions(text: str) -> dict[str, Version]:
    lines = (line.partition(";")[0].strip() for line in text.splitlines() if "==" in line)
    return {name: Version(version) for name, _, version in (line.partition("==") for line in lines)}


def main(lowest_file: Path) -> int:
    lowest = read_versions(lowest_file.read_text())
    found = [
        f"{project}: {requirement}: expected a lower bound of {version}, the lowest that suits the others"
        for project in (Path("pyproject.toml"), *sorted(Path("packages").glob("*/pyproject.toml")))
        for requirement in lower_bounds(project)
        if (version := untried(requirement, lowest)) is not None
    ]
    sys.stderr.writelines(f"{line}\n" for line in found)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
