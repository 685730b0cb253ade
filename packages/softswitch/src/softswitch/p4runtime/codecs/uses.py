"""Which entities have the numbers that strings of translated types got, so that unused ones are returned."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol

OnUndo = Callable[[Callable[[], None]], None]
"""Registers a function to be called if a change is undone (`p4runtime.batch`)."""


def never_undone(_step: Callable[[], None]) -> None:
    """Do nothing: the change cannot be undone."""


class Numbering(Protocol):
    """The mapping of one type (`codecs.translation`)."""

    def take_number(self, value: bytes, number: int) -> None:
        """Give a string its number again."""

    def return_number(self, number: int) -> bytes:
        """Make a number free; return the string that had it."""


class Use(NamedTuple):
    translation: Numbering
    number: int


class Uses:
    """Numbers by the entity ("holder") that has them.

    Decoding a string mentions its number, and gives it one if it is new. `hold` and `release` then say which
    entity has the mentioned numbers, or no longer has any. `settle`, after each update, query and packet,
    returns the numbers that no entity has. So what is refused, and what only asks, takes no number.
    """

    def __init__(self) -> None:
        self._mentioned: dict[Use, bool] = {}  # since the last `settle`: whether the number is new
        self._released: dict[Use, None] = {}  # since the last `settle`
        self._counts: dict[Use, int] = {}
        self._uses_by_holder: dict[Hashable, tuple[Use, ...]] = {}

    def mention(self, translation: Numbering, number: int, is_new: bool) -> None:
        use = Use(translation, number)
        self._mentioned[use] = self._mentioned.get(use, False) or is_new

    def hold(self, holder: Hashable, on_undo: OnUndo) -> None:
        """Record that an entity has what has been mentioned, and nothing else."""
        self._replace(holder, tuple(self._mentioned), on_undo)

    def release(self, holder: Hashable, on_undo: OnUndo) -> None:
        self._replace(holder, (), on_undo)

    def settle(self, on_undo: OnUndo = never_undone) -> None:
        for use in {**self._released, **self._mentioned}:
            is_new = self._mentioned.get(use, False)
            if use not in self._counts:
                value = use.translation.return_number(use.number)
                if not is_new:
                    on_undo(_retake_number(use, value))
            elif is_new:
                on_undo(_return_number(use))
        self._mentioned.clear()
        self._released.clear()

    def _replace(self, holder: Hashable, uses: tuple[Use, ...], on_undo: OnUndo) -> None:
        old_uses = self._uses_by_holder.pop(holder, ())
        if uses:
            self._uses_by_holder[holder] = uses
        if not uses and not old_uses:
            return
        for use in uses:
            self._counts[use] = self._counts.get(use, 0) + 1
        for use in old_uses:
            self._counts[use] -= 1
            if not self._counts[use]:
                del self._counts[use]
                self._released[use] = None

        def undo() -> None:
            self._replace(holder, old_uses, never_undone)
            self._released.clear()  # the other undone changes return the numbers

        on_undo(undo)


def _retake_number(use: Use, value: bytes) -> Callable[[], None]:
    return lambda: use.translation.take_number(value, use.number)


def _return_number(use: Use) -> Callable[[], None]:
    def return_number() -> None:
        use.translation.return_number(use.number)

    return return_number
