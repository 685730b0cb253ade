"""P4Info and program as p4c prints them together."""

from __future__ import annotations

import pytest

from softswitch.p4runtime.status import Refusal
from switch_harness.p4runtime import config, controlled_by


def test_a_key_without_width_has_the_programs() -> None:
    """As p4c describes a key of type `error`."""
    request = config()
    declared = request.p4info.tables[0]
    widths = [field.bitwidth for field in declared.match_fields]
    declared.match_fields[0].bitwidth = 0
    control = controlled_by(request)
    table = control.pipeline.program.tables[declared.preamble.name]
    assert [part.width for part in table.key] == widths
    assert request.p4info.tables[0].match_fields[0].bitwidth == 0, "it reads back as it was given"


def test_another_width_is_refused() -> None:
    request = config()
    request.p4info.tables[0].match_fields[0].bitwidth += 1
    with pytest.raises(Refusal, match="they are not of one compilation"):
        controlled_by(request)
