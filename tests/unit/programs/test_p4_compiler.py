"""`make p4` finds a compiler in any of its places, and calls it there so that it writes the same files."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from switch_harness.wording import says
from tools.scripts import p4

# A compiler, or a program for containers, which records how it was called and writes the compiler's files.
FAKE = """#!{python}
import json, os, pathlib, sys
words = sys.argv[1:]
record = {{"program": sys.argv[0], "words": words, "folder": os.getcwd()}}
pathlib.Path({record!r}).write_text(json.dumps(record))
output, p4info = (words[words.index(option) + 1] for option in ("-o", "--p4runtime-files"))
if os.path.isdir(output):
    output = f"{{output}}/{{pathlib.Path(words[-1]).stem}}.json"
    pathlib.Path(output).with_suffix(".p4i").write_text("preprocessed")
pathlib.Path(output).write_text("program")
pathlib.Path(p4info).write_text("p4info")
print("a warning", file=sys.stderr)
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of programs that is the whole PATH."""
    monkeypatch.delenv("P4C", raising=False)
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install(folder: Path, name: str) -> Path:
    file = folder / name
    file.write_text(FAKE.format(python=sys.executable, record=str(folder / "record.json")))
    file.chmod(0o755)
    return file


def compile_with_what_is_found(folder: Path, project: Path) -> list[str]:
    """Compile a program; return the compiler's command, whose files are checked."""
    (project / "designs").mkdir(parents=True)
    source = project / "designs" / "sum.p4"
    source.write_text("")
    program = p4.P4Program(source, project / "designs" / "compiled" / "sum", project)
    assert "a warning" in p4.compile_program(program, p4.find_compiler())
    assert {file.name for file in program.output.parent.iterdir()} == {"sum.json", "sum.p4info.txtpb"}
    record = json.loads((folder / "record.json").read_text())
    assert record["folder"] == str(project) and record["words"][-1] == "designs/sum.p4"
    words: list[str] = [record["program"], *record["words"]]
    assert words[words.index("-I") + 1] == "p4src" and "--Wdisable=unused" in words
    return words


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (["p4c-bm2-ss"], "p4c-bm2-ss"),
        (["p4c"], "p4c"),
        (["podman"], "podman"),
        (["docker"], "docker"),
        (["p4c-bm2-ss", "p4c", "podman", "docker"], "p4c-bm2-ss"),
        (["p4c", "podman", "docker"], "p4c"),
        (["podman", "docker"], "podman"),
    ],
)
def test_the_first_compiler_of_the_path_or_of_a_container_compiles(
    names: list[str], taken: str, programs: Path, tmp_path: Path
) -> None:
    for name in names:
        install(programs, name)
    words = compile_with_what_is_found(programs, tmp_path / "project")
    assert Path(words[0]).name == taken
    assert (words[words.index("-o") + 1] == "designs/compiled") == (taken == "p4c")
    assert ("--target" in words) == (taken == "p4c")


def test_a_container_sees_the_checkout_and_writes_as_the_user(programs: Path, tmp_path: Path) -> None:
    for name in ("podman", "docker"):
        install(programs, name)
        words = compile_with_what_is_found(programs, tmp_path / name)
        assert words[1:3] == ["run", "--rm"] and f"{p4.ROOT}:{p4.ROOT}" in words
        assert words[words.index("--workdir") + 1] == str(tmp_path / name)
        assert words[words.index("p4lang/p4c") + 1] == "p4c-bm2-ss"
        assert ("--user" in words) == (name == "docker")
        if name == "docker":
            assert words[words.index("--user") + 1] == f"{os.getuid()}:{os.getgid()}"
        (programs / name).unlink()


@pytest.mark.parametrize("name", ["p4c-bm2-ss", "p4c", "p4c-of-today"])
def test_the_variable_wins_over_the_path(
    name: str, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(programs, "p4c-bm2-ss")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("P4C", str(install(elsewhere, name)))
    words = compile_with_what_is_found(elsewhere, tmp_path / "project")
    assert words[0] == str(elsewhere / name) and ("--target" in words) == (name == "p4c")


def test_a_variable_that_names_no_program_is_an_error(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(programs, "p4c-bm2-ss")
    monkeypatch.setenv("P4C", "/no/such/compiler")
    assert p4.main([]) == 1
    assert says(capsys.readouterr().err, "P4C=/no/such/compiler")


@pytest.mark.usefixtures("programs")
def test_without_a_compiler_the_error_names_all_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert p4.main([]) == 1
    shown = capsys.readouterr().err
    for place in (
        "P4C=",
        "p4c-bm2-ss",
        "PATH",
        "podman",
        "docker",
        "p4lang/p4c",
        "p4lang-p4c",
        "nixpkgs",
        "Debian",
    ):
        assert place in shown
    assert shlex.split(shown.splitlines()[0])[0] == "p4:"
