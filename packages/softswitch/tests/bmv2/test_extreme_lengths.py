"""Lengths that no program of p4c has; `unit/codegen/test_extreme_arguments.py` compares them without BMv2.

BMv2 crashes on a negative length of `truncate`, and of a varbit field that is shorter than its header.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from switch_harness import PROGRAMS
from switch_harness.twins import twins

pytestmark = pytest.mark.bmv2

MIN_FRAME = bytes(64)
Expression = dict[str, Any]


def field(*name: str) -> Expression:
    return {"type": "field", "value": list(name)}


def constant(number: int) -> Expression:
    return {"type": "hexstr", "value": hex(number)}


def operation(op: str, left: Expression, right: Expression) -> Expression:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}


def edited(folder: Path, edit: Callable[[Any], None]) -> Path:
    document = json.loads((PROGRAMS / "varbit.json").read_text())
    edit(document)
    (folder / "program.json").write_text(json.dumps(document))
    shutil.copy(PROGRAMS / "varbit.p4info.txtpb", folder / "program.p4info.txtpb")
    return folder / "program"


@pytest.mark.parametrize("factor", [1, 1 << 26, 1 << 40, 1 << 64])
def test_the_length_of_a_varbit_field_is_clamped_to_an_int(factor: int, tmp_path: Path) -> None:
    """The length is (x - 64) * factor, where x is in the frame."""

    def edit(document: Any) -> None:
        (start,) = [each for each in document["parsers"][0]["parse_states"] if each["name"] == "start"]
        length = operation("*", operation("-", field("scalars", "tmp_0"), constant(64)), constant(factor))
        start["parser_ops"][-1]["parameters"][1] = {"type": "expression", "value": length}

    with twins(edited(tmp_path, edit)) as both:
        for x in (0, 1, 24, 31, 32, 64, 65, 72, 128, 255):
            frame = bytes([0, 0, 0, 0, 0, 0, x]) + bytes(range(80))
            ours, _ = both.expect(1, frame)
            assert both.observe(1, frame) == ours, x


def test_the_length_of_truncate_is_taken_modulo_2_64(tmp_path: Path) -> None:
    """The length is 2^60 * x + 20, where x is in the frame: for 16 it is 20 modulo 2^64."""

    def edit(document: Any) -> None:
        length = operation("+", operation("*", field("probe", "length"), constant(1 << 60)), constant(20))
        for action in document["actions"]:
            if "egress_spec" in json.dumps(action["primitives"]):
                action["primitives"].append(
                    {"op": "truncate", "parameters": [{"type": "expression", "value": length}]}
                )

    with twins(edited(tmp_path, edit)) as both:
        lengths = set()
        for x in (0, 1, 15, 16, 17, 32):
            frame = bytes([0, 0]) + x.to_bytes(2, "big") + bytes([0, 0, 8]) + bytes(range(80))
            ours, _ = both.expect(1, frame)
            assert both.observe(1, frame) == ours, x
            lengths |= {len(output.frame) for output in ours}
        assert len(lengths) == 2
