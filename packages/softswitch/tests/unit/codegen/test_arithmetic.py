"""Generated expressions: machine code on `iN` equals BMv2's integers without bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from softswitch import ir
from softswitch.codegen.pipeline import build_module
from softswitch.compiled import CompiledPipeline
from softswitch.errors import UnsupportedConstruct
from softswitch.interpreter import InterpretedPipeline
from softswitch.memory.layout import make_layout
from switch_harness.effort import examples

WIDTHS = (8, 32, 48, 64, 120, 512, 9, 7)
SIGNED = (8, 33, 64, 15)
FIELDS = tuple(ir.FieldType(f"f{i}", width, i >= len(WIDTHS)) for i, width in enumerate(WIDTHS + SIGNED))
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


def program(
    expression: ir.Expression, target_width: int, fields: tuple[ir.FieldType, ...] = FIELDS
) -> ir.Program:
    """Parse one header, assign the expression to its last field, send it out of port 0."""
    pad = -(sum(f.width for f in fields) + target_width) % 8
    data = ir.Header("data", (*fields, ir.FieldType("target", target_width), ir.FieldType("pad", pad or 8)))
    standard = ir.Header("standard_metadata", tuple(ir.FieldType(*f) for f in STANDARD), metadata=True)
    headers = (standard, data)
    action = ir.Action("act", (), (ir.Assign(ir.FieldRef(1, len(fields)), expression),))
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


UNARY_OPS = (ir.Op.COMPLEMENT, ir.Op.NOT)
LEAVES_OF_8_BITS = (ir.FieldType("unsigned", 8), ir.FieldType("signed", 8, True))
UNSIGNED_LEAF, SIGNED_LEAF = ir.FieldRef(1, 0), ir.FieldRef(1, 1)
Nest = Callable[[ir.Expression, ir.Expression], ir.Expression]


def nests() -> dict[str, Nest]:
    """Return, for each operator and operand, a function that puts an expression there; others are a leaf."""
    found: dict[str, Nest] = {
        "x ? leaf : leaf": lambda x, leaf: ir.Ternary(x, leaf, leaf),
        "leaf ? x : leaf": lambda x, leaf: ir.Ternary(leaf, x, leaf),
        "leaf ? leaf : x": lambda x, leaf: ir.Ternary(leaf, leaf, x),
        "stack[x]": lambda x, _: ir.ElementField(ir.Element(0, x), 0),
    }
    for op in ir.Op:
        found |= unary_nest(op) if op in UNARY_OPS else binary_nests(op)
    for fit in ir.Fit:
        found |= cast_nest(fit)
    return found


def unary_nest(op: ir.Op) -> dict[str, Nest]:
    return {op.value: lambda x, _: ir.Unary(op, x)}


def binary_nests(op: ir.Op) -> dict[str, Nest]:
    return {
        f"x {op.value} leaf": lambda x, leaf: ir.Binary(op, x, small(op, leaf)),
        f"leaf {op.value} x": lambda x, leaf: ir.Binary(op, leaf, small(op, x)),
    }


def cast_nest(fit: ir.Fit) -> dict[str, Nest]:
    return {fit.value: lambda x, _: ir.Cast(fit, ir.Unary(ir.Op.COMPLEMENT, x), 8)}


NESTS = nests()


def small(op: ir.Op, operand: ir.Expression) -> ir.Expression:
    """Bound the amount of a left shift, whose result would else be too wide."""
    return ir.Binary(ir.Op.AND, operand, ir.Constant(3)) if op is ir.Op.SHL else operand


@pytest.mark.parametrize("leaf", [UNSIGNED_LEAF, SIGNED_LEAF], ids=["unsigned", "signed"])
@pytest.mark.parametrize("nest", NESTS)
def test_machine_code_grows_linearly_with_the_depth_of_nested_expressions(
    nest: str, leaf: ir.FieldRef
) -> None:
    sizes = []
    for depth in (4, 8, 12):
        expression: ir.Expression = leaf
        for _ in range(depth):
            expression = NESTS[nest](expression, leaf)
        declared = with_stack(program(expression, 8, LEAVES_OF_8_BITS))
        if leaf == SIGNED_LEAF and {"/", "%"} & set(nest.split()):
            with pytest.raises(UnsupportedConstruct, match="may be negative"):
                build_module(declared, make_layout(declared))
            return
        module, _ = build_module(declared, make_layout(declared))
        sizes.append(sum(len(block.instructions) for f in module.functions for block in f.blocks))
    first, second = sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert second <= first + 4, sizes


def with_stack(declared: ir.Program) -> ir.Program:
    """Add a stack of two headers of one signed field of 8 bits."""
    element = (ir.FieldType("index", 8, True),)
    headers = (*declared.headers, ir.Header("s[0]", element), ir.Header("s[1]", element))
    return replace(declared, headers=headers, stacks=(ir.Stack("s", (2, 3), 0),))


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


@pytest.mark.parametrize("amount", [0, 1, 63, 64, 1 << 40])
def test_a_shift_by_an_amount_of_64_bits_is_compiled_where_a_mask_limits_the_result(amount: int) -> None:
    f48, f64 = ir.FieldRef(1, WIDTHS.index(48)), ir.FieldRef(1, WIDTHS.index(64))
    shifted = ir.Binary(ir.Op.AND, ir.Binary(ir.Op.SHL, f48, f64), ir.Constant((1 << 48) - 1))
    declared = program(ir.Binary(ir.Op.SUB, shifted, ir.Constant(1)), 48)
    value = {f48.field: 0x80_0000_0001, f64.field: amount}
    bits = "".join(f"{value.get(i, 0):0{each.width}b}" for i, each in enumerate(declared.headers[1].fields))
    frame = int(bits, 2).to_bytes(len(bits) // 8, "big")
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
