"""The switches and the module of a submission, which the tests of an exercise use."""

from __future__ import annotations

import re
from typing import Any

from hotline_course.errors import SubmissionError
from hotline_course.frames import describe_outputs
from hotline_course.in_process import SubmissionInProcess
from hotline_course.process import SubmissionProcess
from hotline_course.text import printable

_MAX_OUTPUTS = 4096


class SubmittedSwitch:
    """A switch that runs the submission's program, with the methods of `softswitch.testing.Switch`.

    The program runs in the submission's process, and frames are compared in this one.
    """

    def __init__(self, process: SubmissionProcess | SubmissionInProcess) -> None:
        self._process = process
        self._number = process.call("open").get("switch")

    def run(self, *commands: str) -> list[str]:
        """Run commands of `softswitch cli`; return the lines that they print."""
        lines = self._process.call("run", switch=self._number, commands=commands).get("lines")
        return [str(line) for line in _list(lines)]

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Process a frame 1 ms after the last one; return the output frames with their ports."""
        outputs = self._process.call("process", switch=self._number, port=port, frame=frame.hex()).get(
            "outputs"
        )
        try:
            return [(int(out), bytes.fromhex(text)) for out, text in _list(outputs)]
        except (TypeError, ValueError):
            raise SubmissionError("the submission's process sent no frames") from None

    def digests(self) -> list[list[int]]:
        """Return the values of each digest since the last call, in the order of the fields."""
        found = _list(self._process.call("digests", switch=self._number).get("digests"))
        return [[int(value) for value in _list(each)] for each in found]

    def register(self, name: str, index: int) -> int:
        """Return the value of a register's cell."""
        return self._value(f"register_read {name} {index}")

    def counter(self, name: str, index: int) -> tuple[int, int]:
        """Return the packets and bytes of a counter's cell."""
        lines = self.run(f"counter_read {name} {index}")
        if not (numbers := re.search(r"\((\d+) bytes, (\d+) packets\)", "".join(lines))):
            raise SubmissionError(f"counter_read {name} {index}: expected packets and bytes, got {lines}")
        return int(numbers[2]), int(numbers[1])

    def _value(self, command: str) -> int:
        lines = self.run(command)
        if not (number := re.search(r"=\s*(\d+)\s*$", "".join(lines))):
            raise SubmissionError(f"{command}: expected a number, got {lines}")
        return int(number[1])

    def expect(self, port: int, frame: bytes, *expected: tuple[int, bytes]) -> None:
        """Process a frame; raise `AssertionError` with its trace unless exactly these frames are output."""
        outputs = self.process(port, frame)
        if sorted(outputs) != sorted(expected):
            trace = printable(str(self._process.call("explain", switch=self._number).get("trace")))
            got = describe_outputs(outputs)
            raise AssertionError(f"expected {describe_outputs(expected)}, got {got}\n{trace}")


class SubmittedModule:
    """The submission's Python module: its functions take and return values of JSON."""

    def __init__(self, process: SubmissionProcess | SubmissionInProcess) -> None:
        self._process = process

    def load(self) -> None:
        self._process.call("load")

    # `Any`: a value of JSON, which the check examines.
    def call(self, function: str, *arguments: object) -> Any:
        """Call a function; raise `SubmissionError` if it raises, does not end, or returns no JSON."""
        return self._process.call("call", function=function, arguments=arguments).get("value")


def _list(value: object) -> list[Any]:  # values of JSON
    if not isinstance(value, list) or len(value) > _MAX_OUTPUTS:
        raise SubmissionError("the submission's process sent no list of values")
    return value
