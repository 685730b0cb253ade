"""Copies of the states that a transaction changes, to restore them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy


class Transactions:
    """The current transaction of a pipeline, if any, with the states that it has changed."""

    def __init__(self) -> None:
        self._saved_states: _SavedStates | None = None

    @contextmanager
    def begin(self) -> Iterator[None]:
        """Restore all states that the block changes if it raises; there are no packets in it."""
        saved_states = self._saved_states = _SavedStates()
        try:
            yield
        except BaseException:
            saved_states.restore()
            raise
        finally:
            self._saved_states = None

    def save(self, state: object) -> None:
        """Save a state that the caller will change, for the current transaction, if any."""
        if self._saved_states is not None:
            self._saved_states.add(state)


class _SavedStates:
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
