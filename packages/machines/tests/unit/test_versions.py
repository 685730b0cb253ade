"""Versions of all machines are compared before anything is started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hotline_machines import survey
from hotline_machines.errors import MachinesError
from hotline_machines.survey import software_versions, sources_digest
from hotline_machines.versions import RUNNER, check_versions

COMMON = {"hotline": "0.1.0 (aa)", "wire": "4", "python": "3.11.2", "kernel": "6.1"}


def versions(**others: dict[str, str]) -> dict[str, dict[str, str]]:
    return {RUNNER: COMMON, **{name: {**COMMON, **changed} for name, changed in others.items()}}


def test_the_compared_versions_are_the_versions_that_a_machine_describes() -> None:
    assert software_versions().keys() == COMMON.keys()
    assert re.fullmatch(r"\S+ \([0-9a-f]{12}\)", software_versions()["hotline"])


def test_equal_versions_need_no_remark() -> None:
    assert check_versions(versions(a={}, b={})) == []


@pytest.mark.parametrize("name", ["hotline", "wire", "python"])
def test_a_different_version_is_refused_with_the_names_of_all_machines_that_have_that_version(
    name: str,
) -> None:
    with pytest.raises(MachinesError) as refused:
        check_versions(versions(a={}, b={name: "other"}, c={name: "third"}))
    assert str(refused.value) == (
        f"{name}: expected {COMMON[name]} on all machines, as on this machine, found other on b, third on c"
    )


def test_kernels_may_differ_and_the_difference_is_reported() -> None:
    assert check_versions(versions(a={}, b={"kernel": "6.12"})) == [
        "kernel: 6.1 on this machine, and 6.12 on b"
    ]


def test_without_the_runner_most_machines_decide() -> None:
    found = versions(a={"wire": "5"}, b={"wire": "5"}, c={"wire": "3"})
    del found[RUNNER]
    with pytest.raises(MachinesError, match=r"^wire: expected 5 on all machines, as on a, found 3 on c$"):
        check_versions(found)


def test_the_digest_is_of_all_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").write_text("")
    monkeypatch.setattr(survey, "source_folders", lambda: (tmp_path,))
    digests = {sources_digest()}
    for name, text in (("a.py", "x = 1"), ("a.py", "x = 2"), ("b.py", "x = 2")):
        (room / name).write_text(text)
        digests.add(sources_digest())
    (room / "notes.txt").write_text("no source")
    assert len(digests) == 4 and sources_digest() in digests
