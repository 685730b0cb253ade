"""Copies of the states that a transaction changes, to restore them."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy


class SavedStates:
    """Copies of dictionaries, lists and objects, each made before its first change.

    Elements and attributes are not copied, except for containers that are attributes of objects. So an
    element that is changed in place is a state of its own.
    """

    def __init__(self) -> None:
        self._restore_by_id: dict[int, Callable[[], None]] = {}

    def add(self, state: object) -> None:
        if id(state) not in self._restore_by_id:
            self._restore_by_id[id(state)] = _make_restore(state)

    def restore(self) -> None:
        for restore in self._restore_by_id.values():
            restore()


def _make_restore(state: object) -> Callable[[], None]:
    """Copy a state; return a function that restores it, and refers to it, so that its ID remains its own."""
    if isinstance(state, list):
        elements = list(state)

        def restore_elements() -> None:
            state[:] = elements

        return restore_elements
    if isinstance(state, dict):
        items = dict(state)

        def restore_items() -> None:
            state.clear()
            state.update(items)

        return restore_items
    attributes = {
        name: copy(value) if isinstance(value, list | dict) else value for name, value in vars(state).items()
    }
    return lambda: vars(state).update(attributes)
