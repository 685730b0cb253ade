"""`hotline check`: all solutions have all points, skeletons say what is missing, a batch makes a table."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import Result

from hotline_course.checker import check_batch, check_submission
from hotline_course.exercise import COURSE, open_exercise, submission_files
from hotline_course.limits import Limits
from hotline_course.report import as_row, as_text
from hotline_course.settings import CheckSettings
from packages.course.tests.unit.submissions import EXERCISES, SOLUTIONS, submit
from tests.harness.cli import invoke

POINTS = {
    "01-forward": 7, "02-count": 8, "03-hot-keys": 8, "04-sum": 7, "05-once": 9, "06-two-switches": 8,
    "07-rule": 7, "08-compare": 8,
}  # fmt: skip
SKELETON_REASONS = {
    "01-forward": "expected 00146baa945500000000000008 from port 5, got no frame",
    "02-count": "frames[3], updates sent 2: expected 2, got 0",
    "03-hot-keys": "update 4 of key 7, limit 4: expected the digests [key, estimate] [[7, 4]], got []",
    "04-sum": "expected (op 2, version 0, worker 2, key 5, value 60) from ports 1, 2, 3, got no frame",
    "05-once": "expected no frame, got (op 2, version 0, worker 1, key 2, value 40) from ports 1, 2, 3",
    "06-two-switches": "expected (op 1, version 0, worker 0, key 3, value 30) from port 9, "
    "got (op 2, version 0, worker 0, key 3, value 30) from ports 1, 2",
    "07-rule": "expected a score above 0, got 0.000: are the keys that `choose` returns updated at all?",
    "08-compare": "expected the true change between low and high in 85 % of 150 comparisons or more, got 0%",
}
SEED = 7


def run(*arguments: object) -> Result:
    return invoke("check", *arguments)


def test_all_exercises_are_tested() -> None:
    assert EXERCISES == sorted(POINTS) == sorted(SKELETON_REASONS)


def test_all_solutions_have_all_points(tmp_path: Path) -> None:
    folders = [submit(tmp_path / name, name) for name in EXERCISES]
    results = check_batch(folders, COURSE, CheckSettings(seed=SEED))
    lost = {each.exercise: each.problem or as_row(each)[3] for each in results if each.status}
    assert lost == {}
    assert {each.exercise: each.earned for each in results} == POINTS


def test_all_skeletons_load_and_lose_points_with_a_reason_that_helps() -> None:
    results = check_batch([COURSE / name for name in EXERCISES], COURSE)
    assert [each.status for each in results] == [1] * len(EXERCISES)
    assert {each.exercise: as_row(each)[3] for each in results} == SKELETON_REASONS
    assert all(each.earned <= 2 for each in results)
    for result in results:
        *_, last = as_text(result)
        assert re.fullmatch(r"  next: \w+\.(p4|py), line \d+: TODO 1: [a-z].*", last), last
        page = " ".join((COURSE / result.exercise / "README.md").read_text().split())
        promised = rf"The skeleton(, which is [^,]*,)? has {result.earned} of {result.points} points"
        assert re.search(promised, page), result.exercise


@pytest.mark.parametrize("name", EXERCISES)
def test_a_skeleton_has_the_files_of_the_solution_and_says_its_tasks(name: str) -> None:
    exercise = open_exercise(COURSE / name)
    skeleton, solution = submission_files(exercise.folder), submission_files(SOLUTIONS / name)
    assert skeleton.keys() == solution.keys() == {exercise.program, exercise.module} - {None}
    assert all(b"TODO" in text for text in skeleton.values())
    assert not any(b"TODO" in text for text in solution.values())


MISTAKES = [
    # A wrong program, and the check that it loses.
    ("02-count", "count.p4", "hdr.hot.value > before", "true",
     "the register has the largest value and not the last"),
    ("03-hot-keys", "hot_keys.p4", "crc16", "crc32", "few cold keys are reported"),
    ("03-hot-keys", "hot_keys.p4", "estimate >= limit", "estimate > limit", "no hot key is missed"),
    ("04-sum", "sum.p4", "sum = 0;", "", "a sum begins at zero after a result"),
    ("05-once", "once.p4", "there & ~worker", "there", "all sums under random loss equal the plain model"),
    ("05-once", "once.p4", "std.egress_spec = std.ingress_port", "std.mcast_grp = 1",
     "a lost result is returned to the asking worker alone"),
    ("06-two-switches", "tree.p4", " && (bit<32>) std.ingress_port == port_up", "",
     "the switch below takes results from its uplink alone"),
    ("07-rule", "rule.py", "MARGIN = 1.5", "MARGIN = 0", "the rule is as good as the plain model"),
    ("08-compare", "compare.py", "repeat_low > 0 or repeat_high < 0", "False",
     "a baseline unlike its repeat makes the comparison not valid"),
]  # fmt: skip


def test_a_mistake_loses_the_points_of_the_check_that_names_the_mistake(tmp_path: Path) -> None:
    folders = []
    for number, (name, file, right, wrong, _) in enumerate(MISTAKES):
        folder = submit(tmp_path / str(number), name)
        text = (folder / file).read_text()
        assert right in text, file
        (folder / file).write_text(text.replace(right, wrong))
        folders.append(folder)
    for result, (*_, title) in zip(check_batch(folders, COURSE), MISTAKES, strict=True):
        assert title in {each.name for each in result.checks if each.reason}, result
        assert result.earned > 1


def test_a_batch_of_good_wrong_and_hostile_submissions_has_the_expected_table(tmp_path: Path) -> None:
    batch = tmp_path / "batch"
    batch.mkdir()
    submit(batch / "ada", "07-rule")
    submit(batch / "bob", "07-rule", is_solved=False)
    submit(batch / "cyd", "07-rule", rule_py="exit(0)")
    submit(batch / "dan", "07-rule", rule_py="while True: pass")
    submit(batch / "eve", "07-rule").joinpath("rule.py").unlink()
    (batch / "fay").mkdir()
    submit(batch / "gus", "07-rule").joinpath("exercise.toml").write_text('name = "../../etc"')
    done = run(batch, "--json", "--jobs", 4, "--cpu-seconds", 1, "--junit", tmp_path / "out.xml")
    assert done.exit_code == 2, done.output
    rows = {Path(each["folder"]).name: each for each in json.loads(done.stdout)}
    assert {name: (each["earned"], each["points"], each["status"]) for name, each in rows.items()} == {
        "ada": (7, 7, 0), "bob": (1, 7, 1), "cyd": (0, 7, 1), "dan": (0, 7, 1), "eve": (0, 7, 1),
        "fay": (0, 0, 2), "gus": (0, 0, 2),
    }  # fmt: skip
    assert rows["cyd"]["checks"][0]["reason"] == "rule.py, line 1: SystemExit: 0"
    assert "1 s of CPU time" in rows["dan"]["checks"][0]["reason"]
    assert rows["eve"]["checks"][0]["reason"] == "rule.py: expected this file in the folder"
    assert "expected a file exercise.toml" in rows["fay"]["problem"]
    assert "expected an exercise of" in rows["gus"]["problem"]
    suites = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert [int(suite.get("failures", "")) for suite in suites] == [0, 3, 4, 4, 4, 0, 0]
    assert [int(suite.get("errors", "")) for suite in suites] == [0] * 5 + [1, 1]


def test_the_table_of_a_batch_has_a_row_for_each_submission(tmp_path: Path) -> None:
    submit(tmp_path / "ada", "07-rule")
    submit(tmp_path / "bob", "07-rule", is_solved=False)
    submit(tmp_path / "eve", "07-rule", rule_py="raise ValueError('[/b] 7/7 [red]')")
    done = run(tmp_path / "ada", tmp_path / "bob", tmp_path / "eve")
    assert done.exit_code == 1
    assert "1/7" in done.output and "expected a score" in done.output
    assert "0/7" in done.output and "[/b] 7/7 [red]" in done.output


def test_one_submission_is_printed_with_its_checks_and_a_lecturers_name_of_the_exercise(
    tmp_path: Path,
) -> None:
    folder = submit(tmp_path / "ada", "07-rule")
    (folder / "exercise.toml").unlink()
    done = run(folder, "--exercise", "07-rule", "--seed", SEED)
    assert done.exit_code == 0
    assert done.output.splitlines()[:2] == [f"{folder}: 7 of 7 points (07-rule)", "  1/1 loads"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}"], "expected a file exercise.toml"),
        (["{}", "--exercise", "99-none"], "expected an exercise of"),
        (["{}/none"], "expected a folder with a submission"),
        (["{}", "--seed", "-1"], "-1"),
        (["{}", "--exercise", "07-rule", "--course", "{}/none"], "none"),
    ],
)
def test_a_folder_that_cannot_be_checked_has_status_2_and_a_message(
    tmp_path: Path, arguments: Sequence[str], message: str
) -> None:
    done = run(*(each.format(tmp_path) for each in arguments))
    assert done.exit_code == 2 and message in done.output and "Traceback" not in done.output


def test_a_program_for_the_published_parameters_alone_loses_points_with_a_lecturers_seed(
    tmp_path: Path,
) -> None:
    exercise = open_exercise(COURSE / "01-forward")
    hosts = [len(exercise.parameters(seed).hosts) for seed in range(99)]
    larger = next(seed for seed, number in enumerate(hosts) if number > hosts[0])
    folder = submit(tmp_path / "mine", exercise.name)
    program = folder / exercise.program if exercise.program else folder
    program.write_text(program.read_text().replace("size = 1024", f"size = {hosts[0]}"))
    assert check_submission(folder, COURSE).status == 0
    reasons = [check.reason for check in check_submission(folder, COURSE, seed=larger).checks if check.reason]
    assert len(reasons) == 2 and all(reason.startswith(f"with seed {larger}: ") for reason in reasons)


def test_a_changed_test_of_a_submission_has_no_effect(tmp_path: Path) -> None:
    folder = submit(tmp_path / "mine", "07-rule", is_solved=False)
    for name in ("test_rule.py", "parameters.py", "conftest.py"):
        (folder / name).write_text("def test_nothing(): pass\n")
    result = check_submission(folder, COURSE)
    assert (result.earned, result.points) == (1, POINTS["07-rule"])


def test_a_file_beside_the_module_can_be_imported(tmp_path: Path) -> None:
    folder = submit(tmp_path / "mine", "07-rule")
    (folder / "rule.py").rename(folder / "helper.py")
    (folder / "rule.py").write_text("from helper import choose, start\n")
    assert check_submission(folder, COURSE, limits=Limits(cpu_s=10)).status == 0


def test_only_the_first_lost_check_is_printed_with_its_trace() -> None:
    text = list(as_text(check_submission(COURSE / "04-sum", COURSE)))
    traces = [number for number, line in enumerate(text) if "├─ parser" in line]
    assert len(traces) == 1 and any("more lines (--json shows all)" in line for line in text)
