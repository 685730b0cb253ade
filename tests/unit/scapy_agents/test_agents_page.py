"""docs/start.md shows the push that its example makes."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from tests.unit.repository.test_rooms import ROOT

PAGE = ROOT / "docs" / "start.md"


def run_example() -> tuple[str, dict[str, Any]]:
    """Run the page's example; return what it prints, and its names."""
    [code] = re.findall(r"```python\n(from hosts\.scapy.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    with redirect_stdout(StringIO()) as printed:
        exec(code, names)
    return printed.getvalue(), names


def test_the_page_shows_the_push_as_scapy_prints_the_packet() -> None:
    printed, _ = run_example()
    [shown] = re.findall(r"```\n(###\[ Hotline.*?)```", PAGE.read_text(), re.DOTALL)
    packet = printed[printed.index("###[ Hotline") :].partition("\n\n")[0]
    assert [line.strip() for line in packet.splitlines()] == [line.strip() for line in shown.splitlines()]


def test_the_example_of_the_page_adds_its_pushes() -> None:
    printed, names = run_example()
    assert names["acknowledged"] == {5, 7} and names["worker"].idle
    assert dict(names["server"].stores[2].values) == {7: (40,), 5: (2**32 - 3,)}
    assert printed.splitlines()[-1] == f"{names['acknowledged']} {dict(names['server'].stores[2].values)}"
