"""Programs of BMv2's names, in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from softswitch.bmv2 import command, install


def version(path: Path, **environment: str) -> str:
    done = subprocess.run(
        [path, "--version"],
        capture_output=True,
        text=True,
        check=True,
        cwd=path.parent,
        env={**os.environ, **environment},
    )
    return done.stdout


def test_installed_programs_run_softswitch_from_any_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "deep" / "bin"
    for _ in range(2):  # over its own it may be put again
        install.main([str(folder)])
    assert sorted(path.name for path in folder.iterdir()) == sorted(install.PROGRAMS)
    assert str(folder) in capsys.readouterr().err
    for name in ("simple_switch", "simple_switch_grpc"):
        assert version(folder / name).split()[0] == command.VERSION


def test_nothing_is_printed_to_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    install.main([str(tmp_path)])
    assert capsys.readouterr().err == ""


def test_a_python_with_a_space_or_a_long_name_is_found(tmp_path: Path) -> None:
    for name in ("a python", "p" * 200):
        home = tmp_path / name
        home.mkdir()
        interpreter = home / "python"
        interpreter.symlink_to(sys.executable)
        path = tmp_path / "simple_switch"
        path.write_text(install.script("simple_switch", ("run-as", "simple_switch"), str(interpreter)))
        path.chmod(0o755)
        # What the link does not lead to any more: the environment's packages.
        packages = [each for each in sys.path if "site-packages" in each or "dist-packages" in each]
        assert version(path, PYTHONPATH=":".join(packages)).split()[0] == command.VERSION


def test_a_bmv2_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "simple_switch").write_bytes(b"\x7fELF\xff")
    with pytest.raises(SystemExit) as ended:
        install.main([str(tmp_path)])
    assert str(ended.value.code).startswith(f"softswitch: error: {tmp_path}/simple_switch is there already")
    assert [path.name for path in tmp_path.iterdir()] == ["simple_switch"]


def test_a_folder_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as ended:
        install.main([str(tmp_path / "file")])
    assert str(ended.value.code).startswith(f"softswitch: error: {tmp_path}/file")
