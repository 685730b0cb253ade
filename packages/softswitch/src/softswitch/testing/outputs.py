"""Comparison of the frames that leave a switch with those that a test expects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from softswitch.errors import SwitchError
from softswitch.testing.mask import FrameLike, Mask, Pattern

ExpectedFrame: TypeAlias = "FrameLike | Pattern"
ExpectedOutput: TypeAlias = "tuple[int, ExpectedFrame] | list[int | ExpectedFrame]"
"""A port and the frame that leaves it, in a tuple or a list."""
_MAX_SHOWN_CHARACTERS = 60  # of a value in an error


def read_expected(outputs: Sequence[ExpectedOutput]) -> list[tuple[int, Pattern]]:
    """Return ports and patterns of expected outputs; raises SwitchError for what is no pair of both."""
    expected: list[tuple[int, Pattern]] = []
    for output in outputs:
        match output:
            case [int() as port, frame] if not isinstance(frame, int):
                expected.append((port, frame if isinstance(frame, Pattern) else Mask(frame)))
            case _:
                shown = repr(output)[:_MAX_SHOWN_CHARACTERS]
                raise SwitchError(f"expected output: expected a port and a frame, got {shown}")
    return expected


def are_alike(outputs: Sequence[tuple[int, bytes]], expected: Sequence[tuple[int, Pattern]]) -> bool:
    """Return whether the outputs are the expected ones, in any order."""
    # A frame may match several masks: augmenting paths find a complete assignment if there is one.
    output_of: dict[int, int] = {}  # by the expected output's position

    def assign(output: int, tried: set[int]) -> bool:
        port, frame = outputs[output]
        for position, (expected_port, pattern) in enumerate(expected):
            if position in tried or port != expected_port or not pattern.pkt_match(frame):
                continue
            tried.add(position)
            if position not in output_of or assign(output_of[position], tried):
                output_of[position] = output
                return True
        return False

    return len(outputs) == len(expected) and all(assign(output, set()) for output in range(len(outputs)))


def describe(outputs: Sequence[tuple[int, bytes | Pattern]]) -> str:
    return " and ".join(f"{_describe_frame(frame)} from port {port}" for port, frame in outputs) or "no frame"


def _describe_frame(frame: bytes | Pattern) -> str:
    return frame.hex() if isinstance(frame, (bytes, Mask)) else f"{frame!r}"
