"""The interpreter's arithmetic against the rules of P4_16 §8, written down anew, and its registers."""

from __future__ import annotations

from random import Random

import pytest

from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from switch_harness.constructs import CONSTRUCTS, compiled

PROGRAM = compiled("arithmetic")
CONSTRUCT = CONSTRUCTS["arithmetic"]


def header(program: Program, name: str) -> list[tuple[str, int]]:
    return next([(f.name, f.width) for f in h.fields] for h in program.headers if h.name == name)


def split(bits: bytes, fields: list[tuple[str, int]]) -> dict[str, int]:
    left, found = sum(width for _, width in fields), {}
    for name, width in fields:
        left -= width
        found[name] = int.from_bytes(bits, "big") >> left & ((1 << width) - 1)
    return found


def signed(value: int, width: int) -> int:
    value %= 1 << width
    return value - (1 << width) if value >> (width - 1) else value


def expected(g: dict[str, int]) -> dict[str, int]:
    """Return the results that do not depend on state; negative numbers are reduced modulo 2^width later."""
    a, b, x, y, v, w = (g[name] for name in "abxyvw")
    s, t = signed(g["s"], 8), signed(g["t"], 8)
    wide = signed(signed(g["wide_signed"], 33) + s, 33)
    conditions = [
        a < b, s < t, v >= w, (a == b) == (s == t),
        signed(g["wide_signed"], 33) > 0 and x != y, a == b, signed(a, 8) <= s or g["three"] != 5,
    ]  # fmt: skip
    big = (x * y + (g["odd"] << 20)) % 2**64
    return {
        "sum": a + b,
        "difference": a - b,
        "product": a * b,
        "saturated_sum": min(a + b, 255),
        "saturated_difference": max(a - b, 0),
        "signed_sum": s + t,
        "signed_difference": s - t,
        "signed_product": s * t,
        "saturated_signed_sum": min(max(s + t, -128), 127),
        "saturated_signed_difference": min(max(s - t, -128), 127),
        "quotient": a // 16,
        "left": a << (b % 16),
        "right": a >> (b % 16),
        "arithmetic_left": s << (b % 16),
        "arithmetic_right": s >> (b % 16),
        "logic": (a & b) ^ (~a | 0x0F),
        "flags": sum(condition << bit for bit, condition in enumerate(conditions)),
        "joined": b << 8 | a,
        "sliced": (g["odd"] & 31) << 8 | (x >> 38 & 255),
        "negated": -g["three"],
        "widened": -wide if s < 0 else wide,
        "narrowed": x,
        "big": big & ~0xFF00 | a << 8,
        "huge_sum": v + w,
        "huge_product": v * w,
        "huge_shift": v << (x & 255) << (x >> 8 & 255) | w >> (y & 255) >> (y >> 8 & 255),
        "huge_logic": ~v ^ (w & (v - 1)),
        "chosen": a if s > t else b,
    }


@pytest.mark.parametrize("seed", range(40))
def test_every_operator_follows_the_p4_16_rules(seed: int) -> None:
    pipeline = InterpretedPipeline(PROGRAM)
    given, result = header(PROGRAM, "given"), header(PROGRAM, "result")
    size = sum(width for _, width in given) // 8
    frame = CONSTRUCT.draw(Random(seed))
    [output] = pipeline.process(1, frame, 0, 0)
    got = split(output.frame[size : len(output.frame) - len(frame) + size], result)
    widths = dict(result)
    for name, value in expected(split(frame[:size], given)).items():
        assert got[name] == value % (1 << widths[name]), name


def packet(**values: int) -> bytes:
    bits = 0
    for name, width in header(PROGRAM, "given"):
        bits = bits << width | values.get(name, 0)
    return bits.to_bytes(sum(width for _, width in header(PROGRAM, "given")) // 8, "big")


def test_registers_wrap_and_keep_bit_patterns() -> None:
    pipeline = InterpretedPipeline(PROGRAM)
    pipeline.cells.write_register("Calculate.sums", 2, 2**64 - 1)
    pipeline.process(1, packet(three=2, x=5), 0, 0)
    assert pipeline.cells.read_register("Calculate.sums", 1, 4) == [0, 4, 0]
    # `signs` keeps the largest, where BMv2 reads 0x80 as 128, also into an int<8>: not 3, nor -1 over 3
    for before in (0x80, 3):
        pipeline.cells.write_register("Calculate.signs", 1, before)
        for value in (3, 0xFF):
            pipeline.process(1, packet(three=1, s=value), 0, 0)
            assert pipeline.cells.read_register("Calculate.signs", 0, 2) == [0, before]


def test_a_key_of_a_signed_field_is_its_bit_pattern() -> None:
    pipeline = InterpretedPipeline(PROGRAM)
    CONSTRUCT.prepare(pipeline)
    for value, divisor in ((0xFF, 1), (0x7F, None)):
        [output] = pipeline.process(1, packet(s=value, b=9, t=0x7F), 0, 0)
        got = split(output.frame[len(packet()) :], header(PROGRAM, "result"))["remainder"]
        assert got == (0 if divisor is None else (divisor - 9) % 256)
