"""A lower bound that the lowest suitable versions do not reach is reported with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.scripts import bounds

PROJECT = """
[project]
dependencies = ["numpy>=2.0", "rich>=13.7"]
[project.optional-dependencies]
dev = ["ruff"]
test = ["numba>=0.63,<0.69", "tomli>=2.0; python_version < '3.11'"]
torch = ["torch>=2.1"]
"""
LOWEST = """
numpy==2.0.0
    # via rich
rich==13.7.0
ruff==0.0.2
numba==0.63.0
tomli==2.0.0 ; python_version < '3.11'
"""


def reported(folder: Path, lowest: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    (folder / "lowest.txt").write_text(lowest)
    return bounds.main(folder / "lowest.txt"), capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("project", ["pyproject.toml", "packages/one/pyproject.toml"])
@pytest.mark.parametrize(
    ("lower", "higher"),
    [("numpy==2.0.0", "numpy==2.1"), ("numba==0.63.0", "numba==0.63.1"), ("tomli==2.0.0", "tomli==2.0.1")],
)
def test_a_bound_below_the_lowest_suitable_version_is_reported_with_its_place(
    project: str,
    lower: str,
    higher: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for each in ("pyproject.toml", project):
        Path(each).parent.mkdir(parents=True, exist_ok=True)
        Path(each).write_text('[project]\nname = "root"\n')
    Path(project).write_text(PROJECT)
    assert reported(tmp_path, LOWEST, capsys) == (0, [])
    status, [line] = reported(tmp_path, LOWEST.replace(lower, higher), capsys)
    name, _, version = higher.partition("==")
    assert status == 1
    assert line.startswith(f"{project}: {name}")
    assert version in line
