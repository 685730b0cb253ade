"""Pipelines whose n-th call raises: a function before or after its work, or a store in the middle of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

from softswitch.pipeline import ControlPlane

FUNCTIONS = [
    name
    for name, value in vars(ControlPlane).items()
    if callable(value) and not name.startswith("_") and name != "transaction"
]
"""The pipeline's functions, but for `transaction`, which runs what may fail."""
WRITES = [name for name in FUNCTIONS if name.startswith(("write_", "fill_", "set_"))]
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
    target, names = pipeline, list(functions)
    if fault is Fault.WITHIN:
        target, names = pipeline._memory, list(STORES)
    elif fault is Fault.APPLYING:
        target, names = pipeline._memory, ["_run"]
    replaced = {name: getattr(target, name) for name in names if hasattr(target, name)}
    shadowed = {name for name in replaced if name in vars(target)}
    for name, function in replaced.items():
        setattr(target, name, _failing(function, calls, fault))
    try:
        yield calls
    finally:
        for name, function in replaced.items():
            if name in shadowed:
                setattr(target, name, function)
            else:
                delattr(target, name)


def _failing(function: Callable[..., Any], calls: Calls, fault: Fault) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if calls.due():
            if fault is Fault.AFTER:
                function(*args, **kwargs)
            raise InjectedFaultError(f"call {calls.count}")
        return function(*args, **kwargs)

    return call
