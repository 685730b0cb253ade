"""A table that is applied in several places goes on as each place says, in BMv2's JSON, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.errors import ProgramError
from softswitch.interpreter import InterpretedPipeline
from softswitch.load import load_program
from softswitch.p4.bmv2_json import bmv2_json_text
from softswitch.p4.compiler import compile_file
from switch_harness.wording import says

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header bytes_t { bit<8> key; bit<8> chosen; bit<8> place; bit<8> path; }
struct headers_t { bytes_t bytes; }
struct none_t {}
parser P(packet_in p, out headers_t h, inout none_t m, inout standard_metadata_t s) {
    state start { p.extract(h.bytes); transition accept; }
}
control V(inout headers_t h, inout none_t m) { apply {} }
control I(inout headers_t h, inout none_t m, inout standard_metadata_t s) {
    action one() { h.bytes.chosen = 1; }
    action two() { h.bytes.chosen = 2; }
    table choose {
        key = { h.bytes.key: exact; }
        actions = { one; two; }
        default_action = two;
        const entries = { 7: one(); }
    }
    apply {
        s.egress_spec = 1;
        BODY
    }
}
control E(inout headers_t h, inout none_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.bytes); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""
PLAIN = """
if (h.bytes.place == 0) { choose.apply(); h.bytes.path = 10; }
else if (h.bytes.place == 1) { choose.apply(); h.bytes.path = 20; }
else { choose.apply(); h.bytes.path = 30; }
"""
BY_HIT = """
if (h.bytes.place == 0) { if (choose.apply().hit) { h.bytes.path = 11; } else { h.bytes.path = 12; } }
else if (h.bytes.place == 1) { if (choose.apply().miss) { h.bytes.path = 22; } }
else { choose.apply(); h.bytes.path = 30; }
"""
BY_ACTION = """
if (h.bytes.place == 0) {
    switch (choose.apply().action_run) { one: { h.bytes.path = 11; } two: { h.bytes.path = 12; } }
} else if (h.bytes.place == 1) {
    switch (choose.apply().action_run) { one: { h.bytes.path = 21; } default: { h.bytes.path = 22; } }
} else { choose.apply(); h.bytes.path = 30; }
"""
PATHS = {
    PLAIN: {(7, 0): 10, (9, 0): 10, (7, 1): 20, (9, 1): 20, (7, 2): 30, (9, 2): 30},
    BY_HIT: {(7, 0): 11, (9, 0): 12, (7, 1): 0, (9, 1): 22, (7, 2): 30, (9, 2): 30},
    BY_ACTION: {(7, 0): 11, (9, 0): 12, (7, 1): 21, (9, 1): 22, (7, 2): 30, (9, 2): 30},
}


def written(folder: Path, body: str) -> Path:
    file = folder / "program.p4"
    file.write_text(PROGRAM.replace("BODY", body))
    return file


@pytest.mark.parametrize("body", PATHS, ids=["plain", "by hit", "by action"])
def test_each_place_of_a_table_goes_on_by_itself(body: str, tmp_path: Path) -> None:
    lowered = compile_file(written(tmp_path, body))
    program = load_program(bmv2_json_text(lowered))
    assert program == lowered.program
    pipeline = InterpretedPipeline(program)
    for (key, place), path in PATHS[body].items():
        [output] = pipeline.process(1, bytes([key, 0, place, 0]), 0, 0)
        assert output.frame == bytes([key, 1 if key == 7 else 2, place, path])


MIXED = """
if (h.bytes.place == 0) { if (choose.apply().hit) { h.bytes.path = 11; } }
else { switch (choose.apply().action_run) { one: { h.bytes.path = 21; } } }
"""


@pytest.mark.parametrize(
    "body",
    ["choose.apply(); choose.apply();", "if (choose.apply().hit) { choose.apply(); }", MIXED],
    ids=["one after another", "after a hit", "by hit and by action"],
)
def test_an_application_that_bmv2_lacks_is_refused_with_the_table(body: str, tmp_path: Path) -> None:
    with pytest.raises(ProgramError) as error:
        compile_file(written(tmp_path, body))
    assert says(str(error.value), "program.p4:", "I.choose")
