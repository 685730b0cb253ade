"""Switches that run a submission's P4 program, in its child process."""

from __future__ import annotations

from pathlib import Path

from hotline_course.channel import Answer, Message
from softswitch.errors import SwitchError
from softswitch.pipeline import DigestMessage
from softswitch.testing import Switch

_MAX_SWITCHES = 8
_MAX_TRACE_CHARACTERS = 20_000


def make_answer(program: Path) -> Answer:
    """Return the function that answers requests; the program is compiled at the first one."""
    # A path without folders: it stands in errors, which students read.
    return _Switches(Path(program.name)).answer


def make_local_answer(program: Path) -> Answer:
    """Return the same for a process whose working folder is not the submission's."""
    return _Switches(program).answer


class _Switches:
    def __init__(self, program: Path) -> None:
        self._program = program
        self._switches: dict[int, Switch] = {}
        self._opened = 0

    def answer(self, request: Message) -> Message:
        match request["do"]:
            case "open":
                return self._open()
            case "run":
                return {"lines": self._switch(request).run(*request["commands"])}
            case "process":
                outputs = self._switch(request).process(request["port"], bytes.fromhex(request["frame"]))
                return {"outputs": [[port, frame.hex()] for port, frame in outputs]}
            case "digests":
                return {"digests": _digests(self._switch(request))}
            case "explain":
                return {"trace": self._switch(request).explain()[:_MAX_TRACE_CHARACTERS]}
            case other:
                raise ValueError(f"expected a request, got {other!r}")

    def _open(self) -> Message:
        if len(self._switches) == _MAX_SWITCHES:  # the oldest switch is that of a check that has ended
            self._switches.pop(next(iter(self._switches))).close()
        self._opened += 1
        try:
            self._switches[self._opened] = Switch(self._program)
        except SwitchError as error:
            # In a table, the first line is all that is shown.
            raise SwitchError(str(error).replace("\n", ": ", 1)) from None
        return {"switch": self._opened}

    def _switch(self, request: Message) -> Switch:
        return self._switches[request["switch"]]


def _digests(switch: Switch) -> list[list[int]]:
    return [list(notice.values) for notice in switch.notices() if isinstance(notice, DigestMessage)]
