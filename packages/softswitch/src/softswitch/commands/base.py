"""Base class of all commands, and functions that split a line into words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from softswitch.commands.names import CommandError, NamedAction, ProgramNames
from softswitch.commands.values import parse_value
from softswitch.messages import pluralize
from softswitch.runtime.interface import Runtime

ARROW = "=>"  # before the data of an action, or the handle of a member or group
Say = Callable[[str], None]  # prints a line
T = TypeVar("T")


class CommandGroup:
    """Commands of one subject: methods `do_NAME(rest_of_line)`, whose docstrings are their help."""

    def __init__(self, switch: Runtime, say: Say) -> None:
        self.switch = switch
        self.say = say
        self._program: ProgramNames | None = None

    def set_program(self, program: str) -> None:
        self._program = ProgramNames(program)

    @property
    def program(self) -> ProgramNames:
        if self._program is None:
            self._program = ProgramNames(self.switch.config())
        return self._program

    def say_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.say(line)

    def data_of(self, action: NamedAction, words: list[str]) -> list[str]:
        if len(words) != len(action.parameters):
            expected = pluralize(len(action.parameters), "parameter")
            raise CommandError(f"Error: Action {action.name}: expected {expected}, got {len(words)}")
        values = []
        for word, parameter in zip(words, action.parameters, strict=True):
            try:
                values.append(f"{parse_value(word, parameter.width):#x}")
            except ValueError as error:
                text = f"Invalid runtime data: Error while parsing {word} - {error}"
                raise CommandError(text, word) from None
        return values


def without_arrow(words: list[str]) -> list[str]:
    return words[1:] if words[:1] == [ARROW] else words


def exact_words(line: str, count: int) -> list[str]:
    words = line.split()
    if len(words) != count:
        raise CommandError(f"Error: Wrong number of args, expected {count} but got {len(words)}")
    return words


def min_words(line: str, count: int) -> list[str]:
    words = line.split()
    if len(words) < count:
        raise CommandError("Error: Insufficient number of args")
    return words
