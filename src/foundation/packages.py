"""The packages of the checkout that have a name which is not installed: a command, a design, a rule."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from foundation.checkout import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_OWN_PREFIX = "hotline-"  # of the names of the distributions in packages/


def install_hint(group: str, name: str, root: Path = ROOT) -> str:
    """Return how to install the package whose entry points of a group have a name, to be added to an error.

    The hint is empty if no package of the checkout has the name.
    """
    for package, project in _projects(root).items():
        if name in project.get("entry-points", {}).get(group, {}):
            folders = [
                f"-e ./packages/{each}" for each in dict.fromkeys((*_required(root, package), package))
            ]
            command = f"{sys.executable} -m pip install {' '.join(folders)}"
            return f"; packages/{package} has it: `{command}` in {root} installs it"
    return ""


@cache
def _projects(root: Path) -> dict[str, dict[str, Any]]:
    """Return the table `project` of each package's `pyproject.toml`, by the package's folder."""
    files = sorted(root.glob("packages/*/pyproject.toml"))
    return {file.parent.name: tomllib.loads(file.read_text())["project"] for file in files}


def _required(root: Path, package: str) -> Iterator[str]:
    """Yield the packages of the checkout, which no index has, that a package requires, before their users."""
    projects = _projects(root)
    for requirement in projects[package]["dependencies"]:
        name = re.split(r"[^\w-]", requirement.removeprefix(_OWN_PREFIX))[0]
        if requirement.startswith(_OWN_PREFIX) and name in projects:
            yield from _required(root, name)
            yield name
