"""The table of verdicts, and pages of counterexamples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotline_allreduce.judge import verdicts
from hotline_allreduce.judge.description import Violation
from hotline_allreduce.judge.engine import Judge, PacketFault
from hotline_allreduce.judge.page import page_of
from hotline_allreduce.judge.tree import TreeDescription
from hotline_allreduce.judge.verdicts import ALL, COLUMNS, PROTOCOLS, judge_protocol
from hotline_allreduce.switchml.model.description import PUBLISHED
from tools.evidence.result import published_table

DOCS = Path(__file__).parents[3] / "docs"
HELD_UP = "held up on the way to a server"
RESTARTED = "the switch restarts, answers are lost"
TREES = [name for name, (protocol, *_) in PROTOCOLS.items() if isinstance(protocol, TreeDescription)]
SOAKED = {
    *((protocol, HELD_UP) for protocol in ("ATP", "ATP, checked", "hotset", "hotset, keys move")),
    *((protocol, ALL) for protocol in ("ATP", "ATP, checked", "hotset", "hotset, keys move")),
    *((protocol, ALL) for protocol in ("Trio-ML's rule", "OLAF's rule")),
    *((protocol, RESTARTED) for protocol in ("ATP", "ATP, checked", "hotset", "hotset, keys move")),
    *(("hotset, keys move", column) for column in ("answers are lost", "a worker dies")),
    *((f"hotset in a network{row}", RESTARTED) for row in ("", ", keys move", ", workers are followed")),
    *((f"hotset in a network{row}", ALL) for row in ("", ", keys move", ", workers are followed")),
    *((f"hotset in a network, {row}", HELD_UP) for row in ("keys move", "workers are followed")),
    ("hotset in a network, keys move", "answers are lost"),
    *((f"hotset at both levels{row}", RESTARTED) for row in ("", ", keys move", ", a key has moved")),
    *((f"hotset at both levels{row}", HELD_UP) for row in ("", ", keys move", ", a key has moved")),
    *((f"hotset at both levels{row}", ALL) for row in ("", ", keys move", ", a key has moved")),
    *((protocol, ALL) for protocol in TREES),
    ("P-sets and A-sets, timers", "spraying"),
}
"""Cells with many states, whose searches are soaked."""


CELLS = [(protocol, column) for protocol in PROTOCOLS for column in COLUMNS]


@pytest.mark.parametrize(
    ("protocol", "column"),
    [pytest.param(*cell, marks=[pytest.mark.soak] * (cell in SOAKED)) for cell in CELLS],
)
def test_verdicts_equal_the_published_verdicts(protocol: str, column: str) -> None:
    assert published_table("verdicts").cell(protocol, column) == str(judge_protocol(protocol, column))


def test_the_documented_counterexample_is_the_page_that_the_judge_writes() -> None:
    judge = Judge(PUBLISHED, frozenset({PacketFault.COPIED}))
    page = page_of(judge, Violation.WRONG, judge.search(5)[Violation.WRONG][1].steps)
    assert (DOCS / "switchml-late-copy.html").read_text() == page
    rows = re.findall(r"<tr><td>(\d)</td><td>(.*?)</td><td>(.*?)</td>", page)
    assert [(number, packet) for number, packet, _ in rows] == [
        ("0", ""), ("1", "A0"), ("2", "B0"), ("3", "A1"), ("4", "late A0"), ("5", "B1"),
    ]  # fmt: skip
    assert "switch, set 1, entry 0: bitmap = A; missing workers = 1; values = A1" in rows[3][2]
    assert page.count("sum 1 = B1: wrong") == 2 and page.count("sum 0 = A0 + B0") == 8
    assert "http" not in page and "<script" not in page  # self-contained


def test_the_command_writes_a_page_of_each_violation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: PROTOCOLS[name] for name in ("SwitchML", "exact")}
    columns = {name: COLUMNS[name] for name in ("packets are lost", "spraying")}
    monkeypatch.setattr(verdicts, "PROTOCOLS", few)
    monkeypatch.setattr(verdicts, "COLUMNS", columns)
    run = CliRunner().invoke(verdicts.main, ["--pages", str(tmp_path / "pages")])
    assert run.exit_code == 0 and len(run.stdout.splitlines()) == 4
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == [
        "switchml-spraying-stalled.html", "switchml-spraying-wrong.html",
    ]  # fmt: skip
