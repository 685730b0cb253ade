"""Streams of controllers that end, or do not read: no answer is lost, and the memory of each is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import grpc
import pytest
from finsy.proto import p4r

from softswitch.p4runtime import service, sessions
from softswitch.p4runtime.sessions import Sessions, Stream
from switch_harness.p4runtime import DEVICE, SMALL_WINDOW, Controller, Rig, asynchronous, rig

MAX = 20
LARGE = bytes(1 << 15)


class RecordingStream(Stream):
    """A stream that records how many messages and bytes have waited."""

    instances: ClassVar[list[RecordingStream]] = []

    def __init__(self) -> None:
        super().__init__()
        self.max_messages = self.max_bytes = 0
        self.instances.append(self)

    def record(self) -> None:
        self.max_messages = max(self.max_messages, len(self))
        self.max_bytes = max(self.max_bytes, sum(response.ByteSize() for _, response in self._responses))

    def send(self, response: p4r.StreamMessageResponse) -> None:
        super().send(response)
        self.record()

    def offer(self, response: p4r.StreamMessageResponse) -> bool:
        is_added = super().offer(response)
        self.record()
        return is_added


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[RecordingStream]:
    monkeypatch.setattr(sessions, "MAX_QUEUED_MESSAGES", MAX)
    monkeypatch.setattr(service, "Stream", RecordingStream)
    monkeypatch.setattr(RecordingStream, "instances", [])
    return RecordingStream.instances


def packet_out(payload: bytes = LARGE) -> p4r.StreamMessageRequest:
    return p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=payload))


@asynccontextmanager
async def small_window() -> AsyncIterator[Rig]:
    async with rig() as switch, grpc.aio.insecure_channel(switch.address, SMALL_WINDOW) as channel:
        yield Rig(switch.server, switch.ports, switch.address, channel)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


# -- streams that end

ENDS = {"half-closed": "OK", "refused": "FAILED_PRECONDITION", "malformed": "INVALID_ARGUMENT"}


@pytest.mark.parametrize("number", [0, 1, 2, MAX, 10 * MAX])
@pytest.mark.parametrize("end", ENDS)
@asynchronous
async def test_a_stream_that_ends_has_all_its_answers(
    streams: list[RecordingStream], end: str, number: int
) -> None:
    """However many are being written when the client half-closes it, or the switch refuses it."""
    async with rig() as switch, grpc.aio.insecure_channel(switch.address) as channel:
        raw: Any = channel.stream_stream("/p4.v1.P4Runtime/StreamChannel")()
        requests = [packet_out().SerializeToString()] * number
        if end == "refused":
            bids = [p4r.MasterArbitrationUpdate(device_id=DEVICE), p4r.MasterArbitrationUpdate(device_id=99)]
            requests += [p4r.StreamMessageRequest(arbitration=bid).SerializeToString() for bid in bids]
        elif end == "malformed":
            requests.append(b"\xff")

        async def write() -> None:
            for request in requests:
                await raw.write(request)
            if end == "half-closed":
                await raw.done_writing()

        writer = asyncio.create_task(write())
        received = []
        with_code = ENDS[end]
        try:
            received = [response async for response in raw]
        except grpc.aio.AioRpcError as error:
            assert error.code().name == with_code
            await asyncio.wait([writer])
        else:
            await writer
        assert (await raw.code()).name == with_code
        if with_code == "OK":
            assert len(received) == number
        assert streams[0].max_messages <= MAX + 1
        await until(lambda: streams[0].is_closed)


# -- streams that are not read


async def send_unread(controller: Controller, number: int) -> None:
    for _ in range(number):
        await controller.stream.write(packet_out())


@pytest.mark.parametrize("election_id", [None, 1, 9])
@asynchronous
async def test_a_controller_that_does_not_read_its_answers_has_to_wait(
    streams: list[RecordingStream], election_id: int | None
) -> None:
    """A backup, or one that has not asked for a role: its requests are not read until it reads."""
    number = 20 * MAX
    async with small_window() as switch:
        first = await switch.primary() if election_id == 1 else None
        controller = switch.controller()
        if election_id is not None:
            await controller.bid(election_id + 1, role="other" if first is None else "")
        if first is not None:
            await first.bid(99)
            await controller.receive()  # it is a backup now
        sender = asyncio.create_task(send_unread(controller, number))
        count = 1 if first is None else 2
        await until(lambda: len(streams) == count and len(streams[-1]) >= MAX)
        stream = streams[-1]
        assert not sender.done()
        for _ in range(number):
            assert (await controller.receive()).HasField("error")
        await sender
        assert stream.max_messages <= MAX


@asynchronous
async def test_answers_are_bounded_in_bytes(
    streams: list[RecordingStream], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_QUEUED_BYTES", 4 * len(LARGE))
    async with small_window() as switch:
        controller = switch.controller()
        sender = asyncio.create_task(send_unread(controller, 20 * MAX))
        await until(lambda: len(streams) > 0 and len(streams[0]) >= 4)
        for _ in range(20 * MAX):
            await controller.receive()
        await sender
        assert len(LARGE) * 4 <= streams[0].max_bytes < len(LARGE) * 5


def test_unsolicited_messages_to_a_controller_are_bounded_in_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "MAX_QUEUED_BYTES", 4 * len(LARGE))
    stream, all_sessions = Stream(), Sessions(DEVICE, lambda: None)
    all_sessions.update(stream, bid_message(1))
    for _ in range(10):
        all_sessions.broadcast(p4r.StreamMessageResponse(packet=p4r.PacketIn(payload=LARGE)))
    assert (len(stream), all_sessions.lost_messages) == (1 + 4, 6)
    while stream.take():
        pass
    all_sessions.broadcast(p4r.StreamMessageResponse(packet=p4r.PacketIn(payload=LARGE)))
    assert len(stream) == 1


def bid_message(election_id: int) -> p4r.MasterArbitrationUpdate:
    message = p4r.MasterArbitrationUpdate(device_id=DEVICE)
    message.election_id.low = election_id
    return message


@pytest.mark.parametrize("limit", ["messages", "bytes"])
@asynchronous
async def test_a_controller_that_reads_no_notifications_of_bids_is_closed_with_an_error(
    streams: list[RecordingStream], limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others go on, and it is no longer the primary of anything."""
    async with small_window() as switch:
        if limit == "bytes":
            monkeypatch.setattr(sessions, "MAX_QUEUED_BYTES", 4 * len(LARGE))
        role = "r" * len(LARGE)  # its name is in the updates
        quiet = switch.controller()
        await quiet.bid(5, role=role)
        noisy = switch.controller()
        await noisy.bid(1, role=role)
        for bid in range(10, 10 + 100 * MAX):
            if streams[0].is_closed:
                break
            await noisy.bid(bid, role=role)  # it is primary, the other a backup, who is told so
        assert streams[0].is_closed
        assert streams[0].max_messages <= (2 * MAX if limit == "messages" else 8)
        assert await noisy.bid(0, role=role) == 0  # there is no other
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            while await quiet.stream.read() is not grpc.aio.EOF:
                pass
        assert ended.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
