"""Generated expressions: machine code on `iN` equals BMv2's integers without bound."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from softswitch import ir
from softswitch.compiled import CompiledPipeline
from softswitch.errors import UnsupportedConstruct
from softswitch.interpreter import InterpretedPipeline
from switch_harness.effort import examples

WIDTHS = (8, 32, 48, 64, 120, 512, 9, 7)
SIGNED = (8, 33, 64, 15)
FIELDS = tuple(ir.FieldType(f"f{i}", width, i >= len(WIDTHS)) for i, width in enumerate(WIDTHS + SIGNED))
TARGET = ir.FieldRef(1, len(FIELDS))
STANDARD = (
    ("ingress_port", 9),
    ("egress_spec", 9),
    ("egress_port", 9),
    ("instance_type", 32),
    ("packet_length", 32),
    ("enq_timestamp", 32),
    ("enq_qdepth", 19),
    ("deq_timedelta", 32),
    ("deq_qdepth", 19),
    ("ingress_global_timestamp", 48),
    ("egress_global_timestamp", 48),
    ("mcast_grp", 16),
    ("egress_rid", 16),
    ("priority", 3),
    ("checksum_error", 1),
    ("parser_error", 32),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep hundreds of small programs out of the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def program(expression: ir.Expression, target_width: int) -> ir.Program:
    """Parse one header, assign the expression to its last field, send it out of port 0."""
    pad = -(sum(f.width for f in FIELDS) + target_width) % 8
    data = ir.Header("data", (*FIELDS, ir.FieldType("target", target_width), ir.FieldType("pad", pad or 8)))
    standard = ir.Header("standard_metadata", tuple(ir.FieldType(*f) for f in STANDARD), metadata=True)
    headers = (standard, data)
    action = ir.Action("act", (), (ir.Assign(TARGET, expression),))
    table = ir.Table(
        "t", (), (0,), ir.Invocation(0, ()), True, (), 1, False, {0: None}, None, None, False
    )  # fmt: skip
    return ir.Program(
        headers=headers,
        stacks=(),
        errors={"NoError": 0, "PacketTooShort": 1, "StackOutOfBounds": 3},
        parser=(ir.ParserState("start", (ir.Extract(1, None),), (), ()),),
        start_state=0,
        actions=(action,),
        ingress=ir.Control("ingress", "t", {"t": table}),
        egress=ir.Control("egress", None, {}),
        deparser=(1,),
        field_index={
            (header.name, f.name): ir.FieldRef(h, i)
            for h, header in enumerate(headers)
            for i, f in enumerate(header.fields)
        },
    )


LEAVES = st.one_of(
    st.builds(ir.FieldRef, st.just(1), st.integers(0, len(FIELDS) - 1)),
    st.builds(
        ir.Constant, st.one_of(st.integers(0, 300), st.integers(0, 2**70), st.sampled_from([0, 1, 2**64 - 1]))
    ),
    st.just(ir.IsValid(1)),
)
ARITHMETIC = (ir.Op.ADD, ir.Op.SUB, ir.Op.MUL, ir.Op.AND, ir.Op.OR, ir.Op.XOR)
COMPARISONS = (ir.Op.EQ, ir.Op.NE, ir.Op.LT, ir.Op.GT, ir.Op.LE, ir.Op.GE, ir.Op.BOOL_AND, ir.Op.BOOL_OR)
AMOUNTS = st.one_of(
    st.builds(ir.Constant, st.integers(0, 130)),
    st.builds(lambda f: ir.Binary(ir.Op.AND, f, ir.Constant(0xFF)), LEAVES),
    st.builds(  # may be negative
        lambda f, n: ir.Binary(ir.Op.SUB, ir.Binary(ir.Op.AND, f, ir.Constant(0xFF)), ir.Constant(n)),
        LEAVES,
        st.integers(0, 300),
    ),
)


NATURAL = st.builds(
    lambda e, n: ir.Binary(ir.Op.AND, e, ir.Constant((1 << n) - 1)), LEAVES, st.integers(1, 130)
)


def grow(inner: st.SearchStrategy[ir.Expression]) -> st.SearchStrategy[ir.Expression]:
    return st.one_of(
        st.builds(ir.Binary, st.sampled_from(ARITHMETIC + COMPARISONS), inner, inner),
        st.builds(ir.Binary, st.sampled_from((ir.Op.SHL, ir.Op.SHR)), inner, AMOUNTS),
        st.builds(ir.Unary, st.sampled_from((ir.Op.COMPLEMENT, ir.Op.NOT)), inner),
        st.builds(ir.Ternary, inner, inner, inner),
        st.builds(ir.Cast, st.sampled_from(ir.Fit), inner, st.integers(1, 130)),
        st.builds(ir.Binary, st.sampled_from((ir.Op.DIV, ir.Op.MOD)), NATURAL, NATURAL),
        st.builds(
            lambda e, n: ir.Binary(ir.Op.AND, e, ir.Constant((1 << n) - 1)), inner, st.integers(1, 130)
        ),
    )


EXPRESSIONS = st.recursive(LEAVES, grow, max_leaves=8)


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(expression=EXPRESSIONS, width=st.sampled_from((1, 8, 16, 33, 64, 128)), data=st.data())
def test_compiled_arithmetic_is_exact(expression: ir.Expression, width: int, data: st.DataObject) -> None:
    declared = program(expression, width)
    try:
        compiled = CompiledPipeline(declared)
    except UnsupportedConstruct:
        assume(False)
    oracle = InterpretedPipeline(declared)
    size = declared.headers[1].bits // 8
    for frame in data.draw(st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=5)):
        assert compiled.process(1, frame, 0, 0) == oracle.process(1, frame, 0, 0)


def test_a_negative_number_shifted_left_by_0_is_within_its_bounds() -> None:
    minus_two = ir.Unary(ir.Op.COMPLEMENT, ir.Constant(1))
    shifted = ir.Binary(ir.Op.SHL, minus_two, ir.Binary(ir.Op.AND, ir.FieldRef(1, 0), ir.Constant(7)))
    difference = ir.Binary(ir.Op.SUB, ir.FieldRef(1, len(WIDTHS)), shifted)
    declared = program(ir.Binary(ir.Op.LT, difference, ir.Constant(0)), 8)
    frame = bytearray(declared.headers[1].bits // 8)
    frame[sum(WIDTHS) // 8] = 0x80  # the first signed field is -128; all others, and so the shift, are 0
    compiled, oracle = CompiledPipeline(declared), InterpretedPipeline(declared)
    assert compiled.process(1, bytes(frame), 0, 0) == oracle.process(1, bytes(frame), 0, 0)


@pytest.mark.parametrize("op", [ir.Op.SHL, ir.Op.SHR])
@pytest.mark.parametrize(("number", "minuend"), [(8, 256), (-8, -4)])
def test_a_shift_by_a_negative_amount_is_within_its_bounds(op: ir.Op, number: int, minuend: int) -> None:
    # A bound that excluded the result would make the difference too narrow, or unsigned.
    shifted = ir.Binary(op, ir.Constant(number), ir.Constant(-1))
    difference = ir.Binary(ir.Op.SUB, ir.Constant(minuend), shifted)
    declared = program(ir.Binary(ir.Op.EQ, difference, ir.Constant(minuend)), 8)
    frame = bytes(declared.headers[1].bits // 8)
    compiled, oracle = CompiledPipeline(declared), InterpretedPipeline(declared)
    assert compiled.process(1, frame, 0, 0) == oracle.process(1, frame, 0, 0)


def test_an_expression_without_bound_is_refused_by_name() -> None:
    huge = ir.Binary(ir.Op.SHL, ir.Constant(1), ir.FieldRef(1, 1))
    try:
        CompiledPipeline(program(ir.Binary(ir.Op.GT, huge, ir.Constant(5)), 8))
    except UnsupportedConstruct as error:
        assert (
            str(error)
            == "an expression of more than 4096 bits (operator `<<`) is not supported by softswitch"
        )
    else:
        raise AssertionError("not refused")
