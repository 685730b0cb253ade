"""`make p4` compiles all programs, or has the p4c that the variable P4C names compile them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from foundation.designs.programs import P4Error, P4Program
from foundation.designs.sources import is_current
from switch_harness.wording import says
from tools.scripts import p4

# A compiler that records how it was called, and writes the compiler's files.
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
sys.exit({status})
"""


def install(folder: Path, name: str, status: int = 0) -> Path:
    file = folder / name
    file.write_text(FAKE.format(python=sys.executable, record=str(folder / "record.json"), status=status))
    file.chmod(0o755)
    return file


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> P4Program:
    """Return a program of a checkout in a folder."""
    root = tmp_path / "project"
    (root / "designs").mkdir(parents=True)
    (root / "designs" / "sum.p4").write_text("")
    monkeypatch.setattr(p4, "ROOT", root)
    return P4Program(root / "designs" / "sum.p4", root / "designs" / "compiled" / "sum")


@pytest.mark.parametrize("name", ["p4c-bm2-ss", "p4c", "p4c-of-today"])
def test_the_p4c_of_the_variable_compiles_as_each_of_its_programs_is_called(
    name: str, project: P4Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("P4C", str(install(tmp_path, name)))
    compiler = p4.find_p4c()
    assert compiler is not None and p4.compile_by_p4c(compiler, project)
    assert "a warning" in capfd.readouterr().err
    files = {"sum.json", "sum.p4info.txtpb", "sum.outputs.json"}
    assert {file.name for file in project.output.parent.iterdir()} == files
    assert is_current(project.json, project.source)
    record = json.loads((tmp_path / "record.json").read_text())
    words = record["words"]
    assert record["folder"] == str(project.source.parents[1]) and words[-1] == "designs/sum.p4"
    assert ("--target" in words) == (name == "p4c")
    assert (words[words.index("-o") + 1] == "designs/compiled") == (name == "p4c")


def test_without_the_variable_no_p4c_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("P4C", raising=False)
    assert p4.find_p4c() is None


def test_a_variable_that_names_no_program_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("P4C", "/no/such/compiler")
    assert p4.main([]) == 1
    assert says(capsys.readouterr().err, "P4C=/no/such/compiler")


def test_the_error_of_p4c_names_the_program_and_its_exit_status(
    project: P4Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("P4C", str(install(tmp_path, "p4c-bm2-ss", status=7)))
    compiler = p4.find_p4c()
    assert compiler is not None
    with pytest.raises(P4Error) as error:
        p4.compile_by_p4c(compiler, project)
    assert says(str(error.value), "7", "designs/sum.p4")
