"""Parser of STF: one statement a line; `#` starts a comment, and the case of keywords is ignored."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from softswitch.conformance import statements as stf
from softswitch.conformance.errors import StfError
from softswitch.conformance.tokens import Tokens

_COMPARISONS = ("==", "!=", "<=", "<", ">=", ">")
_UNITS = ("packets", "bytes")
_CODE = re.compile(r'(?:"[^"]*"|[^#])*')
"""Text of a line before its comment; quoted names may have a `#`."""


def read_vectors(path: Path) -> list[stf.NumberedStatement]:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise StfError(f"{path}: cannot be read: {error}") from None
    return parse(text, str(path))


def parse(text: str, name: str) -> list[stf.NumberedStatement]:
    statements = []
    for number, line in enumerate(text.splitlines(), start=1):
        code = _CODE.match(line)
        if code and (statement := code[0].strip()):
            try:
                statements.append(stf.NumberedStatement(number, _parse_statement(statement)))
            except StfError as error:
                raise StfError(f"{name}:{number}: {error}") from None
    return statements


def _parse_statement(code: str) -> stf.Statement:
    keyword, _, operands = code.replace("\t", " ").partition(" ")
    keyword = keyword.lower()
    if keyword == "packet":
        return _parse_packet(operands)
    if keyword == "expect":
        return _parse_expect(operands)
    if keyword not in _STATEMENTS:
        raise StfError(f"unknown statement {keyword!r}")
    try:
        tokens = Tokens(operands)
        statement = _STATEMENTS[keyword](tokens)
        tokens.finish()
    except StfError as error:
        raise StfError(f"{keyword}: {error}") from None
    return statement


# -- packets


def _parse_packet(operands: str) -> stf.StfPacket:
    port, data = _parse_port_and_data("packet", operands)
    if not re.fullmatch(r"(?:[0-9a-fA-F]{2})+", data):
        raise StfError(f"packet: expected whole bytes in hex, got {data!r}")
    return stf.StfPacket(port, bytes.fromhex(data))


def _parse_expect(operands: str) -> stf.Expect:
    port, data = _parse_port_and_data("expect", operands)
    if not data:
        return stf.Expect(port, None)
    exact = data.endswith("$")
    digits = data[:-1] if exact else data
    if not re.fullmatch(r"[0-9a-fA-F*]*", digits):
        raise StfError(f"expect: expected hex digits and '*', with '$' only at the end, got {data!r}")
    return stf.Expect(port, digits.lower(), exact)


def _parse_port_and_data(keyword: str, operands: str) -> tuple[int, str]:
    port, _, data = operands.strip().partition(" ")
    if not re.fullmatch(r"[0-9]+", port):
        raise StfError(f"{keyword}: expected a port number, got {port!r}")
    return int(port), "".join(data.split())


# -- tables


def _parse_add(tokens: Tokens) -> stf.Add:
    table = tokens.qualified_name("a table")
    priority = tokens.integer() if tokens.kind == "decimal" else None
    key = []
    name = tokens.key_name("a match field or an action")
    while tokens.skip_sign(":"):
        key.append((name, _parse_match(tokens)))
        name = tokens.key_name("an action")
    call = _parse_arguments(tokens, name)
    handle = tokens.word("a handle") if tokens.skip_sign("=") else None
    return stf.Add(table, priority, tuple(key), call, handle)


def _parse_match(tokens: Tokens) -> stf.MatchValue:
    number = tokens.number("a value")
    if tokens.skip_sign("/"):
        return stf.Prefix(number, tokens.integer("a prefix length"))
    if tokens.skip_sign("&&&"):
        return stf.MaskedValue(number, tokens.number("a mask"))
    if tokens.skip_sign("->"):
        return stf.Span(number, tokens.number("an upper bound"))
    return number


def _parse_arguments(tokens: Tokens, action: str) -> stf.Call:
    args: list[tuple[str, stf.Number]] = []
    tokens.take_sign("(")
    while not tokens.skip_sign(")"):
        if args:
            tokens.take_sign(",")
        name = tokens.word("a parameter")
        tokens.take_sign(":")
        args.append((name, tokens.number("a value")))
    return stf.Call(action, tuple(args))


def _parse_set_default(tokens: Tokens) -> stf.SetDefault:
    table = tokens.qualified_name("a table")
    return stf.SetDefault(table, _parse_arguments(tokens, tokens.qualified_name("an action")))


def _parse_remove(tokens: Tokens) -> stf.RemoveAll:
    operand = tokens.word("'all'")
    if operand.lower() != "all":
        raise StfError(f"expected 'all', got {operand!r}")
    return stf.RemoveAll()


def _parse_check_counter(tokens: Tokens) -> stf.CheckCounter:
    counter = tokens.qualified_name("a counter")
    tokens.take_sign("(")
    is_handle = tokens.kind in ("name", "quoted")
    cell = tokens.word().removeprefix("$") if is_handle else tokens.integer("an index or a handle")
    tokens.take_sign(")")
    if tokens.kind == "end":
        return stf.CheckCounter(counter, cell)
    unit = tokens.word("'packets' or 'bytes'").lower()
    if unit not in _UNITS:
        raise StfError(f"expected 'packets' or 'bytes', got {unit!r}")
    return stf.CheckCounter(counter, cell, unit, tokens.take_sign(*_COMPARISONS), tokens.integer())


# -- meters


def _parse_meter_set_rates(tokens: Tokens) -> stf.MeterSetRates:
    meter, index = tokens.qualified_name("a meter"), tokens.integer("an index")
    return stf.MeterSetRates(meter, index, *_parse_rates(tokens))


def _parse_meter_array_set_rates(tokens: Tokens) -> stf.MeterSetRates:
    return stf.MeterSetRates(tokens.qualified_name("a meter"), None, *_parse_rates(tokens))


def _parse_rates(tokens: Tokens) -> tuple[stf.StfRate, stf.StfRate]:
    return _parse_rate(tokens), _parse_rate(tokens)


def _parse_rate(tokens: Tokens) -> stf.StfRate:
    rate = tokens.real("a rate")
    tokens.take_sign(":")
    return stf.StfRate(rate, tokens.integer("a burst"))


_STATEMENTS: dict[str, Callable[[Tokens], stf.Statement]] = {
    "no_packet": lambda _: stf.NoPacket(),
    "add": _parse_add,
    "setdefault": _parse_set_default,
    "remove": _parse_remove,
    "wait": lambda _: stf.Wait(),
    "check_counter": _parse_check_counter,
    "mirroring_add": lambda t: stf.MirroringAdd(t.integer("a session"), t.integer("a port")),
    "mirroring_add_mc": lambda t: stf.MirroringAddMc(t.integer("a session"), t.integer("a group")),
    "mirroring_delete": lambda t: stf.MirroringDelete(t.integer("a session")),
    "mirroring_get": lambda t: stf.MirroringGet(t.integer("a session")),
    "mc_mgrp_create": lambda t: stf.McGroupCreate(t.integer("a group")),
    "mc_node_create": lambda t: stf.McNodeCreate(t.integer("a replication id"), t.integers("a port")),
    "mc_node_update": lambda t: stf.McNodeUpdate(t.integer("a node"), t.integers("a port")),
    "mc_node_associate": lambda t: stf.McNodeAssociate(t.integer("a group"), t.integer("a node")),
    "counter_read": lambda t: stf.CounterRead(t.qualified_name("a counter"), t.integer("an index")),
    "counter_write": lambda t: stf.CounterWrite(
        t.qualified_name("a counter"), t.integer("an index"), t.integer("packets"), t.integer("bytes")
    ),
    "register_read": lambda t: stf.StfRegisterRead(t.qualified_name("a register"), t.integer("an index")),
    "register_write": lambda t: stf.StfRegisterWrite(
        t.qualified_name("a register"), t.integer("an index"), t.integer("a value")
    ),
    "register_reset": lambda t: stf.RegisterReset(t.qualified_name("a register")),
    "meter_get_rates": lambda t: stf.MeterGetRates(t.qualified_name("a meter"), t.integer("an index")),
    "meter_set_rates": _parse_meter_set_rates,
    "meter_array_set_rates": _parse_meter_array_set_rates,
}
