"""Coverage that guides the search: the edges of the code that an execution takes, and how often."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType
from typing import Any, TypeVar

from tools.fuzz.target import ROOT

T = TypeVar("T")
Trace = Callable[[FrameType, str, Any], Any]
_LINE_BITS = 20
_COUNT_BITS = 3
"""Counts are distinguished as 1, 2-3, 4-7, ... and 64 and more."""


class Edges:
    """Pairs of lines of some sources that were run one after the other, in this thread."""

    def __init__(self, sources: Sequence[str]) -> None:
        self._sources = tuple(str(ROOT / source) for source in sources)
        # Address of a code object -> the object, and its number, or 0 if the code is not traced. Addresses
        # are the keys because hashing code is slow; storing the object prevents that its address is reused.
        self._code_numbers: dict[int, tuple[CodeType, int]] = {}
        self._counts: dict[int, int] = {}

    def record(self, run: Callable[[], T]) -> tuple[T, frozenset[int]]:
        """Return the result of a call, and each edge that it took with the magnitude of its count."""
        self._counts = {}
        previous_trace = sys.gettrace()
        sys.settrace(self._enter)
        try:
            result = run()
        finally:
            sys.settrace(previous_trace)
        max_magnitude = (1 << _COUNT_BITS) - 1
        return result, frozenset(
            edge << _COUNT_BITS | min(count.bit_length(), max_magnitude)
            for edge, count in self._counts.items()
        )

    @staticmethod
    def without_counts(features: Iterable[int]) -> set[int]:
        return {feature >> _COUNT_BITS for feature in features}

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Trace | None:
        code = frame.f_code
        code_and_number = self._code_numbers.get(id(code))
        if code_and_number is None:
            is_traced = code.co_filename.startswith(self._sources)
            code_and_number = self._code_numbers[id(code)] = (
                code,
                len(self._code_numbers) + 1 if is_traced else 0,
            )
        return self._trace_lines(code_and_number[1], frame.f_lineno) if code_and_number[1] else None

    def _trace_lines(self, number: int, line: int) -> Trace:
        counts, base = self._counts, number << 2 * _LINE_BITS

        def trace(frame: FrameType, event: str, arg: Any) -> Trace:
            nonlocal line
            if event == "line":
                edge = base | line << _LINE_BITS | frame.f_lineno
                counts[edge] = counts.get(edge, 0) + 1
                line = frame.f_lineno
            return trace

        return trace
