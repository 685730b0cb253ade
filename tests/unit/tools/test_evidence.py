"""Published tables and their homes: results/, the pages that show them, and what makes them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import cache
from itertools import chain
from pathlib import Path

import click.testing
import pytest
import tomli

from foundation.checkout import ROOT, source_folders
from foundation.protocol.header import VERSION
from tools.evidence import __main__ as command
from tools.evidence import run
from tools.evidence.pages import names_of, pages, unmarked_tables, with_tables, wrong_links
from tools.evidence.result import (
    Cell,
    Column,
    EvidenceError,
    Machine,
    Measured,
    Origin,
    Result,
    Row,
    Table,
    read_result,
    read_results,
    write_result,
)
from tools.evidence.run import run_stage
from tools.evidence.stage import Stage, Step, files_of, staleness, statements_of
from tools.evidence.stages import STAGES

MACHINE = Machine(cpu="AMD EPYC", cores=2, kernel="6.18")


@cache
def published() -> Mapping[str, Result]:
    return read_results()


CODE = '''"""A module."""

VALUE = 1  # of a test
"""What it is."""
TEXT = "# no comment"


def same(value: int) -> int:
    """Return it."""
    return value
'''


def table(*rows: tuple[str, Cell], form: str = "{:,.0f}", quantity: str = "frames") -> Table:
    columns = (Column(name="sent", form=form),)
    return Table(
        quantity=quantity, statistic="one count", headings=("worker",), columns=columns,
        rows=tuple(Row(names=(name,), cells=(cell,)) for name, cell in rows),
    )  # fmt: skip


def result(
    shown: Table,
    wire: int = VERSION,
    code: str = "",
    recipe: str | None = None,
    sources: tuple[str, ...] = (),
) -> Result:
    origin = Origin(
        commands=("make run-topo",), commit="13d116b4", code=code, wire=wire,
        date=date(2026, 11, 27), machine=MACHINE, recipe=recipe, sources=sources,
    )  # fmt: skip
    return Result(stage="counts", table=shown, origin=origin)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
class TestPages:
    def test_a_page_has_the_tables_of_its_results(self, page: Path) -> None:
        text = page.read_text()
        assert with_tables(text, published(), page.name) == text

    def test_each_table_is_a_result_or_is_marked_as_not_measured(self, page: Path) -> None:
        assert [*unmarked_tables(page.read_text())] == []

    def test_the_text_of_links_has_the_numbers_of_their_results(self, page: Path) -> None:
        assert [*wrong_links(page.read_text(), published())] == []


def test_no_two_results_claim_the_same_number() -> None:
    claimed = Counter(chain(*(each.table.claims() for each in published().values())))
    assert [claim for claim, number in claimed.items() if number > 1] == []


def test_each_result_is_shown_and_has_one_stage_or_a_recipe() -> None:
    shown = set(chain(*(names_of(page.read_text()) for page in pages())))
    assert shown == set(published())
    made = Counter(chain(*(stage.results for stage in STAGES)))
    for name, each in published().items():
        assert made[name] == (each.origin.recipe is None), name


CELLS: Mapping[str, tuple[Cell, str, str]] = {
    "a count": (20000.0, "{:,.0f}", "20,000"),
    "a change with its interval": (
        Measured(value=-47.2, low=-48.0, high=-46.6),
        "{:+.0f} %",
        "-47 % [-48, -47]",
    ),
    "a factor": (1.4, "× {:.2f}", "× 1.40"),
    "several numbers": ((60.41, 60.43), "{:.2f}", "60.41, 60.43"),
    "a word": ("all", "{:.0f}", "all"),
    "nothing": (None, "{:.0f}", "–"),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_written_in_its_form(name: str) -> None:
    cell, form, text = CELLS[name]
    lines = table(("w1", cell), form=form).markdown()
    assert lines[2] == f"| w1 | {text} |"


PAGE = """\
# Frames

<!-- result frames -->

| worker | sent |
|---|---:|
| w1 | 12 |

<!-- end -->

As [12 frames](results/frames.json#w1:sent) show, their size changes by
[-51 %](results/frame-sizes.json#w1:sent) [-55, -48]
and their time by [-51](results/frame-sizes.json#w1:sent) % [-55, -48].

<!-- not measured -->

| field | |
|---|---|
| version | 4 |
"""
FRAMES = {
    "frames": result(table(("w1", 12.0))),
    "frame-sizes": result(
        table(("w1", Measured(value=-51.2, low=-55.1, high=-47.8)), form="{:+.0f}", quantity="sizes")
    ),
}


def test_a_page_that_equals_its_results_has_no_fault() -> None:
    assert faults(PAGE) == []


def faults(page: str) -> list[str]:
    found = [f"line {number}" for number in unmarked_tables(page)]
    found += wrong_links(page, FRAMES)
    return found + (["table"] if with_tables(page, FRAMES, "page") != page else [])


def edits() -> Iterator[tuple[str, str, str]]:
    """Yield what is edited in the page: the old and the new text, and the fault that it makes."""
    yield "| w1 | 12 |", "| w1 | 13 |", "table"
    yield "| w1 | 12 |\n", "| w1 | 12 |\n| w2 | 3 |\n", "table"
    yield "<!-- not measured -->\n\n", "", "line"
    yield (
        "<!-- not measured -->\n\n| field | |\n|---|---|\n",
        "- A list.\n\n  | field | |\n  |---|---|\n  ",
        "line",
    )
    yield "<!-- result frames -->", "", "line"
    yield "[12 frames]", "[13 frames]", "12"
    yield "[-51 %]", "[-52 %]", "-51"
    for interval in "[-55, -48]\n", "% [-55, -48].":
        yield interval, interval.replace("55", "54"), "[-55, -48]"
        yield interval, interval.replace("[-55, -48]", ""), "[-55, -48]"
    yield "[-55, -48]\n", "in the mean of three [-55, -48]\n", "[-55, -48]"
    yield "#w1:sent", "#w2:sent", "w2:sent"


@pytest.mark.parametrize(("old", "new", "fault"), list(edits()))
def test_an_edit_of_a_page_is_found(old: str, new: str, fault: str) -> None:
    assert old in PAGE
    assert any(fault in found for found in faults(PAGE.replace(old, new, 1)))


def test_a_page_with_a_name_that_no_result_has_is_refused() -> None:
    page = PAGE.replace("result frames", "result bytes")
    with pytest.raises(EvidenceError, match=r"page.*bytes.*results/"):
        with_tables(page, FRAMES, "page")
    assert with_tables(page, FRAMES, "page", pending={"bytes"}) == page


BROKEN = {
    "too few cells": '"cells":[]',
    "an interval without its value": '"cells":[{"value":12,"low":13,"high":14}]',
    "no number": '"cells":[{"count":12}]',
}


@pytest.mark.parametrize("cells", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_file_is_refused_by_name(cells: str, tmp_path: Path) -> None:
    write_result("frames", FRAMES["frames"], tmp_path)
    path = tmp_path / "frames.json"
    written = path.read_text().replace(" ", "").replace("\n", "")
    assert '"cells":[12.0]' in written
    path.write_text(written.replace('"cells":[12.0]', cells))
    with pytest.raises(EvidenceError, match=r"frames\.json"):
        read_result(path)


def test_a_result_is_read_back_equal_from_its_file(tmp_path: Path) -> None:
    for name, each in FRAMES.items():
        write_result(name, each, tmp_path)
    assert read_results(tmp_path) == FRAMES


def test_a_row_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="'w1' twice"):
        table(("w1", 1.0), ("w1", 2.0))


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_stage_names_code_that_exists(stage: Stage) -> None:
    assert len(stage.digest()) == 16
    assert stage.results
    assert stage.steps


def counting(folder: Path, text: str = "12") -> Stage:
    """Return a stage of two steps that also note in a file that they ran."""
    program = f"import sys; open({str(folder / 'ran')!r}, 'a').write(sys.argv[1]); print(sys.argv[1], {text})"
    steps = tuple(Step(name, (sys.executable, "-c", program, name), f"count {name}") for name in ("w1", "w2"))

    def tables(outputs: Path) -> dict[str, Table]:
        rows = [(outputs / step.name / "output").read_text().split() for step in steps]
        return {"frames": table(*((name, float(number)) for name, number in rows))}

    return Stage("counts", 1, ("frames",), steps, tables, modules=("tools.evidence.result",), seeds=(1,))


def test_an_interrupted_stage_continues_with_its_unfinished_steps(tmp_path: Path) -> None:
    stage, folder = counting(tmp_path), tmp_path / "counts"
    [(name, made)] = run_stage(stage, folder, lambda text: None)
    assert (name, made.table) == ("frames", table(("w1", 12.0), ("w2", 12.0)))
    assert (made.origin.wire, made.origin.code, made.origin.seeds) == (VERSION, stage.digest(), (1,))
    assert made.origin.commands == ("count w1", "count w2")
    (folder / "w2" / "done").unlink()
    assert [*run_stage(stage, folder, lambda text: None)] == [(name, made)]
    assert (tmp_path / "ran").read_text() == "w1w2w2"


def test_a_step_whose_code_has_changed_runs_again(tmp_path: Path) -> None:
    stage, folder = counting(tmp_path), tmp_path / "counts"
    [*run_stage(stage, folder, lambda text: None)]
    done = folder / "w1" / "done"
    done.write_text(done.read_text().replace(stage.digest(), "0123456789abcdef"))
    [*run_stage(stage, folder, lambda text: None)]
    assert (tmp_path / "ran").read_text() == "w1w2w1"


def test_a_step_that_fails_is_named_and_not_done(tmp_path: Path) -> None:
    stage, folder = counting(tmp_path, text="1 / 0"), tmp_path / "counts"
    for _ in range(2):
        with pytest.raises(EvidenceError, match=r"count w1.*exit status 0, found 1.*output"):
            [*run_stage(stage, folder, lambda text: None)]
    assert (tmp_path / "ran").read_text() == "w1w1"


def test_files_of_an_interrupted_command_stay(tmp_path: Path) -> None:
    stage, folder = counting(tmp_path), tmp_path / "counts"
    points = folder / "w1" / "points"
    points.mkdir(parents=True)
    (points / "first.json").write_text("12")
    [*run_stage(stage, folder, lambda text: None)]
    assert (points / "first.json").read_text() == "12"


def test_results_of_an_earlier_wire_or_code_are_named_as_stale(tmp_path: Path) -> None:
    stage = counting(tmp_path)
    today = stage.digest()
    reasons = [
        [*staleness(result(table(("w1", 1.0)), wire, code).origin, today)]
        for wire, code in [(VERSION, today), (VERSION - 1, today), (VERSION, "0123456789abcdef")]
    ]
    assert [len(each) for each in reasons] == [0, 1, 1]
    assert str(VERSION - 1) in reasons[1][0]


def test_the_list_names_results_of_recipes_whose_files_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = result(table(("w1", 12.0)), recipe="Count them.", sources=("p4src/none/*.p4", "run.toml"))
    write_result("frames", frames, tmp_path)
    monkeypatch.setattr(command, "STAGES", [])
    monkeypatch.setattr(command, "read_results", lambda: read_results(tmp_path))
    monkeypatch.setattr(command, "write_result", lambda name, made: write_result(name, made, tmp_path))
    runner = click.testing.CliRunner()

    def listed() -> str:
        done = runner.invoke(command.main, ["--list"])
        assert done.exit_code == 0, done.output
        (line,) = (line for line in done.output.splitlines() if "frames" in line)
        return line

    stale = listed()
    assert runner.invoke(command.main, ["--followed", "frames"]).exit_code == 0
    followed = read_result(tmp_path / "frames.json")
    assert followed.table == frames.table
    assert followed.origin.commit == run.commit([ROOT / "run.toml", *(ROOT / "p4src/none").glob("*.p4")])
    assert (followed.origin.date, followed.origin.machine) != (frames.origin.date, frames.origin.machine)
    current = listed().replace(followed.origin.commit, "").replace(str(followed.origin.date), "")
    other_files = followed.origin.model_copy(update={"sources": ("run.toml",)})
    write_result("frames", followed.model_copy(update={"origin": other_files}), tmp_path)
    stale_again = listed().replace(followed.origin.commit, "").replace(str(followed.origin.date), "")
    assert stale.replace("13d116b4", "").replace("2026-11-27", "") == stale_again != current


@pytest.mark.parametrize("name", ["no-result", "offload"])
def test_only_a_result_with_a_recipe_is_followed(name: str) -> None:
    done = click.testing.CliRunner().invoke(command.main, ["--followed", name])
    assert done.exit_code == 2
    assert all(each in done.output for each in (name, "row-sizes"))


def test_a_recipe_names_files_and_a_stage_does_not() -> None:
    for recipe, sources in ((None, ("run.toml",)), ("Count them.", ())):
        with pytest.raises(ValueError, match="sources"):
            result(table(("w1", 1.0)), recipe=recipe, sources=sources)
    with pytest.raises(EvidenceError, match=re.escape("p4src/nothing/*.p4")):
        files_of(["p4src/nothing/*.p4"])


def test_each_recipe_names_files_that_exist() -> None:
    for each in published().values():
        if each.origin.recipe is not None:
            assert files_of(each.origin.sources)


def test_the_command_makes_missing_results_and_keeps_present_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    present, missing = counting(tmp_path), counting(tmp_path)
    stages = [present, Stage("bytes", 2, ("bytes",), missing.steps, missing.tables, missing.modules)]
    monkeypatch.setattr(command, "STAGES", stages)
    monkeypatch.setattr(
        command, "read_results", lambda: {"frames": result(table(("w1", 12.0)), wire=VERSION - 1)}
    )

    def run_stage(
        stage: Stage, folder: Path, progress: Callable[[str], None]
    ) -> Iterator[tuple[str, Result]]:
        made.append(stage.name)
        yield from ()

    monkeypatch.setattr(command, "run_stage", run_stage)
    monkeypatch.setattr(command, "pages", lambda: [])
    done = click.testing.CliRunner().invoke(command.main, [])
    assert done.exit_code == 0, done.output
    assert made == ["bytes"]
    assert "13d116b4" in done.output
    assert "about 2 min" in done.output


def test_a_failed_stage_does_not_keep_other_stages_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = counting(tmp_path), counting(tmp_path, text="1 / 0")
    stages = [Stage("bytes", 1, ("bytes",), bad.steps, bad.tables, bad.modules), good]
    monkeypatch.setattr(command, "STAGES", stages)
    monkeypatch.setattr(command, "_OUTPUTS", tmp_path / "evidence")
    monkeypatch.setattr(command, "read_results", lambda: read_results(tmp_path))
    monkeypatch.setattr(command, "write_result", lambda name, made: write_result(name, made, tmp_path))
    monkeypatch.setattr(command, "pages", lambda: [])
    done = click.testing.CliRunner().invoke(command.main, [])
    assert isinstance(done.exception, EvidenceError)
    assert "bytes" in str(done.exception)
    assert set(read_results(tmp_path)) == {"frames"}


def test_an_unknown_stage_is_a_usage_error() -> None:
    done = click.testing.CliRunner().invoke(command.main, ["speed"])
    assert done.exit_code == 2
    assert "speed" in done.output


def test_the_origin_names_the_commit_and_the_machine() -> None:
    assert run.machine().cores >= 1
    assert re.fullmatch(r"[0-9a-f]{8,}\+?", run.commit(STAGES[0].sources()))


def test_each_result_was_made_by_a_commit_of_the_history() -> None:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("a shallow clone has no history")
    listed = git("rev-list", "HEAD").split()
    commits = {name: each.origin.commit.rstrip("+") for name, each in published().items()}
    known = {commit[:length] for length in {*map(len, commits.values())} for commit in listed}
    assert {name for name, commit in commits.items() if commit not in known} == set()


def test_make_evidence_finds_the_modules_that_steps_run() -> None:
    printed = subprocess.run(
        ["make", "-n", "evidence"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    (of_make,) = re.findall(r"PYTHONPATH=(\S+)", printed)
    commands = [step.words for stage in STAGES for step in stage.steps]
    modules = sorted(
        {
            words[i + 2]
            for words in commands
            for i, word in enumerate(words[:-2])
            if is_module(word, words[i + 1])
        }
    )
    assert len(modules) >= 3
    path = os.pathsep.join([*map(str, source_folders()), of_make])
    code = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    subprocess.run([sys.executable, "-c", code, *modules], env={**os.environ, "PYTHONPATH": path}, check=True)


def is_module(word: str, option: str) -> bool:
    return word == sys.executable and option == "-m"


@pytest.mark.parametrize(
    ("changed", "is_same"),
    [
        (CODE.replace("# of a test", "# of another test"), True),
        (CODE.replace("Return it", "Return\n    the value"), True),
        (CODE.replace("What it is.", "What it was."), True),
        (CODE.replace("\n\n", "\n\n\n"), True),
        (CODE.replace("VALUE = 1", "VALUE = 2"), False),
        (CODE.replace('"# no comment"', '"# a text"'), False),
        (CODE.replace("return value", "return -value"), False),
    ],
)
def test_the_digest_of_a_stage_does_not_hang_on_comments_and_docstrings(changed: str, is_same: bool) -> None:
    assert changed != CODE
    assert (statements_of(changed) == statements_of(CODE)) is is_same


def test_the_configuration_files_that_commands_name_are_written(tmp_path: Path) -> None:
    """For a stage, and for all of them; a reader can then type each command of a result."""
    runner = click.testing.CliRunner()
    assert runner.invoke(command.main, ["--files", str(tmp_path / "one"), "validation"]).exit_code == 0
    assert (tmp_path / "one/8-workers.toml").read_text().endswith("workers = 8\n")
    assert not (tmp_path / "one/s1.toml").exists()
    assert runner.invoke(command.main, ["--files", str(tmp_path / "all")]).exit_code == 0
    commands = [each for result in published().values() for each in result.origin.commands]
    named = {name for each in commands for name in re.findall(r"[^\s=]+\.toml", each)}
    assert len(named) > 17
    for name in named:
        file = ROOT / name if (ROOT / name).exists() else tmp_path / "all" / name
        assert tomli.loads(file.read_text()), name


def test_each_setting_of_a_step_is_in_its_command_or_in_a_named_file() -> None:
    for stage in STAGES:
        for step in stage.steps:
            settings = [line for _, text in step.files for line in text.splitlines() if line]
            further = [line for line in settings if not line.startswith("runs = ")]
            assert not further or ".toml" in step.shown, (stage.name, step.name)
