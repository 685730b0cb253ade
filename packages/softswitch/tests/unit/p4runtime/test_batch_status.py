"""A client that accepts 8 KiB of headers learns of each update of a batch whether it was done."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from finsy.proto import p4r, rpc_status
from grpc import StatusCode

from softswitch.p4runtime.batch_status import DETAILS_KEY, MAX_HEADER_BYTES, MAX_REPORTED_UPDATES, abort_batch
from softswitch.p4runtime.status import MAX_MESSAGE_BYTES, Refusal, abort, shorten
from switch_harness.p4runtime import INSERT, asynchronous, forward, rig, update
from switch_harness.wording import says

LIMITS = [("grpc.max_metadata_size", MAX_HEADER_BYTES), ("grpc.absolute_max_metadata_size", MAX_HEADER_BYTES)]
"""Make the limit, above which clients refuse some responses by chance, one above which they refuse all."""
Failures = list[Refusal | None]
CODES = [StatusCode.INVALID_ARGUMENT, StatusCode.ABORTED, StatusCode.UNAUTHENTICATED]
TEXTS = {"short": "wrong", "long": "wrong " * 100, "huge": "x" * 200_000, "not ASCII": "ä%" * 400}


def failures(count: int, pattern: str, text: str) -> Failures:
    failing = {
        "first": {0},
        "last": {count - 1},
        "all": set(range(count)),
        "every third": set(range(0, count, 3)),
    }[pattern]
    return [Refusal(CODES[i % len(CODES)], text) if i in failing else None for i in range(count)]


@asynccontextmanager
async def answering(abort_call: Any) -> AsyncIterator[Any]:
    """A server that ends each call in one way, and a call to it."""

    async def handle(_request: bytes, context: Any) -> None:
        await abort_call(context)

    class Handler(grpc.GenericRpcHandler):
        def service(self, _details: object) -> Any:
            return grpc.unary_unary_rpc_method_handler(handle)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=LIMITS) as channel:
        yield channel.unary_unary("/a/b")
    await server.stop(None)


async def errors_of(sent: Failures) -> tuple[str, list[p4r.Error]]:
    """The message of the status that a client gets, and the errors in its details."""
    async with answering(lambda context: abort_batch(context, "update", sent)) as call:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await call(b"")
    assert error.value.code() == StatusCode.UNKNOWN, error.value.details()
    message = error.value.details() or ""
    trailer = dict(error.value.trailing_metadata() or ()).get(DETAILS_KEY)
    if trailer is None:
        return message, []
    assert isinstance(trailer, bytes)
    status = rpc_status.Status.FromString(trailer)
    assert (status.code, status.message) == (2, message)
    errors = [p4r.Error() for _ in status.details]
    assert all(detail.Unpack(target) for detail, target in zip(status.details, errors, strict=True))
    return message, errors


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("pattern", ["first", "last", "all", "every third"])
@pytest.mark.parametrize("count", [1, 2, 40, 250, MAX_REPORTED_UPDATES])
@asynchronous
async def test_each_update_of_a_failed_batch_has_its_status_code(count: int, pattern: str, text: str) -> None:
    sent = failures(count, pattern, TEXTS[text])
    message, errors = await errors_of(sent)
    assert [e.canonical_code for e in errors] == [f.canonical_code if f else 0 for f in sent]
    assert message.startswith(f"{sum(f is not None for f in sent)} of {count} failed; update ")
    if count < 3:
        wanted = [shorten(TEXTS[text], MAX_MESSAGE_BYTES) if f else "" for f in sent]
        assert [e.message for e in errors] == wanted


@asynchronous
async def test_one_wrong_update_among_400_has_details() -> None:
    sent = failures(400, "last", "wrong")
    _, errors = await errors_of(sent)
    assert [e.canonical_code for e in errors] == [0] * 399 + [sent[-1].canonical_code if sent[-1] else 0]


def positions(message: str) -> dict[str, list[int]]:
    """Parse the message of a batch without details."""
    found: dict[str, list[int]] = {}
    for code, runs in re.findall(r"([A-Z_]+): ([\d, -]+?)(?:; |$)", message.partition("): ")[2]):
        for run in runs.split(", "):
            first, _, last = run.partition("-")
            found.setdefault(code, []).extend(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize("pattern", ["first", "last", "all", "every third"])
@pytest.mark.parametrize("count", [800, 2_000])
@asynchronous
async def test_larger_batches_list_their_failures(count: int, pattern: str) -> None:
    """A client that ignores the message cannot take the errors for those of other updates: there are none."""
    sent = failures(count, pattern, "wrong")
    message, errors = await errors_of(sent)
    wanted: dict[str, list[int]] = {}
    for position, failure in enumerate(sent, 1):
        if failure is not None:
            wanted.setdefault(failure.code.name, []).append(position)
    assert errors == []
    if pattern == "all" and count == 2_000:  # more runs than there is room for: the ends are told
        assert "..." in message and message.endswith("1998")
    else:
        assert positions(message) == wanted


@asynchronous
async def test_a_status_with_one_long_message_is_truncated() -> None:
    for text in TEXTS.values():
        async with answering(lambda context, text=text: abort(context, StatusCode.NOT_FOUND, text)) as call:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await call(b"")
        assert error.value.code() == StatusCode.NOT_FOUND
        assert error.value.details() == shorten(text, MAX_MESSAGE_BYTES)


@asynchronous
async def test_a_switch_answers_one_wrong_update_among_400() -> None:
    async with rig() as switch:
        controller = await switch.primary()
        changes = [update(forward(address), INSERT) for address in (*range(399), 7)]
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await controller.write(*changes)
        assert error.value.code() == StatusCode.UNKNOWN
        assert says(error.value.details() or "", 1, 400, "ALREADY_EXISTS")
        trailer = dict(error.value.trailing_metadata() or ())[DETAILS_KEY]
        assert len(rpc_status.Status.FromString(trailer).details) == 400
        assert await controller.entries() == 399 + 2  # and two constant ones


@pytest.mark.parametrize("limit", [0, 2, 3, 4, 10, 17, 1000])
def test_a_text_is_truncated_to_a_number_of_bytes(limit: int) -> None:
    for text in ("", "abc", "abcdefghijklmnopqrstuvwxyz", "äöü" * 10):
        cut = shorten(text, limit)
        assert len(cut.encode()) <= limit or (cut == text and len(text.encode()) <= limit)
        assert cut == text or "..." in cut or not cut or limit <= 3
