"""The accepted updates of one Write, on their way to the pipeline."""

from collections.abc import Callable
from typing import Any

from finsy.proto import p4r

from softswitch.pipeline import EntryWrite, Pipeline

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

Action = Callable[[Pipeline], None]


class Batch:
    """Updates are checked against the server's store and recorded there first, then applied in order.

    The store is the truth that updates are judged by, so what is applied cannot fail, and a batch that
    must be all or nothing is undone before the pipeline has heard of it.
    """

    def __init__(self) -> None:
        self.steps: list[EntryWrite | Action] = []
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []

    def put(self, store: dict[Any, Any], key: Any, value: object) -> None:
        """Set a key of a store, or remove it where `value` is None."""
        self._undo.append((store, key, store.get(key)))
        if value is None:
            del store[key]
        else:
            store[key] = value

    def roll_back(self) -> None:
        """Make the stores what they were."""
        for store, key, value in reversed(self._undo):
            if value is None:
                del store[key]
            else:
                store[key] = value

    @property
    def is_one_step(self) -> bool:
        """Whether packets can see only the state before the batch and the state after it."""
        return len(self.steps) <= 1 or all(isinstance(step, EntryWrite) for step in self.steps)

    def apply(self, pipeline: Pipeline) -> None:
        """Apply the steps in order; consecutive table entries go to the pipeline as one batch."""
        entries: list[EntryWrite] = []
        for step in self.steps:
            if isinstance(step, EntryWrite):
                entries.append(step)
            else:
                _write(pipeline, entries)
                entries = []
                step(pipeline)
        _write(pipeline, entries)


def _write(pipeline: Pipeline, entries: list[EntryWrite]) -> None:
    if not entries:
        return
    for failure in pipeline.write_entries(entries):
        if failure is not None:  # the store had accepted it: store and pipeline disagree
            raise failure
