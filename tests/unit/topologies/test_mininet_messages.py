"""Mininet's messages: limits that it cannot set are none of them, and the others stand above bars."""

from __future__ import annotations

import io
import sys

import pytest
from mininet import net, util
from mininet.log import lg

from topologies.mininet_api import Mininet, set_up_mininet


@pytest.fixture(autouse=True)
def in_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Mininet take this process for root's in a container, where it may set no limit."""

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(net, "ensureRoot", lambda: None)
    monkeypatch.setattr(util, "rlimitTestAndSet", refuse)
    monkeypatch.setattr(util, "sysctlTestAndSet", refuse)
    monkeypatch.setattr(Mininet, "inited", False)


def test_limits_that_mininet_cannot_set_are_not_reported(capfd: pytest.CaptureFixture[str]) -> None:
    set_up_mininet()
    assert Mininet.inited and capfd.readouterr() == ("", "")


def test_other_warnings_go_to_the_stderr_that_a_display_of_bars_has_replaced(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up_mininet()
    replaced = io.StringIO()
    monkeypatch.setattr(sys, "stderr", replaced)
    lg.warning("no cable\n")
    lg.output("ping\n")
    lg.info("*** Starting\n")
    assert replaced.getvalue() == "no cable\nping\n" and capfd.readouterr() == ("", "")
