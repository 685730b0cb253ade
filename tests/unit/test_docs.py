"""Links and file names of the pages exist, and lines of prose fit a window."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from tests.unit.test_rooms import AT_THE_TOP, ROOT

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
