"""A program that reads what is undefined does something else with another fill of its storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.interpreter import InterpretedPipeline
from softswitch.load import load_program
from switch_harness.p4c_samples import write_outputs
from switch_harness.small_programs import compile_small
from switch_harness.zeroed import filled, zeroed


@pytest.mark.parametrize(
    ("ingress", "is_undefined"),
    [
        ("bit<8> x; if (hdr.first.kind == 1) { x = 2; } hdr.first.count = x;", True),
        ("bit<8> x = 1; if (hdr.first.kind == 1) { x = 2; } hdr.first.count = x;", False),
        ("hdr.first.count = (bit<8>) hdr.second.value;", True),
        ("hdr.first.count = meta.position;", False),
    ],
)
def test_a_program_with_undefined_reads_differs_between_fills_of_storage(
    ingress: str, is_undefined: bool, tmp_path: Path
) -> None:
    lowered, program = compile_small(tmp_path, ingress=ingress), tmp_path / "small"
    write_outputs(lowered, program)
    metadata = lowered.blocks["p"].declaration.parameters[2].name
    sent = {
        InterpretedPipeline(load_program(each.with_suffix(".json").read_bytes()))
        .process(1, bytes(8), 0, 0)[0]
        .frame
        for each in (zeroed(program, tmp_path), filled(program, tmp_path, metadata))
    }
    assert len(sent) == 1 + is_undefined
