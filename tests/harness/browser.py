"""A page in the installed Chromium or Chrome."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Error, Page

PATIENCE_MS = 1e3 * 600
"""Time until a step fails, instead of Playwright's 30 s, which a busy machine exceeds."""
_ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-gpu-compositing", "--disable-software-rasterizer",
    "--js-flags=--no-enable-lazy-source-positions",
)  # fmt: skip
"""Root has no sandbox. Without a card, Chromium would compute what a card does, also for pages in 2D.

For the stack of each exception, V8 would parse the script again to find its lines; plotly has 38 exceptions.
"""
_SCRIPT_LINE = 10_000
NAMES = ("chromium", "google-chrome", "google-chrome-stable", "chrome", "chromium-browser")


def find_browser() -> str | None:
    """Return its path, or None if none is installed; Ubuntu's stub that asks for a snap does not count."""
    found = (path for name in NAMES if (path := shutil.which(name)) is not None)
    return next((path for path in found if b"snap" not in Path(path).read_bytes()[:4096]), None)


class StartedBrowser(NamedTuple):
    browser: Browser
    folder: Path
    """Where the page is that a tab shows."""


@contextmanager
def browser() -> Iterator[StartedBrowser]:
    from playwright.sync_api import sync_playwright  # takes 0.2 s, in each process that collects tests

    path = find_browser()
    if path is None:
        if platform.freedesktop_os_release()["ID"] == "debian":
            pytest.fail("no browser: `make test` installs Debian's package chromium")
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    with TemporaryDirectory() as folder, sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=_ARGUMENTS, timeout=PATIENCE_MS)
        try:
            yield StartedBrowser(started, Path(folder))
        finally:
            started.close()


@contextmanager
def opened(started: StartedBrowser, page: Path, width: int, scheme: str) -> Iterator[tuple[Page, list[str]]]:
    """Open a page at a width, light or dark; yield it with a list of the errors of its scripts."""
    shown, errors = _blank_tab(started.browser), list[str]()

    def report_exception(error: Error) -> None:
        errors.append(str(error))

    def report_message(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            errors.append(message.text)

    shown.on("pageerror", report_exception)
    shown.on("console", report_message)
    shown.set_viewport_size({"width": width, "height": 800})
    shown.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    try:
        shown.goto(_copied(page, started.folder).as_uri())
        yield shown, errors
        shown.goto("about:blank")
    finally:
        shown.remove_listener("pageerror", report_exception)
        shown.remove_listener("console", report_message)


def _copied(page: Path, folder: Path) -> Path:
    """Copy a page to an address that all pages share, with its first script in a line that all share.

    When a tab loads a script of this address and line again, it is already compiled, which takes 2 s for
    plotly's.
    """
    text = page.read_text(encoding="utf-8")
    line = text[: text.index("<script>")].count("\n")
    copied = folder / "page.html"
    copied.write_text("\n" * (_SCRIPT_LINE - line) + text, encoding="utf-8")
    return copied


def _blank_tab(started: Browser) -> Page:
    """Return a tab that shows no page, an earlier one if possible, for which scripts are compiled."""
    for context in started.contexts:
        for shown in context.pages:
            if shown.url == "about:blank":
                return shown
    context = started.new_context(offline=True)
    context.set_default_timeout(PATIENCE_MS)  # navigation's, too
    return context.new_page()
