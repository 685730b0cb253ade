"""The commands that pages show, in blocks of code and in sentences."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from enum import Enum
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from foundation.checkout import ROOT

_SWITCH = ROOT / "packages" / "softswitch"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"(?:(?<=\n\n)|\A)(?: {4}.*\n|\n(?= {4}))+", re.MULTILINE)
_IN_SENTENCE = re.compile(r"`([^`]+)`")
_PROMPT = re.compile(r"^(?:\$|\w+#)\s+")
_COMMENT = re.compile(r"\s+#(?:\s.*)?$")
_OPERATORS = {"&&", "&", "|", "||", ";", ">", "<", "(", ")"}
_VARIABLE = re.compile(r"[A-Z_]+=\S*")
_BEFORE_THE_PROGRAM = {"sudo", "env", "time"}
PROGRAM = re.compile(r"hotline|make|pip|pytest|python3?|softswitch|(?:\.\./)*\.venv/bin/\w+|\./\w+")
"""Programs whose commands are checked: those of this repository, and Python's."""


class Place(Enum):
    """Where a page shows a command."""

    SHELL = 1  # in a fenced block of shell
    BLOCK = 2  # in an indented block, which may be output or a file, too
    SENTENCE = 3  # in a sentence, which leaves arguments out


class ShownCommand(NamedTuple):
    page: Path
    words: tuple[str, ...]
    """The program and its arguments, without `sudo` and variables."""
    folder: Path
    """Where the command is entered: the checkout, or softswitch's folder."""
    place: Place


@cache
def commands_of(page: Path) -> tuple[ShownCommand, ...]:
    """Return the commands of `PROGRAM` that a page shows."""
    return tuple(command for command in all_commands_of(page) if PROGRAM.fullmatch(command.words[0]))


def all_commands_of(page: Path) -> Iterator[ShownCommand]:
    """Yield lines of shell and of indented blocks, and code in sentences, if they may be commands."""
    text = page.read_text()
    project = _SWITCH if page.is_relative_to(_SWITCH) else ROOT
    for language, block in _FENCE.findall(text):
        if language in ("sh", "console"):
            lines = [line for line in block.splitlines() if language == "sh" or _PROMPT.match(line)]
            yield from _commands_in(lines, page, project, Place.SHELL)
    for block in _BLOCK.findall(_FENCE.sub("", text)):
        yield from _commands_in([line[4:] for line in block.splitlines()], page, project, Place.BLOCK)
    for code in code_in_sentences(page):
        words = _without_prefix(tuple(_split(code)))
        if len(words) > 1:
            yield ShownCommand(page, words, project, Place.SENTENCE)


def code_in_sentences(page: Path) -> list[str]:
    """Return what stands in backticks outside of blocks, each on one line."""
    prose = _BLOCK.sub("", _FENCE.sub("", page.read_text()))
    return [" ".join(code.split()) for code in _IN_SENTENCE.findall(prose)]


def _commands_in(lines: list[str], page: Path, folder: Path, place: Place) -> Iterator[ShownCommand]:
    text = "\n".join(_PROMPT.sub("", line) for line in lines).replace("\\\n", " ")
    for line in text.splitlines():
        words = _split(_COMMENT.sub("", line))
        for is_operator, group in groupby(words, lambda word: word in _OPERATORS):
            command = () if is_operator else _without_prefix(tuple(group))
            if command[:1] == ("cd",) and (folder / command[1]).is_dir():
                folder = folder / command[1]
            elif command:
                yield ShownCommand(page, command, folder, place)


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # an apostrophe in a line of output
        return line.split()


def _without_prefix(words: tuple[str, ...]) -> tuple[str, ...]:
    while words and (words[0] in _BEFORE_THE_PROGRAM or _VARIABLE.fullmatch(words[0])):
        words = words[1:]
    return words
