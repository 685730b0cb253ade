"""The subcommand `softswitch cli`: BMv2 commands for a running switch, typed, piped or from files."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from softswitch.commands.shell import PROMPT, FileError, Shell
from softswitch.errors import SwitchError
from softswitch.load.json_text import decode_text
from softswitch.program_files import read_program
from softswitch.runtime.client import connect
from softswitch.runtime.interface import Runtime

DEFAULT_ADDRESS = "127.0.0.1:9559"
BMV2_ADDRESS = "127.0.0.1:9090"
_OBTAINING, _OBTAINED = "Obtaining JSON from switch...", "Done"
_INTRO = "Control utility for runtime P4 table manipulation"
_HISTORY_LINES = 10_000
_HISTORY_ERRORS = OSError, RuntimeError  # RuntimeError: there is neither HOME nor a user of this id


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--grpc", metavar="HOST:PORT", help=f"The switch's gRPC server; {DEFAULT_ADDRESS} by default.")
@click.option(
    "--keep-going", is_flag=True, help="Continue after an error in a file; exit with status 1 at the end."
)
@click.option("--thrift-port", type=int, metavar="N", help="The switch's port, as in simple_switch_CLI.")
@click.option("--thrift-ip", metavar="HOST", help="The switch's host, as in simple_switch_CLI.")
@click.option(
    "--json",
    "program",
    type=click.Path(path_type=Path),
    help="Take names of tables and actions from this BMv2 JSON.",
)
@click.option("--pre", metavar="KIND", help="Ignored: groups work as with SimplePreLAG.")
def command(
    files: Sequence[Path],
    grpc: str | None,
    keep_going: bool,
    thrift_port: int | None,
    thrift_ip: str | None,
    program: Path | None,
    pre: str | None,
) -> None:
    """Execute BMv2's commands on a running switch, from FILES, a pipe or the terminal.

    `help` lists the commands. Execution stops at the first error in a file.
    """
    with connect(_switch_address(grpc, thrift_ip, thrift_port)) as switch:
        shell = Shell(switch)
        if program is not None:
            shell.set_program(decode_text(read_program(program).json))
        policy = _ErrorPolicy(keep_going)
        if files:
            for file in files:
                shell.run_all(_read_text(file).splitlines(), str(file), policy)
        else:
            _greet(shell, switch, obtains_program=program is None)
            if sys.stdin.isatty():
                _run_interactively(shell)
            else:
                _run_piped(shell, policy)
        policy.exit_if_failed()


def main(arguments: list[str]) -> None:
    try:
        command.main(arguments, prog_name="softswitch cli")
    except SwitchError as error:
        sys.exit(f"softswitch: error: {error}")


class _ErrorPolicy:
    def __init__(self, keep_going: bool) -> None:
        self._keep_going = keep_going
        self._error_count = 0

    def __call__(self, error: FileError) -> None:
        if not self._keep_going:
            raise error
        self._error_count += 1
        print(f"softswitch: error: {error}", file=sys.stderr, flush=True)

    def exit_if_failed(self) -> None:
        if self._error_count:
            sys.exit(1)


def _switch_address(grpc: str | None, thrift_ip: str | None, thrift_port: int | None) -> str:
    if grpc is not None:
        return grpc
    if thrift_ip is not None or thrift_port is not None:
        host, _, port = BMV2_ADDRESS.partition(":")
        return f"{thrift_ip or host}:{thrift_port or port}"
    return (
        BMV2_ADDRESS
        if not _is_listening(DEFAULT_ADDRESS) and _is_listening(BMV2_ADDRESS)
        else DEFAULT_ADDRESS
    )


def _is_listening(address: str) -> bool:
    host, _, port = address.partition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise SwitchError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SwitchError(f"{path} is not a text file: {error.reason} at byte {error.start}") from None


def _greet(shell: Shell, switch: Runtime, obtains_program: bool) -> None:
    """Print the lines that BMv2's CLI prints before its first prompt, which scripts count."""
    if obtains_program:
        print(_OBTAINING, flush=True)
        with suppress(SwitchError):  # it runs no program yet; commands that need one say so
            shell.set_program(switch.config())
        print(_OBTAINED)
    print(_INTRO, flush=True)


def _run_piped(shell: Shell, handle_error: Callable[[FileError], None]) -> None:
    """Execute standard input, and print the prompt, which BMv2's scripts look for, before each line."""

    def print_error(error: FileError) -> None:
        print(error.__cause__ or error)
        handle_error(error)

    shell.run_all(_print_prompts(sys.stdin), "<stdin>", print_error)


def _print_prompts(lines: Iterator[str]) -> Iterator[str]:
    while True:
        print(PROMPT, end="", flush=True)
        line = next(lines, None)
        if line is None:
            print(flush=True)
            return
        yield line


def _run_interactively(shell: Shell) -> None:
    with _saved_history():
        while True:
            try:
                shell.cmdloop()
                return
            except KeyboardInterrupt:  # the line is dropped
                print()


@contextmanager
def _saved_history() -> Iterator[None]:
    try:
        import readline
    except ImportError:
        yield
        return
    readline.set_completer_delims(" \t\n")
    with suppress(*_HISTORY_ERRORS):
        readline.read_history_file(_history_file())
    try:
        yield
    finally:
        readline.set_history_length(_HISTORY_LINES)
        with suppress(*_HISTORY_ERRORS):
            file = _history_file()
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)


def _history_file() -> Path:
    state_home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state_home, "softswitch", "history")
