"""Digests over nanomsg: when a notification is sent, what it has, and what an acknowledgement does."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from thriftpy2.thrift import TApplicationException

from softswitch.errors import SwitchError
from softswitch.ir import Program
from softswitch.load import load_program
from softswitch.pipeline import DigestMessage
from softswitch.runtime.refusals import RuntimeRefusal
from softswitch.thrift import port
from softswitch.thrift.learning import MAX_SAMPLES, LearnLists
from switch_harness.p4runtime import CONTROL, DEVICE, ENTITIES
from switch_harness.thrift_clients import ThriftSwitch, declarations, serving_thrift
from switch_harness.waiting import PATIENCE_S
from switch_harness.wording import mentions

HEADER_BYTES, SAMPLE_BYTES = 32, 8  # of a source address, and of a port of 9 bits
LIST = 1
PROGRAM = load_program(ENTITIES.with_suffix(".json").read_bytes())


class Notification(NamedTuple):
    topic: bytes
    device: int
    context: int
    list_id: int
    buffer_id: int
    samples: list[tuple[int, int]]  # address and port


def parse(message: bytes) -> Notification:
    """Parse a notification as controllers of p4-learning do."""
    topic, device, context, list_id, buffer_id, sample_count = struct.unpack(
        "<4sQiiQi", message[:HEADER_BYTES]
    )
    assert len(message) == HEADER_BYTES + sample_count * SAMPLE_BYTES
    samples = []
    for high, low, ingress_port in struct.iter_unpack(">LHH", message[HEADER_BYTES:]):
        samples.append((high << 16 | low, ingress_port))
    return Notification(topic, device, context, list_id, buffer_id, samples)


class Lists(NamedTuple):
    lists: LearnLists
    sent: list[Notification]
    has_sent: asyncio.Event

    def learn(self, *addresses: int) -> None:
        for address in addresses:
            self.lists.learn(DigestMessage(0, (address, 3)))

    def addresses(self) -> list[list[int]]:
        """Return the addresses of each notification."""
        return [[address for address, _ in notification.samples] for notification in self.sent]


def on_loop(test: Callable[[Lists], Awaitable[None]], programs: list[Program] | None = None) -> None:
    """Run a test of lists, of the last of `programs`."""
    sent: list[Notification] = []
    running = [PROGRAM] if programs is None else programs

    async def run() -> None:
        has_sent = asyncio.Event()

        def send(message: bytes) -> None:
            sent.append(parse(message))
            has_sent.set()

        lists = LearnLists(DEVICE, lambda: running[-1], send)
        await test(Lists(lists, sent, has_sent))
        lists.close()

    asyncio.run(run())


def test_a_notification_has_bmv2s_header_and_the_bytes_of_each_field() -> None:
    async def test(lists: Lists) -> None:
        lists.lists.set_max_samples(LIST, 2)
        lists.learn(0x020000000001, 5)
        assert lists.sent == [Notification(b"LEA|", DEVICE, 0, LIST, 0, [(0x020000000001, 3), (5, 3)])]

    on_loop(test)


def test_a_full_notification_is_sent_at_once_and_the_rest_waits() -> None:
    async def test(lists: Lists) -> None:
        lists.learn(*range(MAX_SAMPLES + 1))
        assert lists.addresses() == [list(range(MAX_SAMPLES))]

    on_loop(test)


def test_a_notification_that_is_not_full_is_sent_after_the_timeout() -> None:
    async def test(lists: Lists) -> None:
        lists.lists.set_timeout(LIST, 1)
        lists.learn(7)
        assert lists.sent == []
        await asyncio.wait_for(lists.has_sent.wait(), PATIENCE_S)
        assert lists.addresses() == [[7]]

    on_loop(test)


def test_a_sample_is_sent_again_only_after_its_acknowledgement() -> None:
    async def test(lists: Lists) -> None:
        lists.lists.set_max_samples(LIST, 2)
        lists.learn(1, 1, 2, 2, 1)
        assert lists.addresses() == [[1, 2]]
        lists.lists.acknowledge(LIST, 0, [1, 9])  # 9: there is no such sample
        lists.learn(1, 2, 3)
        assert lists.addresses()[1:] == [[2, 3]]
        lists.lists.acknowledge(LIST, 0, None)
        lists.lists.acknowledge(LIST, 99, None)
        lists.learn(2, 1, 4)
        assert [each.buffer_id for each in lists.sent] == [0, 1, 2]
        assert lists.addresses()[2:] == [[1, 4]]

    on_loop(test)


def test_another_program_begins_with_empty_lists() -> None:
    programs = [PROGRAM]

    async def test(lists: Lists) -> None:
        lists.lists.set_max_samples(LIST, 2)
        lists.learn(1)
        programs.append(load_program(ENTITIES.with_suffix(".json").read_bytes()))
        lists.learn(2, 3)
        assert lists.sent == []  # 16 samples again, and the first is forgotten
        lists.learn(*range(4, 18))
        assert lists.addresses() == [list(range(2, 18))]

    on_loop(test, programs)


def test_settings_of_a_list_are_checked() -> None:
    async def test(lists: Lists) -> None:
        with pytest.raises(RuntimeRefusal, match=mentions("INVALID_LIST_ID", "no learn list 9")):
            lists.lists.acknowledge(9, 0, None)
        with pytest.raises(RuntimeRefusal, match="expected 1 sample or more, got 0"):
            lists.lists.set_max_samples(LIST, 0)
        with pytest.raises(RuntimeRefusal, match="expected a timeout of 0 ms or more, got -1"):
            lists.lists.set_timeout(LIST, -1)

    on_loop(test)


def test_a_digest_reaches_a_client_and_recurs_after_an_acknowledgement_over_thrift(tmp_path: Path) -> None:
    pynng = pytest.importorskip("pynng")  # an extra, which `pip install ./packages/softswitch` leaves out
    address = f"ipc://{tmp_path}/notifications.ipc"
    with serving_thrift(ENTITIES, notifications=address) as switch, switch.connected() as clients:
        standard = clients["standard"]
        assert standard.bm_mgmt_get_info().notifications_socket == address
        standard.bm_learning_set_buffer_size(0, LIST, 1)
        with pynng.Sub0(dial=address, topics=[b""], recv_timeout=50) as client:
            first = _first_notification(switch, client, pynng.Timeout)
            client.recv_timeout = 1000 * PATIENCE_S
            ((sample, _),) = first.samples
            for again in (False, True):
                if again:
                    standard.bm_learning_ack(0, LIST, first.buffer_id, [0])
                learn(switch, sample)
                learn(switch, 0xABC000 + again)
                expected = [sample, 0xABC001] if again else [0xABC000]
                assert [parse(client.recv()).samples[0][0] for _ in expected] == expected
        standard.bm_learning_ack_buffer(0, LIST, first.buffer_id)
        with pytest.raises(declarations().Refused):
            standard.bm_learning_ack_buffer(0, 9, 0)


def test_an_address_that_cannot_be_used_is_refused() -> None:
    pytest.importorskip("pynng")
    with (
        pytest.raises(SwitchError, match=mentions("--notifications-addr", "tcp://nowhere.invalid")),
        serving_thrift(ENTITIES, notifications="tcp://nowhere.invalid"),
    ):
        pass


def test_a_program_with_digests_opens_bmv2s_default_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("pynng")
    monkeypatch.setattr(port, "DEFAULT_NOTIFICATIONS", f"ipc://{tmp_path}/bmv2-{{}}.ipc")
    address = f"ipc://{tmp_path}/bmv2-{DEVICE}.ipc"
    with serving_thrift(ENTITIES, opens_notifications=True) as first:
        assert _address_of(first) == address
        with serving_thrift(CONTROL, opens_notifications=True) as without_digests:
            assert _address_of(without_digests) is None
        assert caplog.messages == []
        with serving_thrift(ENTITIES, opens_notifications=True) as second:  # its address is in use
            assert _address_of(second) is None
        assert [message for message in caplog.messages if address in message] == caplog.messages != []
        monkeypatch.setattr(port, "find_spec", lambda name: None)
        with serving_thrift(ENTITIES, notifications=f"{address}2") as without_pynng:
            assert _address_of(without_pynng) is None


def test_without_notifications_a_call_on_a_learn_list_is_refused() -> None:
    with (
        serving_thrift(ENTITIES) as switch,
        switch.connected() as clients,
        pytest.raises(TApplicationException) as refused,
    ):
        clients["standard"].bm_learning_ack_buffer(0, LIST, 0)
    assert refused.value.message.startswith("digests are not sent over nanomsg")


def _address_of(switch: ThriftSwitch) -> str | None:
    with switch.connected() as clients:
        address: str | None = clients["standard"].bm_mgmt_get_info().notifications_socket
        return address


def learn(switch: ThriftSwitch, address: int) -> None:
    switch.ports.notice_end.send(json.dumps([0, [address, 3]]).encode())


def _first_notification(switch: ThriftSwitch, client: Any, timed_out: type[Exception]) -> Notification:
    """Play packets until a notification arrives: those before the switch knows the client are lost."""
    for address in count(1):
        learn(switch, address)
        try:
            return parse(client.recv())
        except timed_out:
            assert address < PATIENCE_S / 0.05, "no notification has arrived"
    raise AssertionError("unreachable")
