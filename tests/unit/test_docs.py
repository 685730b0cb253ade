"""Links and file names of the pages exist, and lines of prose fit a window."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from tests.unit.test_rooms import AT_THE_TOP, PACKAGES, ROOT

PROJECTS = ROOT, ROOT / "softswitch", *PACKAGES.values()
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
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(there), f"{page.name}: {link}"


@pytest.mark.parametrize("page", sorted(set(PAGES) - set(OLD)), ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_are_there(page: Path) -> None:
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


def times_of_bmv2(what: str) -> tuple[str, str]:
    """Return how many times BMv2's packet rate softswitch has, by packet sockets and in the kernel."""
    (row,) = re.findall(rf"^\| {what}\b.* \| packets/s.*$", (ROOT / "docs/performance.md").read_text(), re.M)
    sockets, kernel, bmv2 = (int(cell.replace(",", "")) for cell in row.split("|")[3:6])
    return f"{sockets / bmv2:.0f}", f"{kernel / bmv2:.0f}"


def test_readmes_have_the_ratios_of_packet_rates_that_performance_has() -> None:
    sockets, kernel = times_of_bmv2("Hotline's program, 32 lanes hit")
    l3_sockets, l3_kernel = times_of_bmv2("L3 forwarding, 128 B")
    pages = ROOT / "README.md", ROOT / "softswitch/README.md"
    readme, of_switch = (" ".join(page.read_text().split()) for page in pages)
    assert f"[{kernel} to {sockets} times as many packets](docs/performance.md)" in readme
    assert f"{kernel} in the kernel, the default, and {sockets} by packet sockets" in readme
    assert f"[{l3_kernel} times (L3) and {kernel} times (Hotline's program) as many packets]" in of_switch
    assert f"and {l3_sockets} and {sockets} times by packet sockets" in of_switch
