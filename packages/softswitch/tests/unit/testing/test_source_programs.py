"""Commands and tests that take P4 source: an edit is what the next call runs, and -I and -D apply."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from softswitch import explaining
from softswitch.conformance import cli as conformance
from softswitch.errors import SwitchError
from softswitch.p4 import command as compiler
from softswitch.testing import Switch
from switch_harness.wording import says

SOURCES = Path(__file__).parents[2] / "programs"
FRAME = bytes.fromhex("00000000000b 00000000000a 0800") + bytes(46)
# The port of all frames is `PORT` of an included file, plus the macro `STEP`.
SOURCE = """
#include <core.p4>
#include <v1model.p4>
#include "port.p4"
#ifndef STEP
#define STEP 0
#endif
struct none_t {}
parser P(packet_in p, out none_t h, inout none_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout none_t h, inout none_t m) { apply {} }
control I(inout none_t h, inout none_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = PORT + STEP; }
}
control E(inout none_t h, inout none_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in none_t h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a program whose included file is in another folder."""
    (tmp_path / "included").mkdir()
    (tmp_path / "included" / "port.p4").write_text("#define PORT 3\n")
    file = tmp_path / "program.p4"
    file.write_text(SOURCE)
    return file


@pytest.fixture
def included(source: Path) -> Path:
    return source.parent / "included"


def test_a_test_of_source_runs_the_edited_source_with_folders_and_macros(
    source: Path, included: Path
) -> None:
    with Switch(source, include_folders=[included]) as switch:
        switch.expect(1, FRAME, (3, FRAME))
    with Switch(source, include_folders=[included], definitions={"STEP": 4}) as switch:
        switch.expect(1, FRAME, (7, FRAME))
    (included / "port.p4").write_text("#define PORT 5\n")
    with Switch(source, include_folders=[included]) as switch:
        switch.expect(1, FRAME, (5, FRAME))


def test_a_test_of_source_has_p4info_for_writes() -> None:
    with Switch(SOURCES / "l2.p4") as switch:
        switch.run("table_add hosts forward 00:00:00:00:00:0b => 2")
        switch.expect(1, FRAME, (2, FRAME))


def test_an_error_of_source_names_file_line_and_column(source: Path) -> None:
    with pytest.raises(SwitchError) as error:
        Switch(source)
    assert f"{source.name}:4:" in str(error.value) and "port.p4" in str(error.value)


def test_explain_takes_source_with_folders_and_macros(source: Path, included: Path) -> None:
    options = ["-I", str(included), "-D", "STEP=2", "--packet", FRAME.hex(), "--json"]
    ended = CliRunner().invoke(explaining.command, [str(source), *options], catch_exceptions=False)
    assert ended.exit_code == 0
    sent = json.loads(ended.output.splitlines()[-1])
    assert (sent["kind"], sent["port"]) == ("send", 5)


def test_explain_shows_names_and_lines_of_the_source() -> None:
    """The names of temporary tables, which p4c makes for statements, are not the program's."""
    packet = ["--packet", FRAME.hex()]
    ended = CliRunner().invoke(
        explaining.command, [str(SOURCES / "control.p4"), *packet], catch_exceptions=False
    )
    assert ended.exit_code == 0
    assert "control.p4:" in ended.output and "tbl_" not in ended.output


def test_vectors_run_on_source(tmp_path: Path) -> None:
    vectors = tmp_path / "l2.stf"
    hosts = "add hosts mac:0x00000000000b forward(port:2)"
    vectors.write_text(f"{hosts}\npacket 1 {FRAME.hex()}\nexpect 2 {FRAME.hex()}\n")
    options = ["--target", "interpreter", str(SOURCES / "l2.p4"), str(vectors)]
    ended = CliRunner().invoke(conformance.command, options, catch_exceptions=False)
    assert ended.exit_code == 0 and "1 pass" in ended.stderr


def test_vectors_run_on_source_with_folders_and_macros(source: Path, included: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "ports.stf"
    vectors.write_text(f"packet 1 {FRAME.hex()}\nexpect 7 {FRAME.hex()}\n")
    options = ["--target", "interpreter", "-I", str(included), "-D", "STEP=4", str(source), str(vectors)]
    ended = CliRunner().invoke(conformance.command, options, catch_exceptions=False)
    assert ended.exit_code == 0 and "1 pass" in ended.stderr


def test_folders_and_macros_with_json_are_refused(included: Path) -> None:
    with pytest.raises(SwitchError) as error:
        Switch(SOURCES / "compiled" / "l2.json", include_folders=[included])
    assert says(str(error.value), "l2.json", "-I", "-D")


def test_a_macro_without_a_name_is_one_line(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for main, options in ((explaining.main, ["--packet", "00"]), (compiler.main, [])):
        with pytest.raises(SystemExit) as ended:
            main([str(source), "-D", "=3", *options])
        assert says(str(ended.value.code), "-D =3", "NAME") and "\n" not in str(ended.value.code)


REFUSING = """
#include <core.p4>
#include <v1model.p4>
{top}
header h_t {{ bit<8> a; bit<8> b; }}
struct cell_t {{ bit<8> a; bit<8> b; }}
struct headers_t {{ h_t first; h_t second; }}
struct m_t {{ bit<8> x; }}
parser P(packet_in p, out headers_t h, inout m_t m, inout standard_metadata_t s) {{
    state start {{ p.extract(h.first); {parser} transition accept; }}
}}
control V(inout headers_t h, inout m_t m) {{ apply {{}} }}
control I(inout headers_t h, inout m_t m, inout standard_metadata_t s) {{
    action set(bit<8> x) {{ m.x = x; }}
    table t {{ key = {{ h.first.a: exact; }} actions = {{ set; NoAction; }} }}
    {declared}
    apply {{ {body} }}
}}
control E(inout headers_t h, inout m_t m, inout standard_metadata_t s) {{ apply {{}} }}
control D(packet_out p, in headers_t h) {{ apply {{ p.emit(h.first); {deparser} }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""
"""A program that compiles if nothing is put into the places in braces."""


def refusing(**parts: str) -> str:
    places = ("top", "parser", "declared", "body", "deparser")
    return REFUSING.format(**{place: parts.get(place, "") for place in places})


REFUSED = {
    "psa": ("#include <psa.p4>\n", "psa.p4"),
    "another package": ("package Other<C>(C c);\ncontrol C() { apply {} }\nOther(C()) main;\n", "Other"),
    "function of the user's": (refusing(top="extern void f(in bit<8> x);", body="f(1);"), "`f`"),
    "Checksum16": (refusing(declared="Checksum16() c;", body="m.x = (bit<8>)c.get(h.first);"), "Checksum16"),
    "register of structs": (
        refusing(declared="register<cell_t>(4) r;", body="cell_t c; r.read(c, 0); m.x = c.a;"),
        "cell_t",
    ),
    "length of a packet": (refusing(parser="m.x = (bit<8>)p.length();"), "`length`"),
    "computed index of an array": (
        refusing(body="bit<8>[4] a; a[h.first.a] = 3; m.x = a[h.first.b];"),
        "index",
    ),
    "conditional emit": (refusing(deparser="if (h.first.a == 1) { p.emit(h.second); }"), "deparser"),
    "switched emit": (
        refusing(deparser="switch (h.first.a) { 1: { p.emit(h.second); } default: {} }"),
        "deparser",
    ),
    "table applied twice on a path": (refusing(body="t.apply(); t.apply();"), "table I.t"),
}
"""What docs/compiler.md lists as refused, with what the message names."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_construct_of_the_pages_list_is_refused_by_name(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, named = REFUSED[name]
    file = tmp_path / "program.p4"
    file.write_text(source)
    with pytest.raises(SystemExit) as ended:
        compiler.main([str(file), "-o", str(tmp_path / "program.json")])
    assert named in str(ended.value.code) and f"{file}:" in str(ended.value.code)
    assert not (tmp_path / "program.json").exists()


def test_the_program_without_a_refused_construct_compiles(tmp_path: Path) -> None:
    file = tmp_path / "program.p4"
    file.write_text(refusing())
    compiler.main([str(file), "-o", str(tmp_path / "program.json")])
    assert (tmp_path / "program.json").exists()


REPORTING = """
#include <core.p4>
#include <v1model.p4>
header length_t { bit<16> first; }
struct headers_t { length_t length; }
struct report_t { bit<16> first; bit<32> frames; }
parser P(packet_in p, out headers_t h, inout report_t m, inout standard_metadata_t s) {
    state start { p.extract(h.length); transition accept; }
}
control V(inout headers_t h, inout report_t m) { apply {} }
control I(inout headers_t h, inout report_t m, inout standard_metadata_t s) {
    register<bit<32>>(4) frames;
    register<bit<32>>(2) others;
    apply {
        frames.read(m.frames, 2);
        m.frames = m.frames + 1;
        frames.write(2, m.frames);
        m.first = h.length.first;
        if (m.frames > 1) { digest<report_t>(1, m); }
    }
}
control E(inout headers_t h, inout report_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in headers_t h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


@pytest.fixture
def reporting(tmp_path: Path) -> Iterator[Switch]:
    file = tmp_path / "reporting.p4"
    file.write_text(REPORTING)
    with Switch(file) as switch:
        yield switch


def test_a_register_is_read_by_its_name_or_the_end_of_the_name(reporting: Switch) -> None:
    reporting.process(1, bytes(14))
    assert reporting.read_register("I.frames") == [0, 0, 1, 0]
    assert reporting.read_register("frames", 1, 2) == [0, 1]
    assert reporting.read_register("frames", 4) == []


@pytest.mark.parametrize(
    ("name", "first", "count", "message"),
    [("rames", 0, None, "expected a register (I.frames, I.others), got 'rames'"),
     ("frames", 3, 2, "register I.frames: expected cells from 0 to 3, got 3 to 4"),
     ("frames", -1, 1, "register I.frames: expected cells from 0 to 3, got -1 to -1")],
)  # fmt: skip
def test_a_missing_register_or_cell_is_named(
    reporting: Switch, name: str, first: int, count: int | None, message: str
) -> None:
    with pytest.raises(SwitchError) as refused:
        reporting.read_register(name, first, count)
    assert str(refused.value) == message


def test_digests_are_values_by_the_names_of_their_fields(reporting: Switch) -> None:
    reporting.process(1, bytes(14))
    assert reporting.digests() == []
    for first in (7, 9):
        reporting.process(1, first.to_bytes(2, "big") + bytes(12))
    assert reporting.digests() == [{"first": 7, "frames": 2}, {"first": 9, "frames": 3}]
    assert reporting.digests() == []
