"""Refusals of the P4Runtime server: a canonical code and one clear line (P4Runtime 1.4 §10)."""

import logging
from collections.abc import Mapping, Sequence
from typing import TypeVar

from grpc import StatusCode

from softswitch.errors import SwitchError
from softswitch.p4runtime.messages import Context, p4r, rpc_status

log = logging.getLogger(__name__)
T = TypeVar("T")
DETAILS_KEY = "grpc-status-details-bin"


class Refusal(SwitchError):
    """The error code and message that answer a request, or one update or query of a batch."""

    def __init__(self, code: StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def canonical_code(self) -> int:
        return int(self.code.value[0])


def invalid(message: str) -> Refusal:
    return Refusal(StatusCode.INVALID_ARGUMENT, message)


def unimplemented(message: str) -> Refusal:
    return Refusal(StatusCode.UNIMPLEMENTED, message)


def internal_error(error: Exception) -> Refusal:
    """Return the refusal of an update that failed by a fault of the switch; the log gets the traceback."""
    log.error("an update failed and was undone", exc_info=error)
    return Refusal(StatusCode.INTERNAL, f"the switch failed, and undid the update: {error!r}")


def find_by_id(objects: Mapping[int, T], object_id: int, kind: str) -> T:
    if object_id not in objects:
        raise invalid(f"no {kind} has ID {object_id}")
    return objects[object_id]


def denied(message: str) -> Refusal:
    return Refusal(StatusCode.PERMISSION_DENIED, message)


def batch_status(element: str, failures: Sequence[Refusal | None]) -> rpc_status.Status:
    """Return the status of a batch with failures: UNKNOWN, with one `p4.v1.Error` for each element.

    `element` is "update" or "entity". The message has the first failure, for clients that show no details.
    """
    numbered_failures = [
        (position, failure) for position, failure in enumerate(failures, start=1) if failure is not None
    ]
    position, first_failure = numbered_failures[0]
    status = rpc_status.Status(
        code=int(StatusCode.UNKNOWN.value[0]),
        message=f"{len(numbered_failures)} of {len(failures)} failed; "
        f"{element} {position}: {first_failure.code.name}: {first_failure}",
    )
    for failure in failures:
        error = p4r.Error()
        if failure is not None:
            error.canonical_code, error.message = failure.canonical_code, str(failure)
        status.details.add().Pack(error)
    return status


async def abort_batch(context: Context, element: str, failures: Sequence[Refusal | None]) -> None:
    status = batch_status(element, failures)
    context.set_trailing_metadata(((DETAILS_KEY, status.SerializeToString()),))
    await context.abort(StatusCode.UNKNOWN, status.message)
