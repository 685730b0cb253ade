"""The page in a browser: on a phone and a laptop, light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.browser import browser, opened
from tests.harness.cli import invoke


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "light"),
        *(pytest.param(*each, marks=pytest.mark.soak) for each in ((1280, "dark"), (390, "dark"))),
    ],
)
def test_nothing_is_cut_off_and_no_script_fails(log: Path, tmp_path: Path, width: int, scheme: str) -> None:
    into = tmp_path / "out"
    given = ["policies", str(log), "--sizes", "5,10,50", "--into", str(into)]
    assert invoke(*given).exit_code == 0
    with (
        browser() as started,
        opened(started, into / "report.html", width, scheme) as (shown, errors),
    ):
        shown.evaluate("dispatchEvent(new Event('beforeprint'))")
        shown.wait_for_function(
            "document.querySelectorAll('.panel').length == 3 && "
            "[...document.querySelectorAll('.panel')].every(of => of.querySelector('.main-svg'))"
        )
        assert errors == []
        wider = shown.evaluate(
            "[...document.querySelectorAll('body, body *:not(script)')].filter(element => "
            "element.getBoundingClientRect().right > innerWidth + 1 "
            "&& !element.closest('.panels')).length"
        )
        assert wider == 0
        assert shown.locator("tbody tr").first.is_visible()
