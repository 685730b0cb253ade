"""Errors of operations and of workers, and how one is reported for several."""

from __future__ import annotations

from collections.abc import Mapping

from foundation.errors import HotlineError
from foundation.text import pluralize

_MAX_NUMBERS = 5  # of failed operations in a message


class WorkerFailed(HotlineError):
    """An operation could not be executed: later ones are not, and the worker can only be closed."""


class OperationFailed(HotlineError):
    """The values that an operation has pulled could not be written to `out`; other operations go on."""


class OperationErrors(HotlineError):
    """Several operations have raised errors; `errors` has them by number, and the first is the cause."""

    def __init__(self, errors: Mapping[int, BaseException]) -> None:
        self.errors = dict(errors)
        first, *_ = numbers = sorted(errors)
        shown_numbers = ", ".join(map(str, numbers[:_MAX_NUMBERS])) + ", …" * (len(numbers) > _MAX_NUMBERS)
        super().__init__(
            f"{pluralize(len(numbers), 'operation')} raised errors: {shown_numbers}; "
            f"the first is {describe(errors[first])}"
        )
        self.__cause__ = errors[first]


class NotDelivered(HotlineError):
    """A worker has left before all of its pushes were acknowledged."""


def describe(error: BaseException) -> str:
    """Return the type of an error, and its text if it has one."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def combine(errors: Mapping[int, BaseException]) -> BaseException:
    """Return the error to raise for those of operations, by number: the only one, or `OperationErrors`."""
    return next(iter(errors.values())) if len(errors) == 1 else OperationErrors(errors)
