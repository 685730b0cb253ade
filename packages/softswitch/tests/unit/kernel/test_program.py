"""A program's code is made once for a user, and anew wherever something else would come out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from softswitch import cache, ir
from softswitch.kernel import front
from softswitch.kernel.frame import Skb, XdpFrame
from softswitch.kernel.front import build_front
from softswitch.kernel.program import Code
from softswitch.memory.layout import make_layout
from switch_harness.constructs import compiled

EGRESS_SPEC = "egress_spec"


def test_packed_code_unpacks_equal() -> None:
    code = Code(b"instructions", 1 << 33, 7, b"constants")
    assert Code.unpack(code.pack()) == code


class Counted:
    """How often a front end was built; each time, it is other code."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0

        def counting(made: Any) -> Code:
            self.times += 1
            return Code(b"code %d" % self.times, 1, 2, b"")

        monkeypatch.setattr(front._FrontEnd, "build", counting)


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counted:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Counted(monkeypatch)


def made(source: ir.Program, **options: Any) -> Code:
    return build_front(source, make_layout(source), **options)


def test_the_code_of_a_program_is_built_once(built: Counted) -> None:
    first = made(compiled("control"))
    assert built.times == 1
    assert made(compiled("control")) == first
    assert built.times == 1


@pytest.mark.parametrize("options", [{"priority_queues": 8}, {"reads_clock": False}, {"frame": XdpFrame}])
def test_a_program_with_different_options_is_built_again(built: Counted, options: dict[str, Any]) -> None:
    source = compiled("control")
    made(source, priority_queues=1, reads_clock=True, frame=Skb)
    made(source, **options)
    assert built.times == 2


def test_a_program_with_different_roles_of_its_fields_is_built_again(built: Counted) -> None:
    """P4 before 2016 calls fields otherwise; which they are stands beside the program's text."""
    source = compiled("control")
    made(source)
    of = source.field_index
    at = next(key for key in of if key[1] == EGRESS_SPEC)
    other = next(ref for key, ref in of.items() if key[1] == "mcast_grp")
    made(replace(source, field_index={**of, at: other}))
    assert built.times == 2


def test_a_different_version_of_the_sources_builds_a_program_again(
    built: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(compiled("control"))
    monkeypatch.setattr(cache, "source_digest", lambda: "0123456789abcdef")
    made(compiled("control"))
    assert built.times == 2
