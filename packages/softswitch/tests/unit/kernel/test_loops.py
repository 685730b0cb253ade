"""Loops in actions pass the kernel's verifier, whatever their shape, and count what they should.

The verifier explores a loop whose variable it knows value by value, and gives up after a million
instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from softswitch import ir
from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Binary, Constant, FieldRef, Jump, JumpIfZero, Op, Statement
from softswitch.v1model import Standard
from switch_harness.constructs import compiled
from switch_harness.kernel import OnLoopback

BASE = compiled("l2")
ETHERNET = 14
HEADER = len(BASE.headers)  # of the loops: its fields are their variables, their bound and a sum
VARIABLES = [FieldRef(HEADER, number) for number in range(3)]
BOUND, SUM = FieldRef(HEADER, 3), FieldRef(HEADER, 4)
FIELDS = tuple(ir.FieldType(*f) for f in (("i", 8), ("j", 8), ("k", 8), ("bound", 8), ("sum", 32)))


def assign(target: FieldRef, op: Op, value: ir.Expression, width: int) -> ir.Assign:
    """Return `target = target op value`, wrapped as p4c wraps it."""
    return ir.Assign(target, Binary(Op.AND, Binary(op, target, value), Constant((1 << width) - 1)))


def loop(variable: FieldRef, body: list[Statement], start: int) -> list[Statement]:
    """Return `for (variable = 0; variable < BOUND; variable++) body`, from the position `start` on."""
    head = start + 1
    step = assign(variable, Op.ADD, Constant(1), 8)
    end = head + 1 + len(body) + 3
    condition = JumpIfZero(Binary(Op.LT, variable, BOUND), end)
    return [ir.Assign(variable, Constant(0)), condition, *body, step, ir.CountLoop(0), Jump(head)]


ADD_ONE = assign(SUM, Op.ADD, Constant(1), 32)


def nested(depth: int) -> list[Statement]:
    """Return `depth` loops in each other, which count."""

    def build(number: int, start: int) -> list[Statement]:
        if number == depth:
            return [ADD_ONE]
        return loop(VARIABLES[number], build(number + 1, start + 2), start)

    return build(0, 0)


def with_break() -> list[Statement]:
    """Return a loop that ends at 5, as p4c prints `if (i == 5) break`."""
    variable = VARIABLES[0]
    body: list[Statement] = [
        JumpIfZero(Binary(Op.EQ, variable, Constant(5)), 4), Jump(8), ADD_ONE
    ]  # fmt: skip
    return loop(variable, body, 0)


def down() -> list[Statement]:
    """Return `for (i = 255; i > 0; i--)`, which sums up i."""
    variable = VARIABLES[0]
    return [
        ir.Assign(variable, Constant(255)),
        JumpIfZero(Binary(Op.GT, variable, Constant(0)), 6),
        assign(SUM, Op.ADD, variable, 32),
        assign(variable, Op.SUB, Constant(1), 8),
        ir.CountLoop(0),
        Jump(1),
    ]


SHAPES: dict[str, tuple[list[Statement], Callable[[int], int]]] = {
    "one": (nested(1), lambda bound: bound),
    "two": (nested(2), lambda bound: bound**2),
    "three": (nested(3), lambda bound: bound**3),
    "break": (with_break(), lambda bound: min(bound, 5)),
    "down": (down(), lambda _: 255 * 128),
}


def program(body: list[Statement]) -> ir.Program:
    """Return a program that runs the body once, between the addresses and the payload of a frame."""
    port = BASE.field_index["standard_metadata", Standard.EGRESS_SPEC.value]
    action = ir.Action("loops", (), (*body, ir.Assign(port, Constant(3))))
    table = ir.Table(
        "t", (), (0,), ir.Invocation(0, ()), True, (), 1, False, {0: None}, None, None, False
    )  # fmt: skip
    ethernet = next(n for n, header in enumerate(BASE.headers) if not header.metadata)
    extracts = (ir.Extract(ethernet, None), ir.Extract(HEADER, None))
    return replace(
        BASE,
        headers=(*BASE.headers, ir.Header("loops", FIELDS)),
        parser=(ir.ParserState("start", extracts, (), ()),),
        start_state=0,
        actions=(action,),
        ingress=ir.Control("ingress", "t", {"t": table}),
        egress=ir.Control("egress", None, {}),
        deparser=(ethernet, HEADER),
        messages=("endless",),
    )


@pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline, OnLoopback])
@pytest.mark.parametrize("shape", SHAPES)
def test_loops_run_as_often_as_their_bounds_say(
    shape: str, make: Callable[[ir.Program], InterpretedPipeline]
) -> None:
    body, expected = SHAPES[shape]
    pipeline = make(program(body))
    for bound in (0, 1, 4, 6, 12):
        frame = bytes(12) + b"\x08\x99" + bytes([9, 9, 9, bound]) + bytes(4) + bytes(46)
        [output] = pipeline.process(1, frame, 0, 0)
        counted = output.frame[ETHERNET + 4 : ETHERNET + 8]
        assert (output.port, int.from_bytes(counted, "big")) == (3, expected(bound))
