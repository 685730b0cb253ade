"""The STF parser: every statement, and one clear error with its place for a malformed line."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.conformance import statements as stf
from softswitch.conformance.errors import StfError
from softswitch.conformance.parser import parse, read_vectors
from softswitch.conformance.statements import Number
from switch_harness.wording import mentions


def one(line: str) -> stf.Statement:
    (found,) = parse(line, "f.stf")
    return found.statement


CALL = stf.Call("a", ())

STATEMENTS: list[tuple[str, stf.Statement]] = [
    ("packet 3 0102 ab CD", stf.StfPacket(3, b"\x01\x02\xab\xcd")),
    ("expect 2", stf.Expect(2, None)),
    ("expect 2 01**0203 4*", stf.Expect(2, "01**02034*")),
    ("expect 2 01** aB $", stf.Expect(2, "01**ab", exact=True)),
    ("expect 2 $", stf.Expect(2, "", exact=True)),
    ("no_packet", stf.NoPacket()),
    ("wait", stf.Wait()),
    ("remove all", stf.RemoveAll()),
    ("setdefault t a()", stf.SetDefault("t", CALL)),
    (
        "setdefault ingress.t ingress.a(x:1, y : 0b10)",
        stf.SetDefault("ingress.t", stf.Call("ingress.a", (("x", Number(1)), ("y", Number(2, 3, 2))))),
    ),
    ("add t a()", stf.Add("t", None, (), CALL, None)),
    ("add t 5 f:7 a()", stf.Add("t", 5, (("f", Number(7)),), CALL, None)),
    ("add t f:7 a() = B", stf.Add("t", None, (("f", Number(7)),), CALL, "B")),
    (
        'add "t t" h[2].f:0x0a "x".$valid$:1 a()',
        stf.Add("t t", None, (("h[2].f", Number(10, 255, 8)), ("x.$valid$", Number(1))), CALL, None),
    ),
    ('add "t#<1>" f:1 a() # "', stf.Add("t#<1>", None, (("f", Number(1)),), CALL, None)),
    ("add t extra$0.h:0x2*0 a()", stf.Add("t", None, (("extra$0.h", Number(0x200, 0xF0F, 12)),), CALL, None)),
    ("add t f:0b1* a()", stf.Add("t", None, (("f", Number(2, 2, 2)),), CALL, None)),
    (
        "add t f:0x0a00/8 a()",
        stf.Add("t", None, (("f", stf.Prefix(Number(2560, 65535, 16), 8)),), CALL, None),
    ),
    ("add t f:4&&&6 a()", stf.Add("t", None, (("f", stf.MaskedValue(Number(4), Number(6))),), CALL, None)),
    ("add t f:4->6 a()", stf.Add("t", None, (("f", stf.Span(Number(4), Number(6))),), CALL, None)),
    ("check_counter c(3)", stf.CheckCounter("c", 3)),
    ("check_counter c($A) packets == 2", stf.CheckCounter("c", "A", "packets", "==", 2)),
    ("check_counter i.c(1) bytes >= 64", stf.CheckCounter("i.c", 1, "bytes", ">=", 64)),
    ("mirroring_add 5 4", stf.MirroringAdd(5, 4)),
    ("mirroring_add_mc 5 1113", stf.MirroringAddMc(5, 1113)),
    ("mirroring_delete 5", stf.MirroringDelete(5)),
    ("mirroring_get 5", stf.MirroringGet(5)),
    ("mc_mgrp_create 1", stf.McGroupCreate(1)),
    ("mc_node_create 400 6 7", stf.McNodeCreate(400, (6, 7))),
    ("mc_node_update 0 8", stf.McNodeUpdate(0, (8,))),
    ("mc_node_associate 1 0", stf.McNodeAssociate(1, 0)),
    ("counter_read c 1", stf.CounterRead("c", 1)),
    ("counter_write c 1 2 300", stf.CounterWrite("c", 1, 2, 300)),
    ("register_read i.r 5", stf.StfRegisterRead("i.r", 5)),
    ("register_write i.r 5 0xff", stf.StfRegisterWrite("i.r", 5, 255)),
    ("register_reset i.r", stf.RegisterReset("i.r")),
    ("meter_get_rates m 2", stf.MeterGetRates("m", 2)),
    (
        "meter_set_rates m 2 0.000005:4 2:5",
        stf.MeterSetRates("m", 2, stf.StfRate(0.000005, 4), stf.StfRate(2.0, 5)),
    ),
    (
        "meter_array_set_rates m 1:4 2:5",
        stf.MeterSetRates("m", None, stf.StfRate(1.0, 4), stf.StfRate(2.0, 5)),
    ),
]


@pytest.mark.parametrize(("line", "statement"), STATEMENTS, ids=[line for line, _ in STATEMENTS])
def test_a_statement_is_parsed_with_spaces_comments_and_capitals(line: str, statement: stf.Statement) -> None:
    assert one(line) == statement
    assert one(f"  \t{line}  # comment") == statement
    keyword, space, rest = line.partition(" ")
    assert one(keyword.upper() + space + rest) == statement


def test_every_kind_of_statement_is_tested() -> None:
    assert {type(statement) for _, statement in STATEMENTS} == set(stf.Statement.__subclasses__())


def test_statements_have_their_line_numbers() -> None:
    lines = parse("# title\n\nwait\n   # more\npacket 0 00\n", "f.stf")
    assert [(line.number, type(line.statement)) for line in lines] == [(3, stf.Wait), (5, stf.StfPacket)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("frobnicate 1", "unknown statement 'frobnicate'"),
        ("packet 1 012", "packet: expected whole bytes in hex, got '012'"),
        ("packet 1", "packet: expected whole bytes in hex, got ''"),
        ("packet 1 0*", "packet: expected whole bytes in hex, got '0*'"),
        ("packet x 00", "packet: expected a port number, got 'x'"),
        ("expect", "expect: expected a port number, got ''"),
        ("expect 1 0$1", "expect: expected hex digits and '*', with '$' only at the end, got '0$1'"),
        ("add t f:1", "add: expected an action, got the end of the line"),
        ("add t f:1 a", "add: expected '(', got the end of the line"),
        ("add t f:1 a(", "add: expected a parameter, got the end of the line"),
        ("add t f:1 a(x)", "add: expected ':', got ')'"),
        ("add t f:1 a(x:1 y:2)", "add: expected ',', got 'y'"),
        ("add t f: a()", "add: expected a value, got 'a'"),
        ("add t f:1/0x* a()", "add: expected a prefix length without '*' digits, got 0x*"),
        ("add t f:1 a() = ", "add: expected a handle, got the end of the line"),
        ("add t f:1 a() x", "add: expected the end of the line, got 'x'"),
        ("add t f:1 a() ;", "add: unexpected character ';'"),
        ("setdefault t", "setdefault: expected an action, got the end of the line"),
        ("remove t", "remove: expected 'all', got 't'"),
        ("check_counter c(A) frames == 1", "check_counter: expected 'packets' or 'bytes', got 'frames'"),
        (
            "check_counter c(A) bytes = 1",
            "check_counter: expected '==' or '!=' or '<=' or '<' or '>=' or '>', got '='",
        ),
        ("mc_node_create 1", "mc_node_create: expected a port, got the end of the line"),
        ("mirroring_add 1 2 3", "mirroring_add: expected the end of the line, got '3'"),
        ("register_write r 1", "register_write: expected a value, got the end of the line"),
        ("meter_set_rates m 1 0.5:1", "meter_set_rates: expected a rate, got the end of the line"),
        ("wait 5", "wait: expected the end of the line, got '5'"),
    ],
)
def test_a_malformed_line_is_an_error_with_file_and_line(line: str, reason: str) -> None:
    with pytest.raises(StfError) as error:
        parse(f"wait\n{line}\n", "f.stf")
    assert str(error.value) == f"f.stf:2: {reason}"


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StfError, match=mentions("none.stf", "read")):
        read_vectors(tmp_path / "none.stf")
