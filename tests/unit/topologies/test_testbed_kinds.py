"""Where a run is: on this machine, or where an installed package puts it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from experiment.errors import ConfigError, PreflightError
from experiment.run_config import Config
from hotline_scripts import up
from topologies import testbed_kinds
from topologies.mininet_testbed import MininetTestbed

SEVERAL = Config(machines="tls://head:8786")


def installed(*names: str) -> Callable[..., list[Any]]:
    """Return a replacement of `entry_points` for packages whose kinds of testbeds have these names."""

    def find(group: str) -> list[Any]:
        assert group == "hotline.testbeds"
        return [SimpleNamespace(name=name, load=lambda name=name: f"the kind {name}") for name in names]

    return find


def test_without_machines_a_run_is_on_mininet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testbed_kinds, "entry_points", installed("machines"))
    assert isinstance(testbed_kinds.testbed_kind(Config()), MininetTestbed)


def test_with_machines_the_installed_package_provides_the_testbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testbed_kinds, "entry_points", installed("others", "machines"))
    kind: object = testbed_kinds.testbed_kind(SEVERAL)
    assert kind == "the kind machines"


@pytest.mark.parametrize("names", [(), ("others",)])
def test_without_the_package_machines_are_refused(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.setattr(testbed_kinds, "entry_points", installed(*names))
    with pytest.raises(ConfigError, match=r"^MACHINES=tls://head:8786: expected an installed package"):
        testbed_kinds.testbed_kind(SEVERAL)


def test_the_testbed_checks_the_needs_of_hotline_up() -> None:
    kind = Mock(check_up=Mock(side_effect=PreflightError("too few CPUs")))
    with pytest.raises(PreflightError, match="too few CPUs"):
        up.check(SEVERAL, kind)
    kind.check_up.assert_called_once_with(SEVERAL)
