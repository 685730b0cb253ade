"""The status of a batch with failures, in trailers that clients accept (P4Runtime 1.4 §12.3).

It has one `p4.v1.Error` for each update, in the trailer `grpc-status-details-bin`. gRPC's clients accept
8 KiB of headers, and lose the whole status if it is larger. Those on gRPC's C core (Python, C++) count binary
values as they are, others in base64, by which they are sent. So messages are cut, then the URL of the type is
shortened, and above `MAX_REPORTED_UPDATES` the details are left out if they do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from grpc import StatusCode

from softswitch.p4runtime.messages import Context, p4r, rpc_status
from softswitch.p4runtime.status import MAX_MESSAGE_BYTES, Refusal, shorten

DETAILS_KEY = "grpc-status-details-bin"
MAX_HEADER_BYTES = 8192
"""Size of headers that clients accept by default; gRPC calls it the soft limit of metadata."""
MAX_REPORTED_UPDATES = 350
"""Largest batch that always gets details, also if each of its updates has failed."""
_OTHER_HEADER_BYTES = 320
"""Room for all headers but message and details: 247 bytes in gRPC 1.85 for Python."""
_TYPE_URL = "type.googleapis.com/p4.v1.Error"
_SHORT_TYPE_URL = "/p4.v1.Error"  # all implementations of `Any` look at what follows the last slash
_SHORT_MESSAGE_BYTES = 200
_FORMS = (
    (_TYPE_URL, True, MAX_MESSAGE_BYTES, (MAX_MESSAGE_BYTES, 200, 80)),
    (_SHORT_TYPE_URL, True, _SHORT_MESSAGE_BYTES, (200, 80, 40, 0)),
    (_SHORT_TYPE_URL, False, _SHORT_MESSAGE_BYTES, (40, 0)),
)
"""Forms of a status, the longest first: the type's URL, whether details count in base64, the maximum bytes of
the message, and those that are tried for the messages of details."""
_MAX_LIST_BYTES = 6000  # of the positions of failures, in the message of a status without details


async def abort_batch(context: Context, element: str, failures: Sequence[Refusal | None]) -> None:
    """Abort a call with UNKNOWN; `element` is "update" or "entity"."""
    status = batch_status(element, failures)
    if status.details:
        context.set_trailing_metadata(((DETAILS_KEY, status.SerializeToString()),))
    await context.abort(StatusCode.UNKNOWN, status.message)


def batch_status(element: str, failures: Sequence[Refusal | None]) -> rpc_status.Status:
    """Return the status, whose message has the first failure, for clients that show no details.

    If the details do not fit, the message has the positions of the failures instead.
    """
    position, first_failure = next(_numbered(failures))
    count = sum(failure is not None for failure in failures)
    message = (
        f"{count} of {len(failures)} failed; {element} {position}: {first_failure.code.name}: {first_failure}"
    )
    for type_url, is_base64, message_bytes, detail_bytes in _FORMS:
        for length in detail_bytes:
            if len(failures) * len(type_url) <= MAX_HEADER_BYTES:
                status = _make_status(shorten(message, message_bytes), failures, type_url, length)
                if _header_bytes(status, is_base64) <= MAX_HEADER_BYTES:
                    return status
    reason = f"above {MAX_REPORTED_UPDATES} updates, a status may have no room for one error each"
    text = shorten(message, _SHORT_MESSAGE_BYTES) + f"; numbers of all that failed ({reason}): "
    return rpc_status.Status(code=_UNKNOWN, message=text + _list_positions(failures))


_UNKNOWN = int(StatusCode.UNKNOWN.value[0])


def _make_status(
    message: str, failures: Sequence[Refusal | None], type_url: str, message_length: int
) -> rpc_status.Status:
    status = rpc_status.Status(code=_UNKNOWN, message=message)
    for failure in failures:
        error = p4r.Error()
        if failure is not None:
            error.canonical_code = failure.canonical_code
            error.message = shorten(str(failure), message_length)
        status.details.add(type_url=type_url, value=error.SerializeToString())
    return status


def _header_bytes(status: rpc_status.Status, is_base64: bool) -> int:
    details = status.ByteSize()
    if is_base64:
        details = -(-details // 3) * 4
    # gRPC sends each byte of a message that is not printable ASCII, and each %, as three.
    message = sum(
        1 if " " <= chr(byte) <= "~" and byte != ord("%") else 3 for byte in status.message.encode()
    )
    return _OTHER_HEADER_BYTES + message + details


def _numbered(failures: Sequence[Refusal | None]) -> Iterator[tuple[int, Refusal]]:
    return ((position, failure) for position, failure in enumerate(failures, 1) if failure is not None)


def _list_positions(failures: Sequence[Refusal | None]) -> str:
    """Return the positions of failures by code, as text of at most `_MAX_LIST_BYTES`."""
    positions_by_code: dict[str, list[int]] = {}
    for position, failure in _numbered(failures):
        positions_by_code.setdefault(failure.code.name, []).append(position)
    texts = [f"{code}: {', '.join(_runs(positions))}" for code, positions in positions_by_code.items()]
    return shorten("; ".join(texts), _MAX_LIST_BYTES)


def _runs(positions: Sequence[int]) -> Iterator[str]:
    # In a run of consecutive positions, the position grows as fast as its index.
    for _, run in groupby(enumerate(positions), lambda item: item[1] - item[0]):
        (_, first), *_, (_, last) = [*run] * 2
        yield f"{first}" if first == last else f"{first}-{last}"
