"""Set-up compiles in parallel, and shows pip's progress in one line."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from rich.console import Console

from foundation.checkout import ROOT
from foundation.designs.programs import P4Error
from foundation.designs.registry import DEFAULT, NAMES
from hotline_simulator.faults.matrix import DESIGNS
from softswitch import set_up
from switch_harness.wording import says
from tools.scripts import compile as compile_script
from tools.scripts.compile import PARTS, CompileError, Part, compile_all, packages_to_compile, parts_of_tests
from tools.scripts.pip_install import Output, install


def console() -> Console:
    return Console(file=io.StringIO(), width=80)


def test_parts_compile_at_the_same_time(tmp_path: Path) -> None:
    """Each of two parts waits for the other one's file, so one after the other would never end."""
    wait = (
        "import pathlib, time; here = pathlib.Path({here!r}); here.touch()\n"
        "other = pathlib.Path({other!r}); end = time.monotonic() + 60\n"
        "while not other.exists(): assert time.monotonic() < end"
    )
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    out = console()
    parts = [
        Part("first", wait.format(here=first, other=second), 1.0),
        Part("second", wait.format(here=second, other=first), 1.0),
    ]
    compile_all(parts, out, processes=2)
    assert isinstance(out.file, io.StringIO)
    assert sorted(line.split()[0] for line in out.file.getvalue().splitlines()) == ["first", "second"]


class Watched(io.StringIO):
    """A stream that is no terminal; what is written with a word of progress makes a file."""

    def __init__(self, word: str, file: Path) -> None:
        super().__init__()
        self._word, self._file = word, file

    def write(self, text: str) -> int:
        if self._word in text:
            self._file.touch()
        return super().write(text)


WAITS = """
import pathlib, time
end = time.monotonic() + 20
while not pathlib.Path({file!r}).exists():
    assert time.monotonic() < end
    time.sleep(0.01)
"""


def test_without_a_terminal_a_slow_part_is_named_while_compiling(tmp_path: Path) -> None:
    """The part goes on only when its name has been printed."""
    seen = tmp_path / "seen"
    out = Watched("slow", seen)
    parts = [Part("slow", WAITS.format(file=str(seen)), 1.0)]
    compile_all(parts, Console(file=out, width=80), line_interval_s=0.01)
    *progress, last = out.getvalue().splitlines()
    assert all(says(line, "compiling", "slow") for line in progress) and progress
    assert says(last, "slow") and "compiling" not in last


def test_without_a_terminal_the_current_step_of_pip_is_shown(tmp_path: Path) -> None:
    """The program in place of pip goes on only when its step has been printed."""
    seen, program = tmp_path / "seen", tmp_path / "python"
    work = f"print('Collecting numpy', flush=True)\n{WAITS.format(file=str(seen))}"
    program.write_text(f"#!{sys.executable}\n{work}\nprint('Installing collected packages: numpy, scipy')\n")
    program.chmod(0o755)
    with redirect_stdout(Watched("looking up numpy", seen)) as out:
        assert install(str(program), [], is_terminal=False, line_interval_s=0.01) == 0
    *progress, last = out.getvalue().splitlines()
    assert progress and says(last, "installing", 2)


LIVES = "import pathlib, time; own = pathlib.Path({file!r}); own.touch(); time.sleep(20); own.unlink()"


class Interrupting(io.StringIO):
    """A stream that is no terminal; Ctrl-C comes when something is written, once a file is there."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def write(self, text: str) -> int:
        if self._file.exists():
            raise KeyboardInterrupt
        return super().write(text)


def test_ctrl_c_ends_parts_that_run_and_starts_no_other(tmp_path: Path) -> None:
    running, queued = tmp_path / "running", tmp_path / "queued"
    parts = [Part(each.name, LIVES.format(file=str(each)), 1.0) for each in (running, queued)]
    with pytest.raises(KeyboardInterrupt):
        compile_all(parts, Console(file=Interrupting(running)), processes=1, line_interval_s=0.01)
    assert [each.exists() for each in (running, queued)] == [True, False]


def test_an_error_of_a_part_ends_other_parts(tmp_path: Path) -> None:
    lives = tmp_path / "lives"
    fails = WAITS.format(file=str(lives)) + "assert False"
    parts = [Part("lives", LIVES.format(file=str(lives)), 1.0), Part("fails", fails, 1.0)]
    with pytest.raises(CompileError, match="fails"):
        compile_all(parts, console(), processes=2)
    assert lives.exists()


def test_a_part_that_fails_is_named_with_its_error() -> None:
    with pytest.raises(CompileError, match=r"(?s)^broken: .*ZeroDivisionError"):
        compile_all([Part("broken", "1 / 0", 1.0), Part("fine", "pass", 1.0)], console())


def test_all_designs_are_compiled_before_the_tests() -> None:
    """The default design has its parts before a first run."""
    parts = parts_of_tests()
    names = {f"simulator {name}" for name in NAMES} | {f"hosts {name}" for name in NAMES if name != DEFAULT}
    names |= {f"driven PS {name}" for name in DESIGNS}
    assert {each.name for each in parts} == names | set(packages_to_compile())
    with_faults = {each.name for each in parts if "warm_faults" in each.statement}
    assert with_faults == {f"simulator {name}" for name in DESIGNS}
    assert {"simulator", "workers", "servers"} <= {each.name for each in PARTS}
    for part in (*PARTS, *parts):
        compile(part.statement, part.name, "exec")


def test_set_up_compiles_the_programs_of_default_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The design `none` is the other side of many comparisons."""
    given: list[tuple[Path, Path]] = []
    monkeypatch.setattr(set_up, "compile_programs", given.extend)
    (statement,) = [each.statement for each in PARTS if each.name == "programs"]
    exec(statement, {})
    programs = ROOT / "p4src" / "compiled"
    assert given == [
        (programs / f"{name}.json", programs / f"{name}.p4info.txtpb") for name in (DEFAULT, "none")
    ]
    assert all(file.exists() for pair in given for file in pair)


def test_a_mistake_in_p4_is_shown_with_the_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise P4Error("small.p4 cannot be compiled\nsmall.p4:3:1: error: expected `;`")

    monkeypatch.setattr(compile_script, "refresh_all", fail)
    assert compile_script.main([]) == 1
    shown = capsys.readouterr().err.splitlines()
    assert shown == ["setup: small.p4 cannot be compiled", "small.p4:3:1: error: expected `;`"]


ENTRY_POINTS = """
import importlib, pkgutil
from numba.core.caching import FunctionCache
from tools.scripts.compile import packages_to_compile
for name in packages_to_compile():
    importlib.import_module(f"{name}.warm").warm()
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
        if not module.name.endswith("__main__"):
            for function in vars(importlib.import_module(module.name)).values():
                if isinstance(getattr(function, "_cache", None), FunctionCache):
                    function_name = f"{function.py_func.__module__}.{function.py_func.__qualname__}"
                    print(function_name, len(function.signatures))
"""


def test_packages_compile_all_their_entry_points() -> None:
    """A process of its own has no machine code of other tests."""
    command = [sys.executable, "-c", ENTRY_POINTS]
    ended = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    compiled = dict(line.split() for line in ended.stdout.splitlines())
    assert len(compiled) > 25 and "0" not in compiled.values(), compiled


@pytest.mark.parametrize(
    ("line", "packages", "step"),
    [
        ("Collecting numpy>=2.0", 1, "1 packages, looking up numpy>=2.0"),
        ("  Downloading numpy-2.whl (16 MB)", 0, "0 packages, downloading numpy-2.whl (16 MB)"),
        ("Installing collected packages: a, b, c", 0, "installing 3 packages"),
        ("Requirement already satisfied: x", 0, "starting pip"),
    ],
)
def test_lines_of_pip_become_a_step(line: str, packages: int, step: str) -> None:
    output = Output()
    output.add(line)
    assert (output.package_count, output.step) == (packages, step)


def test_an_error_of_pip_is_shown_and_is_the_status(capsys: pytest.CaptureFixture[str]) -> None:
    """Without an index pip fails at once, offline as online."""
    status = install(sys.executable, ["--no-index", "no-such-package-as-this"], is_terminal=False)
    assert status == 1
    assert "no-such-package-as-this" in capsys.readouterr().err
