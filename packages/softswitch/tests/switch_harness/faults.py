"""Pipelines whose n-th call raises: a function before or after its work, or a store in the middle of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum
from typing import Any
from unittest.mock import patch

from softswitch.pipeline import METHODS

FUNCTIONS = [f"{subject}.{name}" for subject, names in METHODS.items() for name in names]
"""The pipeline's functions by subject, but for `transaction`, which runs what may fail."""
WRITES = [name for name in FUNCTIONS if name.partition(".")[2].startswith(("write", "fill_", "set_"))]
STORES = ("store", "store_cells")
"""Functions of the memory of a pipeline, which its functions call once or several times."""


class Fault(Enum):
    BEFORE = "a function raises before it does anything"
    AFTER = "a function raises when it has done everything"
    WITHIN = "a store raises, in the middle of a function"
    APPLYING = "the kernel raises, when it applies the changes"


class InjectedFaultError(RuntimeError):
    """What no part of the product raises."""


class Calls:
    """Count the calls of a pipeline's functions; raise at the one of a number, from 1 on (0: at none)."""

    def __init__(self) -> None:
        self.count = 0
        self.fails_at = 0

    @property
    def has_failed(self) -> bool:
        return 0 < self.fails_at <= self.count

    def due(self) -> bool:
        self.count += 1
        return self.count == self.fails_at


@contextmanager
def faulty(
    pipeline: Any, fault: Fault, fails_at: int = 0, functions: Sequence[str] = FUNCTIONS
) -> Iterator[Calls]:
    """Let the pipeline fail within the block, at a call of these functions."""
    calls = Calls()
    calls.fails_at = fails_at
    names = list(functions)
    if fault is Fault.WITHIN:
        names = [f"_memory.{name}" for name in STORES]
    elif fault is Fault.APPLYING:
        names = ["_memory._run"]
    with ExitStack() as replacements:
        for subject, _, name in (name.partition(".") for name in names):
            target = getattr(pipeline, subject)
            if hasattr(target, name):
                function = _failing(getattr(target, name), calls, fault)
                replacements.enter_context(patch.object(target, name, function))
        yield calls


def _failing(function: Callable[..., Any], calls: Calls, fault: Fault) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if calls.due():
            if fault is Fault.AFTER:
                function(*args, **kwargs)
            raise InjectedFaultError(f"call {calls.count}")
        return function(*args, **kwargs)

    return call
