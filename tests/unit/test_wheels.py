"""Files of wheels that tests read are there though tests run in namespaces without the machine's network."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

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


def test_a_file_of_a_wheel_is_extracted_once(index: Path) -> None:
    with zipfile.ZipFile(index / "sample-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in FILES.items():
            wheel.writestr(name, text)
    file = file_of_wheel("sample==1.0", "sample/data")
    assert file.read_text() == "1 2 3"
    assert list(file.parent.iterdir()) == [file]
    (index / "sample-1.0-py3-none-any.whl").unlink()
    assert file_of_wheel("sample==1.0", "sample/data") == file  # needs no index again


def test_without_an_index_the_test_fails(index: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        file_of_wheel("sample==1.0", "sample/data")
