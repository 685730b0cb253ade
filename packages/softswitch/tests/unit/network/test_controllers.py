"""Controllers in virtual time: P4Runtime, digests, idle timeouts, packet-ins, meters and commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from grpc import StatusCode

from softswitch.errors import SwitchError
from softswitch.network import CallRefused, Controller, Network
from softswitch.p4runtime.messages import p4i, p4r
from switch_harness.wording import mentions

LEARNING = Path(__file__).with_name("learning.p4")
CPU_PORT = 255
_NS_PER_S = 10**9
IDLE_NS = 2 * _NS_PER_S


@pytest.fixture
def net() -> Iterator[Network]:
    """Host a, switch s1, switch s2, host b."""
    with Network() as net:
        net.add_host("a", "10.0.0.1/24")
        net.add_host("b", "10.0.0.2/24")
        for name in ("s1", "s2"):
            switch = net.add_switch(name, LEARNING, cpu_port=CPU_PORT)
            switch.run("mc_mgrp_create 1", "mc_node_create 0 1 2", "mc_node_associate 1 0")
        net.add_link("a", "s1")
        net.add_link("s1", "s2", delay_us=100)
        net.add_link("s2", "b")
        yield net


def identifier(info: p4i.P4Info, kind: str, alias: str) -> int:
    [found] = [each.preamble.id for each in getattr(info, kind) if each.preamble.alias == alias]
    return int(found)


class LearningController:
    """Learns the sources of digests, each for `IDLE_NS` after its last frame."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.info = controller.get_pipeline().p4info
        self.learned: list[tuple[str, int]] = []
        self.forgotten: list[str] = []
        digest = p4r.DigestEntry(digest_id=self.info.digests[0].preamble.id)
        digest.config.max_list_size = 1
        self._update(p4r.Update.INSERT, p4r.Entity(digest_entry=digest))
        controller.on_digest(self._learn)
        controller.on_idle_timeout(self._forget)

    def _update(self, kind: int, *entities: p4r.Entity) -> None:
        request = p4r.WriteRequest()
        for entity in entities:
            request.updates.add(type=kind, entity=entity)
        self._controller.write(request)

    def _entry(self, table: str, address: bytes) -> p4r.Entity:
        entry = p4r.TableEntry(table_id=identifier(self.info, "tables", table))
        entry.match.add(field_id=1).exact.value = address
        return p4r.Entity(table_entry=entry)

    def _learn(self, digests: p4r.DigestList) -> None:
        for data in digests.data:
            source, port = (member.bitstring for member in data.struct.members)
            self.learned.append((source.hex(), int.from_bytes(port, "big")))
            known, destination = self._entry("sources", source), self._entry("destinations", source)
            known.table_entry.action.action.action_id = identifier(self.info, "actions", "NoAction")
            known.table_entry.idle_timeout_ns = IDLE_NS
            action = destination.table_entry.action.action
            action.action_id = identifier(self.info, "actions", "forward")
            action.params.add(param_id=1, value=port)
            self._update(p4r.Update.INSERT, known, destination)
        self._controller.acknowledge(digests)

    def _forget(self, notification: p4r.IdleTimeoutNotification) -> None:
        for entry in notification.table_entry:
            address = entry.match[0].exact.value
            self.forgotten.append(address.hex())
            for table in ("sources", "destinations"):
                self._update(p4r.Update.DELETE, self._entry(table, address))


def test_learning_controllers_end_the_flooding_and_forget_idle_hosts(net: Network) -> None:
    controllers = [LearningController(net.switch(name).connect()) for name in ("s1", "s2")]
    a, b = net.host("a"), net.host("b")
    a_mac, b_mac = (host.mac.replace(":", "").lstrip("0") for host in (a, b))
    ping = a.ping("10.0.0.2", count=3, every_us=1000)
    net.run(until_s=1)
    assert ping.received == 3
    for controller, ports in zip(controllers, ((1, 2), (1, 2)), strict=True):
        assert controller.learned == [(f"0{a_mac}", ports[0]), (f"0{b_mac}", ports[1])]
        assert controller.forgotten == []
    net.run(until_s=1.9)
    assert [controller.forgotten for controller in controllers] == [[], []]
    net.run(until_s=2.1)
    for controller in controllers:
        assert sorted(controller.forgotten) == sorted([f"0{a_mac}", f"0{b_mac}"])


def test_packet_ins_and_packet_outs_have_the_fields_of_their_headers(net: Network) -> None:
    controller = net.switch("s1").connect()
    packets: list[tuple[float, bytes, bytes]] = []

    def answer(packet: p4r.PacketIn) -> None:
        packets.append((net.now_us, packet.metadata[0].value, packet.payload))
        controller.packet_out(packet.payload, {1: packet.metadata[0].value})

    controller.on_packet_in(answer)
    net.switch("s1").run("table_add destinations punt 0x020000000002 =>")
    received: list[tuple[float, bytes]] = []
    net.host("a").on_frame(lambda frame: received.append((net.now_us, frame)))
    frame = bytes.fromhex("020000000002 020000000001 0800") + bytes(46)
    net.host("a").send(frame, at_us=7)
    net.run()
    assert packets == [(7, b"\x01", frame)]
    # The program drops what would leave where it came in, but this frame came from the CPU port.
    assert received == [(7, frame)]


def test_meters_let_a_burst_pass_and_then_their_rate_in_virtual_time(net: Network) -> None:
    # 1,000 packets a second: after a burst of 5, each millisecond brings one more.
    net.switch("s1").run("meter_set_rates rates 1 0.001:5 0.001:5")
    frame = bytes.fromhex("020000000002 020000000001 0800") + bytes(46)
    flow = net.host("a").send(frame, every_us=100, count=200)
    net.run()
    assert flow.received == 5 + 19


def test_refused_calls_raise_the_code_of_the_service(net: Network) -> None:
    controller = net.switch("s1").connect()
    request = p4r.WriteRequest()
    request.updates.add(type=p4r.Update.INSERT).entity.table_entry.table_id = 1
    with pytest.raises(CallRefused) as refusal:
        controller.write(request)
    assert refusal.value.code is StatusCode.UNKNOWN  # P4Runtime 1.4 §12.3: the details have each update's
    backup = net.switch("s1").connect(election_id=0)
    assert not backup.is_primary and controller.is_primary
    with pytest.raises(CallRefused) as refusal:
        backup.write(p4r.WriteRequest())
    assert refusal.value.code is StatusCode.PERMISSION_DENIED


def test_a_new_pipeline_takes_effect_between_two_frames(net: Network) -> None:
    controller = net.switch("s1").connect()
    config = controller.get_pipeline()
    flow = net.host("a").send(bytes.fromhex("ff" * 6 + "020000000001 0800"), every_us=10, count=10)
    # Without its multicast group, the new pipeline floods to no port.
    net.call_at(45, controller.set_pipeline, config)
    net.run()
    assert flow.received == 5


def test_packet_outs_need_a_cpu_port() -> None:
    with Network() as net:
        switch = net.add_switch("s", LEARNING)
        with pytest.raises(SwitchError, match=mentions("cpu_port")):
            switch.connect().packet_out(bytes(64), {1: b"\x01"})


def test_commands_set_rates_and_depths_of_queues(net: Network) -> None:
    s1 = net.switch("s1")
    s1.run("set_queue_rate 1000 2", "set_queue_depth 3 2")
    flow = net.host("a").send(
        bytes.fromhex("ff" * 6 + "020000000001 0800"), every_us=1, count=10, is_logged=True
    )
    net.run()
    arrivals_us = (flow.receipts().received / 1000).round().astype(int).tolist()
    # BMv2's rate: each packet is due a gap after the one before it, from the first on.
    assert arrivals_us == [100, 1100, 2100, 3100]  # one that found the queue empty, and three that waited
    assert s1.run("show_ports")
