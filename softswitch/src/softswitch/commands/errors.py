"""What is wrong with a command."""

from __future__ import annotations

from softswitch.errors import SwitchError


class CommandError(SwitchError):
    """A command that cannot be done as it is written; `word` is the one to mend."""

    def __init__(self, text: str, word: str = "") -> None:
        super().__init__(text)
        self.word = word


def wrong_name(kind: str, name: str) -> CommandError:
    """The error of a name that is none, or of many."""
    return CommandError(f"Error: Invalid {kind} name ({name})", name)
