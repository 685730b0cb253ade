"""Commands and P4Runtime writes on a switch of this process, for code that calls them with text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf import text_format

from softswitch.commands.shell import FileError, Shell
from softswitch.errors import NESTED_TOO_DEEPLY, SwitchError
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.parse_errors import describe_parse_error
from softswitch.p4runtime.pipelines import Pipelines
from softswitch.runtime.device import DevicePorts, SwitchRuntime


class Console:
    """Runs text on the pipelines of one switch; refused calls raise `SwitchError`."""

    # `Any`, since the pipeline may be of any kind.
    def __init__(self, pipelines: Pipelines[Any], ports: DevicePorts, device_id: int = 0) -> None:
        self._pipelines = pipelines
        self._messages: list[str] = []
        runtime = SwitchRuntime[Any](pipelines, ports, device_id)
        self._shell = Shell(runtime, say=self._messages.append, runs_shell=False)

    def run(self, *commands: str) -> list[str]:
        """Run BMv2's commands, as `softswitch cli` takes them; return the lines of their output."""
        self._messages.clear()
        for command in commands:
            try:
                self._shell.run(command)
            except SwitchError as error:
                raise SwitchError(f"{command}: {error}") from error
        return list(self._messages)

    def run_file(self, lines: Iterable[str], name: str) -> None:
        """Run the lines of a command file; raise `FileError` for the first that is refused."""
        self._messages.clear()

        def fail(error: FileError) -> None:
            raise error

        self._shell.run_all(lines, name, fail)

    def write(self, request: str | p4r.WriteRequest) -> None:
        """Apply a P4Runtime `WriteRequest`, perhaps in protobuf's text format; raise the first refusal."""
        for refusal in self._pipelines.get_served().write(_read_request(request)):
            if refusal is not None:
                raise refusal


def _read_request(request: str | p4r.WriteRequest) -> p4r.WriteRequest:
    if not isinstance(request, str):
        return request
    try:
        return text_format.Parse(request, p4r.WriteRequest())
    except text_format.ParseError as error:
        raise SwitchError(f"expected a WriteRequest in text format: {describe_parse_error(error)}") from None
    except RecursionError:
        raise SwitchError(f"the WriteRequest cannot be parsed: {NESTED_TOO_DEEPLY}") from None
