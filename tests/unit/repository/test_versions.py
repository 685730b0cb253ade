"""All distributions of the checkout have one version, and the changelogs begin with it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import softswitch
from foundation.checkout import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECTS = [ROOT / "pyproject.toml", *sorted(ROOT.glob("packages/*/pyproject.toml"))]


def test_all_distributions_have_the_version_of_the_switch() -> None:
    versions = {
        file.parent.name: project.get("version", softswitch.__version__)
        for file in PROJECTS
        for project in [tomllib.loads(file.read_text())["project"]]
    }
    assert set(versions.values()) == {softswitch.__version__}, versions
    assert f"\nversion: {softswitch.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_changelogs_begin_with_the_version_and_its_abilities() -> None:
    for changelog in (ROOT / "CHANGELOG.md", ROOT / "packages" / "softswitch" / "CHANGELOG.md"):
        first = re.search(r"^## (\S+)\n\n(.*)$", changelog.read_text(), re.M)
        assert first is not None
        assert first.groups() == (softswitch.__version__, "What it does:"), changelog


def test_packages_install_modules_whose_names_begin_with_hotline() -> None:
    names = {path.name for path in ROOT.glob("packages/*/src/*") if is_importable(path)}
    assert {name for name in names if not name.startswith("hotline_")} == {"nativekit", "softswitch"}


def is_importable(path: Path) -> bool:
    return path.suffix == ".py" or (path.is_dir() and (path / "__init__.py").is_file())
