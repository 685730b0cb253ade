"""A page in the installed Chromium or Chrome."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, sync_playwright

PATIENCE_MS = 1e3 * 600
"""Time until a step fails, instead of Playwright's 30 s, which a busy machine exceeds."""
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-gpu-compositing", "--disable-software-rasterizer")
"""Root has no sandbox. Without a card, Chromium would compute what a card does, also for pages in 2D."""
NAMES = ("chromium", "google-chrome", "google-chrome-stable", "chrome", "chromium-browser")


def find_browser() -> str | None:
    """Return its path, or None if none is installed; Ubuntu's stub that asks for a snap does not count."""
    found = (path for name in NAMES if (path := shutil.which(name)) is not None)
    return next((path for path in found if b"snap" not in Path(path).read_bytes()[:4096]), None)


@contextmanager
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        if platform.freedesktop_os_release()["ID"] == "debian":
            pytest.fail("no browser: `make test` installs Debian's package chromium")
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=_ARGUMENTS, timeout=PATIENCE_MS)
        try:
            yield started
        finally:
            started.close()


@contextmanager
def opened(started: Browser, page: Path, width: int, scheme: str) -> Iterator[tuple[Page, list[str]]]:
    """Open a page at a width, light or dark; yield it with a list of the errors of its scripts."""
    shown, errors = _blank_tab(started), list[str]()

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
        shown.goto(page.resolve().as_uri())
        yield shown, errors
        shown.goto("about:blank")
    finally:
        shown.remove_listener("pageerror", report_exception)
        shown.remove_listener("console", report_message)


def _blank_tab(started: Browser) -> Page:
    """Return a tab that shows no page, an earlier one if possible.

    When a tab loads a page again, the page's scripts are already compiled, which takes 4 s for plotly's.
    """
    for context in started.contexts:
        for shown in context.pages:
            if shown.url == "about:blank":
                return shown
    context = started.new_context(offline=True)
    context.set_default_timeout(PATIENCE_MS)  # navigation's, too
    return context.new_page()
