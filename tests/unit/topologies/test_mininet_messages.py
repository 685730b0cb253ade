"""Mininet's messages: limits that it cannot set are none of them, and the others stand above bars."""

from __future__ import annotations

import io
import sys
from types import ModuleType

import pytest

pytestmark = pytest.mark.mininet


@pytest.fixture
def mininet_api(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Let Mininet take this process for root's in a container, where it may set no limit."""
    from topologies import mininet_api

    # Imported by the line above, which undoes what Mininet does to loggers.
    net, util = sys.modules["mininet.net"], sys.modules["mininet.util"]

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(net, "ensureRoot", lambda: None)
    monkeypatch.setattr(util, "rlimitTestAndSet", refuse)
    monkeypatch.setattr(util, "sysctlTestAndSet", refuse)
    monkeypatch.setattr(mininet_api.Mininet, "inited", False)
    return mininet_api


def test_limits_that_mininet_cannot_set_are_not_reported(
    mininet_api: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    mininet_api.set_up_mininet()
    assert mininet_api.Mininet.inited and capfd.readouterr() == ("", "")


def test_other_warnings_go_to_the_stderr_that_a_progress_display_has_replaced(
    mininet_api: ModuleType, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mininet_api.set_up_mininet()
    replaced = io.StringIO()
    monkeypatch.setattr(sys, "stderr", replaced)
    lg = mininet_api.lg
    lg.warning("no cable\n")
    lg.output("ping\n")
    lg.info("*** Starting\n")
    assert replaced.getvalue() == "no cable\nping\n" and capfd.readouterr() == ("", "")
