"""Arguments that no program of p4c's has: negative, from 2^31, from 2^64. BMv2 limits each in its own way.

One program runs each statement that takes a length, an index or a size. The packet has the argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch import ir
from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.pipeline import MeterConfig, Pipeline, Replica
from softswitch.v1model import CoreError, Standard
from switch_harness.constructs import compiled

BASE = compiled("registers")
GIVEN, LIST, FIRST = (len(BASE.headers) + i for i in range(3))  # headers
OP, NEGATIVE, HIGH, LOW, RESULT, ERROR, OVERFLOW = (ir.FieldRef(GIVEN, i) for i in range(7))
STACK, MAX_LIST_BYTES, CELLS = len(BASE.stacks), 64, 4
MAGNITUDE = ir.Binary(ir.Op.ADD, ir.Binary(ir.Op.MUL, HIGH, ir.Constant(1 << 64)), LOW)
VALUE = ir.Ternary(NEGATIVE, ir.Binary(ir.Op.SUB, ir.Constant(0), MAGNITUDE), MAGNITUDE)
INT = ir.Cast(ir.Fit.SATURATE_SIGNED, VALUE, 32)
EXTRACT, ADVANCE, VERIFY = range(1, 4)
ONE, MAX = ir.Constant(1), (1 << 128) - 1


def _element(index: ir.Expression) -> ir.ElementField:
    return ir.ElementField(ir.Element(STACK, index), 0)


STATEMENTS: dict[str, ir.Statement] = {
    "truncate": ir.Truncate(VALUE),
    "count": ir.Count(0, VALUE),
    "meter": ir.ExecuteMeter(0, VALUE, RESULT),
    "register read": ir.RegisterRead(RESULT, 0, VALUE),
    "register write": ir.RegisterWrite(0, VALUE, ir.Constant(7)),
    "register value": ir.RegisterWrite(0, ONE, VALUE),
    "hash base": ir.Hash(RESULT, VALUE, 0, ir.Constant(100)),
    "hash size": ir.Hash(RESULT, ir.Constant(5), 0, VALUE),
    "random": ir.Random(RESULT, VALUE, VALUE),
    "random low": ir.Random(RESULT, VALUE, ONE),
    "clone": ir.Clone(VALUE, 0),
    "element write": ir.Assign(_element(VALUE), ir.Constant(9)),
    "element read": ir.Assign(RESULT, _element(VALUE)),
    "shift right": ir.Assign(RESULT, ir.Binary(ir.Op.SHR, VALUE, VALUE)),
    "log": ir.LogMessage(0, (VALUE,)),
    "port": ir.Assign(BASE.standard_field(Standard.EGRESS_SPEC), VALUE),
    "group": ir.Assign(BASE.standard_field(Standard.MCAST_GRP), VALUE),
    **{
        f"cast {fit.value} {width}": ir.Assign(RESULT, ir.Cast(fit, VALUE, width))
        for fit in ir.Fit
        for width in (1, 32, 64)
    },
    "compare": ir.Assign(RESULT, ir.Binary(ir.Op.LT, VALUE, ir.Constant(-(1 << 63)))),
}
OPS = {name: number for number, name in enumerate(STATEMENTS, 10)}
PARSER_OPS = {"extract": EXTRACT, "advance": ADVANCE, "verify": VERIFY}


def _program() -> ir.Program:
    fields = {"op": 8, "negative": 8, "high": 64, "low": 64, "result": 64, "error": 32, "overflow": 8}
    headers = (
        ir.Header("given", tuple(ir.FieldType(name, width) for name, width in fields.items())),
        ir.Header("list", (ir.FieldType("data", 8 * MAX_LIST_BYTES, varbit=True),)),
        *(ir.Header(f"element{i}", (ir.FieldType("value", 8),)) for i in range(2)),
    )
    operations: dict[int, ir.Extract | ir.Advance | ir.Verify] = {
        EXTRACT: ir.Extract(LIST, None, INT, MAX_LIST_BYTES),
        ADVANCE: ir.Advance(VALUE),
        VERIFY: ir.Verify(ir.Constant(0), VALUE),
    }
    states = [ir.ParserState(f"s{op}", (each,), (), ()) for op, each in operations.items()]
    start_operations = (ir.Extract(GIVEN, None), ir.Extract(None, STACK), ir.Extract(None, STACK))
    start = ir.ParserState(
        "start", start_operations, (OP,), tuple(ir.Case(op, 0xFF, i) for i, op in enumerate(operations, 1))
    )
    nothing = ir.Assign(OVERFLOW, ir.Constant(0))
    body: tuple[ir.Statement, ...] = (
        ir.Assign(BASE.standard_field(Standard.EGRESS_SPEC), ONE),
        ir.Assign(ERROR, BASE.standard_field(Standard.PARSER_ERROR)),
        *(
            ir.If(ir.Binary(ir.Op.EQ, OP, ir.Constant(OPS[name])), statement, nothing)
            for name, statement in STATEMENTS.items()
        ),
    )
    table = ir.Table(
        name="all", key=(), actions=(0,), default=ir.Invocation(0, ()), default_is_const=True,
        const_entries=(), size=1, has_counter=False, next_nodes={0: None}, next_on_hit=None,
        next_on_miss=None, branches_on_hit=False,
    )  # fmt: skip
    return replace(
        BASE,
        headers=(*BASE.headers, *headers),
        stacks=(*BASE.stacks, ir.Stack("elements", (FIRST, FIRST + 1), len(BASE.stacks))),
        parser=(start, *states),
        start_state=0,
        verify=(),
        actions=(ir.Action("do", (), body, ("",) * len(body)),),
        ingress=ir.Control("ingress", "all", {"all": table}),
        egress=ir.Control("egress", None, {}),
        update=(),
        deparser_body=(),
        deparser=(GIVEN, LIST, FIRST, FIRST + 1),
        counters=(ir.Counter("counter", CELLS),),
        meters=(ir.Meter("meter", CELLS, counts_bytes=False),),
        registers=(ir.Register("register", CELLS, 72),),
        calculations=(ir.Calculation("hash", "crc32", (HIGH, LOW)),),
        field_lists=(ir.FieldList(0, "none", ()),),
        digests=(),
        messages=("value {}",),
    )


def _pipelines() -> Iterator[Pipeline]:
    program = _program()
    for pipeline in (InterpretedPipeline(program), CompiledPipeline(program)):
        pipeline.replication.write_multicast_group(1, [Replica(5)])
        pipeline.replication.write_clone_session(1, [Replica(6)])
        pipeline.cells.write_meter("meter", 1, MeterConfig(0.0, 1, 0.0, 1))
        pipeline.cells.fill_register("register", 0x1234)
        yield pipeline


@pytest.fixture(scope="module")
def pipelines() -> list[Pipeline]:
    return list(_pipelines())


def _frame(op: int, value: int) -> bytes:
    head = bytes([op, value < 0]) + abs(value).to_bytes(16, "big") + bytes(8 + 4 + 1)
    return head + b"\x11\x22" + bytes(range(100))


def _run(pipeline: Pipeline, op: int, value: int) -> object:
    outputs = pipeline.process(1, _frame(op, value), 0, 0)
    cells = pipeline.cells
    return (
        outputs,
        cells.read_counter("counter", 0, CELLS),
        cells.read_register("register", 0, CELLS),
        pipeline.take_notices(),
    )


_BOUNDS = [1 << bits for bits in (0, 3, 5, 6, 9, 12, 15, 16, 31, 32, 34, 35, 63, 64, 67, 96, 127)]
EXTREMES = sorted(
    {
        sign * (bound + step)
        for bound in (0, *_BOUNDS, MAX - 7)
        for step in (-8, -1, 0, 1, 7, 8)
        for sign in (1, -1)
        if 0 <= bound + step <= MAX
    }
)


@pytest.mark.parametrize("name", [*PARSER_OPS, *OPS])
def test_compiled_code_takes_each_extreme_argument_as_the_interpreter(
    name: str, pipelines: list[Pipeline]
) -> None:
    op = {**PARSER_OPS, **OPS}[name]
    for value in EXTREMES:
        interpreted, code = (_run(pipeline, op, value) for pipeline in pipelines)
        assert code == interpreted, value


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([*PARSER_OPS.values(), *OPS.values()]),
    st.integers(-MAX, MAX),
    st.integers(0, 127),
)
def test_compiled_code_takes_any_argument_as_the_interpreter(
    pipelines: list[Pipeline], op: int, value: int, shift: int
) -> None:
    interpreted, code = (_run(pipeline, op, value >> shift) for pipeline in pipelines)
    assert code == interpreted


# What BMv2 does: it clamps the length of a varbit field to an `int`, and takes other arguments modulo 2^64.
@pytest.mark.parametrize(
    ("op", "value", "error"),
    [
        (EXTRACT, 16, CoreError.NO_ERROR),
        (EXTRACT, 8 * MAX_LIST_BYTES + 8, CoreError.HEADER_TOO_SHORT),
        (EXTRACT, -8, CoreError.PACKET_TOO_SHORT),
        (EXTRACT, -3, CoreError.PARSER_INVALID_ARGUMENT),
        (EXTRACT, -(1 << 40) - 3, CoreError.PACKET_TOO_SHORT),  # clamped to -2^31, whole bytes
        (EXTRACT, 1 << 40, CoreError.PARSER_INVALID_ARGUMENT),  # clamped to 2^31 - 1
        (ADVANCE, 1 << 35, CoreError.PACKET_TOO_SHORT),
        (ADVANCE, 1 << 64, CoreError.NO_ERROR),
        (ADVANCE, (1 << 64) + 16, CoreError.NO_ERROR),
        (ADVANCE, -8, CoreError.PACKET_TOO_SHORT),
    ],
)
def test_lengths_in_the_parser_are_limited_as_in_bmv2(
    op: int, value: int, error: CoreError, pipelines: list[Pipeline]
) -> None:
    for pipeline in pipelines:
        (output,) = pipeline.process(1, _frame(op, value), 0, 0)
        assert int.from_bytes(output.frame[26:30], "big") == BASE.errors[error.value]


@pytest.mark.parametrize(
    ("length", "sent"),
    [
        (3, 3),
        (1 << 64, 0),
        ((1 << 64) + 5, 5),
        (1 << 63, None),
        ((1 << 128) - 1, None),
        ((1 << 32) + 2, None),
    ],
)
def test_a_length_of_truncate_is_taken_modulo_2_64(
    length: int, sent: int | None, pipelines: list[Pipeline]
) -> None:
    frame = _frame(OPS["truncate"], length)
    for pipeline in pipelines:
        outputs = pipeline.process(1, frame, 0, 0)
        assert [len(output.frame) for output in outputs] == [len(frame) if sent is None else sent]
