"""Links and file names of the pages exist, and lines of prose fit a window."""

from __future__ import annotations

import re
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from experiment.run_config import read_toml
from foundation.designs import registry
from tests.unit.repository.test_rooms import AT_THE_TOP, ROOT

PROJECTS = ROOT, *sorted(ROOT.glob("packages/*"))
PAGES = sorted(chain(*((*each.glob("*.md"), *(each / "docs").rglob("*.md")) for each in PROJECTS)))
WIDTH = 120
OLD = [page for page in PAGES if page.name == "CHANGELOG.md" or "decisions" in page.parts]
"""Pages that name files of the past."""
ROOMS_OF_NAMES = "|".join(sorted(AT_THE_TOP))


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_existing_files_and_headings(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{page.name}: {link}"
        if there.suffix == ".md":  # test_evidence.py has the cells that links to results name
            assert not anchor or anchor in anchors(there), f"{page.name}: {link}"


def projects_installed(command: str) -> dict[str, set[str]]:
    """Return the projects that a `pip install` names by their folders, with those of ours that each needs."""
    folders = re.findall(r"-e (\.(?:/packages/[\w-]+)?)(?=[\s\"]|$)", command)
    tables: list[Any] = [read_toml(ROOT / each / "pyproject.toml", each)["project"] for each in folders]
    needs = {each["name"]: {re.split(r"[^\w-]", one)[0] for one in each["dependencies"]} for each in tables}
    return {name: {one for one in found if one.startswith("hotline-")} for name, found in needs.items()}


def test_commands_for_a_new_environment_name_all_projects_outside_of_an_index() -> None:
    places = [*set(PAGES) - set(OLD), *ROOT.glob("packages/*/evidence.py")]
    texts = [re.sub(r'"\n\s+"|\\\n\s*', "", place.read_text()) for place in places]
    commands = [command for text in texts for command in re.findall(r"-m venv .*pip install .*", text)]
    assert len(commands) == 2
    for command in commands:
        found = projects_installed(command)
        assert "hotline-answers" in found and set().union(*found.values()) <= found.keys(), command


@pytest.mark.parametrize("page", sorted(set(PAGES) - set(OLD)), ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_exist(page: Path) -> None:
    named = set(re.findall(rf"`((?:{ROOMS_OF_NAMES})/[\w./-]*)`", page.read_text()))
    roots = [each for each in PROJECTS if page.is_relative_to(each)]
    there = {name for name in named for root in roots if (root / name).exists()}
    missing = {name for name in named - there if not re.search("NAME|TARGET", name)}
    assert missing == set()


@pytest.mark.parametrize("page", sorted(set(PAGES) - set(OLD)), ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_are_narrow(page: Path) -> None:
    """Tables and commands may be wider."""
    lines = enumerate(page.read_text().splitlines(), start=1)
    wide = [number for number, line in lines if len(line) > WIDTH and not line.startswith(("|", "    "))]
    assert wide == []


def pages_linked_from(page: Path) -> set[Path]:
    links = re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", page.read_text())
    return {(page.parent / link).resolve() for link in links if "://" not in link}


def test_the_index_lists_every_page() -> None:
    """The index of decisions lists theirs, and README links the index."""
    index, decisions = (ROOT / "docs" / folder / "README.md" for folder in ("", "decisions"))
    assert index in pages_linked_from(ROOT / "README.md") and decisions in pages_linked_from(index)
    assert set(PAGES) - {index} <= pages_linked_from(index) | pages_linked_from(decisions)


def test_each_decision_keeps_its_number() -> None:
    """A record has one heading with its number, to which the index of decisions leads."""
    folder = ROOT / "docs" / "decisions"
    pages = [page.read_text() for page in sorted(folder.glob("*.md"))]
    headings = [int(number) for page in pages for number in re.findall(r"^## (\d+)\. ", page, re.MULTILINE)]
    listed = re.findall(
        r"^(\d+)\. \[[^\]]*\]\(\w+\.md#(\d+)-", (folder / "README.md").read_text(), re.MULTILINE
    )
    assert [int(number) for number, _ in listed] == sorted(headings) == list(range(1, len(headings) + 1))
    assert all(number == of_anchor for number, of_anchor in listed)


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
def test_pages_for_p4_programs_are_linked_from_the_front(page: str) -> None:
    linked = {path.name for path in pages_linked_from(ROOT / page)}
    assert {"packets-vanish.md", "explain.md", "testing.md"} <= linked


@pytest.mark.parametrize("name", ["hotset", "collect", "none"])
def test_the_table_of_parts_has_the_modules_of_each_design(name: str) -> None:
    rows = re.findall(r"^\|(.*)\|$", (ROOT / "docs" / "architecture.md").read_text(), re.M)
    table = [[cell.strip() for cell in row.split("|")] for row in rows]
    [head] = [cells for cells in table if cells[0] == "part"]
    column = head.index(f"`{name}`")
    listed = {
        file
        for cells in table
        if len(cells) == len(head)
        for file in re.findall(r"`(\S+\.py)`", cells[column])
    }
    specs = map(find_spec, registry.modules_of(registry.described_design(name)))
    modules = {Path(str(spec.origin)) for spec in specs if spec is not None}
    assert {str(file.relative_to(ROOT)) for file in modules} <= listed
