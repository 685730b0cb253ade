"""Execution of command lines that are typed, piped in, or read from a file."""

from __future__ import annotations

import cmd
import inspect
import subprocess
from collections.abc import Callable, Iterable, Mapping

from softswitch.commands.base import Say
from softswitch.commands.cells import CellCommands
from softswitch.commands.device import DeviceCommands
from softswitch.commands.names import CommandError
from softswitch.commands.profiles import ProfileCommands
from softswitch.commands.replication import ReplicationCommands
from softswitch.commands.tables import TableCommands
from softswitch.errors import SwitchError
from softswitch.runtime.interface import Runtime

COMMENT_PREFIXES = ("#", "//")
PROMPT = "RuntimeCmd: "


class FileError(SwitchError):
    def __init__(self, file: str, number: int, line: str, error: SwitchError) -> None:
        word = getattr(error, "word", "") or line.split()[0]
        super().__init__(f"{file}:{number}: {word!r}: {error}")


class Shell(ProfileCommands, TableCommands, CellCommands, ReplicationCommands, DeviceCommands, cmd.Cmd):
    """All commands on a switch, which print with `say`; `runs_shell` allows the command `shell`."""

    prompt = PROMPT

    def __init__(self, switch: Runtime, say: Say = print, runs_shell: bool = True) -> None:
        cmd.Cmd.__init__(self)
        super().__init__(switch, say)
        self._runs_shell = runs_shell

    # -- running lines

    def run(self, line: str) -> bool:
        # Raises SwitchError, which `onecmd` prints.
        stripped = line.strip()
        if not stripped or stripped.startswith(COMMENT_PREFIXES):
            return False
        return bool(super().onecmd(stripped))

    def run_all(self, lines: Iterable[str], file: str, handle_error: Callable[[FileError], None]) -> None:
        """Execute the lines of a file; `handle_error` is called for each error, and may raise it."""
        for number, line in enumerate(lines, start=1):
            try:
                if self.run(line):
                    return
            except SwitchError as error:
                file_error = FileError(file, number, line, error)
                file_error.__cause__ = error
                handle_error(file_error)

    def onecmd(self, line: str) -> bool:
        try:
            return self.run(line)
        except SwitchError as error:
            self.say(str(error))
            return False

    def emptyline(self) -> bool:
        """Do nothing; BMv2 repeats the last command."""
        return False

    def default(self, line: str) -> None:
        word = line.split()[0]
        raise CommandError(f"*** Unknown syntax: {line}", word)

    def do_help(self, line: str) -> None:
        """List available commands with "help" or detailed help with "help cmd"."""
        method = getattr(self, f"do_{line.strip()}", None)
        if method is None:
            super().do_help(line)
            return
        for paragraph in (inspect.getdoc(method) or "").split("\n\n"):
            self.say(" ".join(paragraph.split()))

    # -- general commands

    def do_shell(self, line: str) -> None:
        """Run a shell command: shell <command>"""
        if not self._runs_shell:
            raise CommandError("Error: shell commands are not allowed here")
        process = subprocess.run(line, shell=True, stdout=subprocess.PIPE, text=True, check=False)
        self.say(process.stdout)

    def do_greet(self, line: str) -> None:
        """Say hello: greet"""
        self.say("hello")

    def do_EOF(self, line: str) -> bool:
        """Exit the CLI, as Ctrl-D does: EOF"""
        self.say("")
        return True

    # -- completion

    def completedefault(self, *arguments: object) -> list[str]:
        text, line, begin, _ = arguments
        assert isinstance(text, str) and isinstance(line, str) and isinstance(begin, int)
        words = line[:begin].split()
        try:
            return sorted(name for name in self._completions(words) if name.startswith(text))
        except SwitchError:
            return []

    def _completions(self, words: list[str]) -> Iterable[str]:
        command, *arguments = words
        get_objects = next(
            (get for prefix, get in self._objects_by_prefix.items() if command.startswith(prefix)), None
        )
        if get_objects is None:
            return []
        objects = get_objects()
        if not arguments:
            return objects
        takes_action = command in _COMMANDS_WITH_ACTION and len(arguments) == 1
        return getattr(objects.get(arguments[0]), "actions", {}) if takes_action else []

    @property
    def _objects_by_prefix(self) -> dict[str, Callable[[], Mapping[str, object]]]:
        program = self.program
        return {
            "table_": lambda: program.tables.by_name,
            "act_prof_": lambda: program.profiles.by_name,
            "register_": lambda: program.registers.by_name,
            "counter_": lambda: program.counters.by_name,
            "meter_": lambda: program.meters.by_name,
            "pvs_": lambda: program.value_sets.by_name,
            "set_crc": lambda: program.crcs,
        }


_COMMANDS_WITH_ACTION = {
    "table_add",
    "table_set_default",
    "table_modify",
    "table_indirect_create_member",
    "table_indirect_modify_member",
    "act_prof_create_member",
    "act_prof_modify_member",
}
