"""Comparison of expected frames with a switch's outputs, by the rules of p4c's BMv2 runner.

On every port that a file names, in a packet or an expectation, exactly the expected frames must leave, in
this order; other ports may send anything. An expectation that ends with `$` allows no further bytes;
otherwise the bytes after the expected ones are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from softswitch.conformance.errors import Mismatch
from softswitch.conformance.statements import Expect, NoPacket, NumberedStatement, StfPacket
from softswitch.pipeline import Output

MAX_PRINTED_DIGITS = 512


def check_outputs(vectors: Iterable[NumberedStatement], outputs: Sequence[Output]) -> None:
    expected: dict[int, list[tuple[int, Expect]]] = {}
    no_packet_line = None
    for number, statement in vectors:
        if isinstance(statement, StfPacket):
            expected.setdefault(statement.port, [])
        elif isinstance(statement, Expect):
            expected.setdefault(statement.port, []).append((number, statement))
        elif isinstance(statement, NoPacket):
            no_packet_line = number
    if no_packet_line is not None and outputs:
        port, frame = outputs[0]
        raise Mismatch(
            f"line {no_packet_line}: expected no packet, got on port {port} {_truncate(frame.hex())}"
        )
    for port, port_expectations in sorted(expected.items()):
        _check_port(port, port_expectations, [output.frame for output in outputs if output.port == port])


def _check_port(port: int, expectations: list[tuple[int, Expect]], frames: list[bytes]) -> None:
    for index, (expected, frame) in enumerate(zip_longest(expectations, frames), start=1):
        if expected is None:
            problem = f"unexpected packet {_truncate(frame.hex())}"
        elif frame is None:
            problem = f"missing packet {_truncate(expected[1].data or 'of any content')}"
        else:
            problem = _difference(expected[1], frame.hex())
        if problem:
            location = f"line {expected[0]}: " if expected else ""
            counts = f"{len(expectations)} expected, {len(frames)} came"
            raise Mismatch(f"{location}port {port}, packet {index} ({counts}): {problem}")


def _difference(expected: Expect, digits: str) -> str:
    if expected.data is None:
        return ""
    pattern = expected.data
    pairs = enumerate(zip(pattern, digits, strict=False))
    position = next(
        (index for index, (expected_digit, digit) in pairs if expected_digit not in ("*", digit)), None
    )
    if position is not None:
        reason = f"differs at byte {position // 2}"
    elif len(digits) < len(pattern):
        reason = "too short"
    elif expected.exact and len(digits) > len(pattern):
        reason = "too long"
    else:
        return ""
    return f"{reason}: expected {_truncate(pattern)}{'$' if expected.exact else ''}, got {_truncate(digits)}"


def _truncate(digits: str) -> str:
    return digits if len(digits) <= MAX_PRINTED_DIGITS else f"{digits[:MAX_PRINTED_DIGITS]}…"
