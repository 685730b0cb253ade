"""Small v1model programs, each with what a test puts into a frame of declarations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from softswitch.load import load_program
from softswitch.p4.bmv2_json import bmv2_json, bmv2_json_text
from softswitch.p4.compiler import compile_file
from softswitch.p4.lower_program import Lowered
from switch_harness.bmv2_rules import violations

Json = dict[str, Any]
_FRAME = """\
#include <core.p4>
#include <v1model.p4>
header first_t { bit<8> kind; bit<8> count; int<8> signed; bit<16> value; bit<1> flag; bit<7> rest; }
header second_t { bit<16> value; bool is_on; bit<7> rest; }
header list_t { bit<8> length; varbit<64> data; bit<8> tail; }
header_union either_t { first_t first; second_t second; }
struct headers_t {
    first_t first; first_t other; second_t second; list_t list; list_t other_list; either_t one; either_t two;
    either_t[2] many; either_t[2] more; second_t[3] items; second_t[3] others;
}
struct metadata_t { @field_list(1) bit<16> kept; bool is_set; bit<3> small; error problem; bit<8> position; }
enum Choice { LEFT, RIGHT }
%(declarations)s
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    %(parser_locals)s
    state start { packet.extract(hdr.first); %(parser)s }
    %(states)s
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply { %(verify)s } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    %(ingress_locals)s
    apply { %(ingress)s }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    %(egress_locals)s
    apply { %(egress)s }
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply { %(update)s } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); %(deparser)s } }
V1Switch(P(), Verify(), I(), E(), Update(), D()) main;
"""
PARTS = (
    "declarations", "parser_locals", "parser", "states", "verify", "ingress_locals", "ingress",
    "egress_locals", "egress", "update", "deparser",
)  # fmt: skip


def small_source(**parts: str) -> str:
    """Return a program; `parser` is how the state `start` ends, and the other parts are empty by default."""
    unknown = parts.keys() - set(PARTS)
    assert not unknown, unknown
    return _FRAME % {**dict.fromkeys(PARTS, ""), "parser": "transition accept;", **parts}


def compile_small(folder: Path, **parts: str) -> Lowered:
    file = folder / "small.p4"
    file.write_text(small_source(**parts))
    return compile_file(file)


def written_json(lowered: Lowered) -> Json:
    """Return the JSON of a program, once the loader and the rules of BMv2 have accepted it."""
    text = bmv2_json_text(lowered)
    assert load_program(text) == lowered.program
    document: Json = json.loads(text)
    assert document == bmv2_json(lowered)
    assert violations(document) == []
    return document


def primitives(document: Json) -> list[Json]:
    return [primitive for action in document["actions"] for primitive in action["primitives"]]
