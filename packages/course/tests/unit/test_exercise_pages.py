"""The READMEs of exercises have pictures, commands, and the numbers of the published seed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from foundation.checkout import ROOT
from hotline_course.checker import Submission
from hotline_course.exercise import COURSE, load_module, open_exercise
from hotline_course.frames import HotFrame
from hotline_course.points import points_of
from hotline_course.todos import remaining_todos
from packages.course.tests.unit.submissions import EXERCISES, SOLUTIONS, submit


def page_of(exercise: str) -> str:
    return (COURSE / exercise / "README.md").read_text()


def words_of(exercise: str) -> str:
    return " ".join(page_of(exercise).split())


# `Any`: each exercise has its own type of parameters.
def published(exercise: str) -> Any:
    return open_exercise(COURSE / exercise).parameters(0)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_page_has_task_picture_command_and_numbers(exercise: str) -> None:
    page = page_of(exercise)
    command = f"./hotline check examples/course/{exercise}"
    for part in ("**Task.**", "**Run it**", command, "**Numbers to expect"):
        assert part in page, part
    picture = page.partition("**Task.**")[2].partition("**Run it**")[0]
    assert len(re.findall(r"^     .*[─►│→]", picture, re.MULTILINE)) >= 2


def test_the_numbers_of_pages_come_from_the_published_seed() -> None:
    forward = published("01-forward")
    to = [(forward.hosts.get(frame.dst), frame.port) for frame in forward.frames]
    unknown, same = sum(host is None for host, _ in to), sum(host == port for host, port in to)
    expected = f"for {len(forward.hosts)} hosts, {len(to) - unknown - same} are forwarded. {unknown} are"
    assert expected in words_of("01-forward")
    assert f"and {same} for the port from" in words_of("01-forward")
    updates = published("02-count").updates
    keys = {key for key, _ in updates if key < 64}
    without = sum(key >= 64 for key, _ in updates)
    expected = (
        f"{len(updates)} updates of seed 0, {without} have no cell; the others are for {len(keys)} keys"
    )
    assert expected in words_of("02-count")
    total = published("04-sum")
    sums = len(total.updates) // total.workers
    expected = f"{total.workers} workers, and {len(total.updates)} updates make {sums} sums"
    assert expected in words_of("04-sum")
    once = published("05-once")
    expected = f"there are {once.workers} workers, and {once.loss * 100:.0f} % of all frames"
    assert expected in words_of("05-once")


def test_the_numbers_of_two_racks_come_from_the_published_seed() -> None:
    tree = published("06-two-switches")
    (workers,) = {len(switch["worker_ports"]) for switch in tree.switches}
    sums = len(tree.updates) // (2 * workers)
    expected = f"has {workers} workers: {len(tree.updates)} updates make {sums} sums, and {sums} updates go"
    assert expected in words_of("06-two-switches")


def test_the_table_of_rules_has_the_scores_of_the_published_seed() -> None:
    rules, tests = published("07-rule"), load_module(COURSE / "07-rule" / "test_rule.py")
    page = page_of("07-rule")
    for name, score in (
        ("the first window's hottest keys for ever", tests.first_window_only(rules)),
        ("the last window's hottest keys", tests.last_window(rules)),
        ("the plain model: smoothed counts, and moves that gain more than a limit", tests.smoothed(rules)),
    ):
        assert f"| {name} | {score:.3f} |" in page


def test_the_intervals_of_the_published_seed_are_as_often_right_as_the_page_says() -> None:
    measured = published("08-compare").measured
    compare = load_module(SOLUTIONS / "08-compare" / "compare.py").compare
    found = [compare(each.baseline, each.repeat, each.change) for each in measured]
    right = sum(one["low"] <= each.truth <= one["high"] for each, one in zip(measured, found, strict=True))
    assert f"With seed 0, {right} of {len(measured)} intervals have the true change" in words_of("08-compare")


def test_the_sketch_sends_as_many_digests_as_its_page_says(tmp_path: Path) -> None:
    keys = published("03-hot-keys")
    folder = submit(tmp_path / "mine", "03-hot-keys")
    with Submission(open_exercise(COURSE / "03-hot-keys"), folder) as submission:
        switch = submission.switch()
        switch.run(f"register_write threshold 0 {keys.limit}")
        for key in keys.updates:
            switch.process(2, HotFrame(key, 1).encode())
        digests = switch.digests()
    cold = len({key for key, _ in digests} & set(keys.cold))
    expected = (
        f"the limit is {keys.limit}. For {len(keys.updates)} updates there are {len(digests)} digests, of "
        f"the {len(keys.hot)} hot keys and of {cold} cold ones"
    )
    assert expected in words_of("03-hot-keys")


def test_todos_are_listed_by_number_with_their_whole_comment() -> None:
    files = {
        "a.p4": b"// TODO 2: later,\n//   also here\nx();\n    y(); // TODO 1: first\n",
        "b.py": b"# TODO 3: last\n",
    }
    assert remaining_todos(files, ["a.p4", "b.py", "none.py"]) == [
        "a.p4, line 4: TODO 1: first",
        "a.p4, line 1: TODO 2: later, also here",
        "b.py, line 1: TODO 3: last",
    ]


def test_the_table_of_the_page_has_the_points_of_each_exercise() -> None:
    page = (ROOT / "docs" / "course.md").read_text()
    row = r"^\| \[\d+\]\(\.\./examples/course/([\w-]+)/README\.md\).*\| (\d+) \|$"
    rows = re.findall(row, page, re.MULTILINE)
    expected = {
        name: 1 + sum(points_of(test) for _, test in open_exercise(COURSE / name).tests()) for name, _ in rows
    }
    assert len(rows) == len(EXERCISES) and {name: int(number) for name, number in rows} == expected
