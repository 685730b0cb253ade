"""What all commands have: the switch, its program's names, and words of a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from softswitch.commands.errors import CommandError
from softswitch.commands.names import Action, Program
from softswitch.commands.values import parse_value
from softswitch.runtime.interface import Runtime

Say = Callable[[str], None]
T = TypeVar("T")


class Base:
    """Commands are methods `do_NAME`, which take the rest of the line; their docstrings are their help."""

    def __init__(self, switch: Runtime, say: Say) -> None:
        self.switch = switch
        self.say = say
        self._program: Program | None = None

    def use_names(self, program: str) -> None:
        """Take names from this BMv2 JSON instead of the switch's."""
        self._program = Program(program)

    @property
    def program(self) -> Program:
        """The names of the switch's program."""
        if self._program is None:
            self._program = Program(self.switch.config())
        return self._program

    def say_all(self, lines: Iterable[str]) -> None:
        """Print lines."""
        for line in lines:
            self.say(line)

    def data_of(self, action: Action, words: list[str]) -> list[str]:
        """The data of an action as `softswitch.runtime` takes it."""
        if len(words) != len(action.parameters):
            raise CommandError(f"Error: Action {action.name} needs {len(action.parameters)} parameters")
        found = []
        for word, parameter in zip(words, action.parameters, strict=True):
            try:
                found.append(f"{parse_value(word, parameter.width):#x}")
            except ValueError as error:
                text = f"Invalid runtime data: Error while parsing {word} - {error}"
                raise CommandError(text, word) from None
        return found


def exactly(line: str, count: int) -> list[str]:
    """The words of a line, which has to have so many."""
    words = line.split()
    if len(words) != count:
        raise CommandError(f"Error: Wrong number of args, expected {count} but got {len(words)}")
    return words


def at_least(line: str, count: int) -> list[str]:
    """The words of a line, which has to have so many or more."""
    words = line.split()
    if len(words) < count:
        raise CommandError("Error: Insufficient number of args")
    return words
