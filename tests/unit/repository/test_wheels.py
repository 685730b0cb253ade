"""Files of wheels that tests read are there though tests run in namespaces without the machine's network."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.harness import wheels
from tests.harness.wheels import file_of_wheel

FILES = {
    "sample/data": "1 2 3",
    "sample/other": "",
    "sample-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n",
    "sample-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\n",
    "sample-1.0.dist-info/RECORD": "",
}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder in which pip looks for wheels."""
    (folder := tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def write_wheel(folder: Path) -> Path:
    file = folder / "sample-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as wheel:
        for name, text in FILES.items():
            wheel.writestr(name, text)
    return file


def test_a_file_of_a_wheel_is_extracted_once(index: Path) -> None:
    wheel = write_wheel(index)
    file = file_of_wheel("sample==1.0", "sample/data")
    assert file.read_text() == "1 2 3"
    assert list(file.parent.iterdir()) == [file]
    wheel.unlink()
    assert file_of_wheel("sample==1.0", "sample/data") == file  # needs no index again


def test_without_an_index_the_test_fails(index: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        file_of_wheel("sample==1.0", "sample/data")


def test_the_index_is_looked_for_from_the_machines_network(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(index)
    monkeypatch.setattr(wheels, "on_the_machines_network", lambda: ["false"])
    with pytest.raises(subprocess.CalledProcessError):
        file_of_wheel("sample==1.0", "sample/data")
