"""Controllers that do not read their messages: lost ones are counted and logged."""

from __future__ import annotations

import pytest
from finsy.proto import p4r

from softswitch.p4runtime import sessions
from softswitch.p4runtime.sessions import Sessions, Stream

WAITING = 3
LOST = "a controller reads too slowly: 3 messages wait for it, further messages are dropped"


def bid(election_id: int, role: str = "") -> p4r.MasterArbitrationUpdate:
    message = p4r.MasterArbitrationUpdate(device_id=1)
    message.election_id.low = election_id
    if role:
        message.role.name = role
    return message


def read(stream: Stream) -> list[bytes]:
    """The payloads of all that waits."""
    return [response.packet.payload for response in iter(stream.take, None)]


def packet(number: int) -> p4r.StreamMessageResponse:
    return p4r.StreamMessageResponse(packet=p4r.PacketIn(payload=bytes([number])))


def test_lost_messages_are_counted_and_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sessions, "MAX_QUEUED_MESSAGES", WAITING)
    all_sessions = Sessions(1, lambda: None)
    slow, quick, backup = Stream(), Stream(), Stream()
    all_sessions.update(slow, bid(5))
    all_sessions.update(quick, bid(5, "other"))
    all_sessions.update(backup, bid(4))
    for stream in (slow, quick, backup):
        read(stream)
    for number in range(WAITING):
        all_sessions.broadcast(packet(number))
    assert (all_sessions.lost_messages, caplog.messages) == (0, [])
    assert len(read(quick)) == WAITING
    for number in range(WAITING, WAITING + 2):
        all_sessions.broadcast(packet(number))
    # Each stream has its own queue; a backup gets no messages and loses none.
    assert (all_sessions.lost_messages, caplog.messages) == (2, [LOST])
    assert read(quick) == [b"\3", b"\4"]
    assert read(slow) == [b"\0", b"\1", b"\2"]
    assert len(backup) == 0
    all_sessions.broadcast(packet(9))
    assert read(slow) == [b"\t"]
    for stream in (slow, quick, backup):
        all_sessions.leave(stream)
    assert all_sessions.lost_messages == 2
    assert caplog.messages == [LOST, "dropped 2 messages for a controller that reads too slowly"]
