"""The plain P4Runtime client of the conformance runner, and the programs that it reads."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from softswitch import processes
from softswitch.conformance.client import P4RuntimeClient, encode_writes, pipeline_config, read_p4info
from softswitch.conformance.encoding import EntityEncoder
from softswitch.conformance.errors import P4RuntimeError, TargetError
from softswitch.p4runtime.codecs import values
from softswitch.p4runtime.messages import p4r
from softswitch.pipeline import ActionCall, Change, EntryWrite
from switch_harness import PROGRAMS
from switch_harness.waiting import PATIENCE_S
from switch_harness.wording import mentions

CONTROL = PROGRAMS / "control"
CPU_PORT = 255


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with processes.softswitch(cpu_port=CPU_PORT) as switch:
        yield switch.address
    assert switch.process.returncode == 0


@pytest.fixture
def client(address: str) -> Iterator[P4RuntimeClient]:
    with P4RuntimeClient(address) as client:
        client.set_pipeline(pipeline_config(CONTROL))
        yield client


class LosesTheFirst(socketserver.BaseRequestHandler):
    """Break connections to the switch as soon as gRPC has established them; others work."""

    switch: tuple[str, int]
    lost: int

    def handle(self) -> None:
        if not self.lost:
            type(self).lost = 1
            self.request.sendall(b"\0\0\0\4" + bytes(5))  # HTTP/2's SETTINGS, and none of them
            return
        with socket.create_connection(self.switch) as switch, ThreadPoolExecutor(1) as answers:
            answers.submit(forward, switch, self.request)
            forward(self.request, switch)


def forward(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)


def test_a_connection_that_is_lost_at_once_is_made_again(address: str) -> None:
    host, _, port = address.rpartition(":")

    class Handler(LosesTheFirst):
        switch = host, int(port)
        lost = 0

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as between:
        thread = threading.Thread(target=between.serve_forever)
        thread.start()
        try:
            with P4RuntimeClient(f"127.0.0.1:{between.server_address[1]}") as client:
                client.set_pipeline(pipeline_config(CONTROL))
                client.write(entry(1))
        finally:
            between.shutdown()
            thread.join()
    assert Handler.lost == 1


def entry(address: int, change: Change = Change.INSERT) -> p4r.Update:
    encode = EntityEncoder(read_p4info(CONTROL))
    call = None if change is Change.DELETE else ActionCall("ControlIngress.forward_to", (CPU_PORT,))
    return encode.update(EntryWrite(change, "ControlIngress.forward", (address,), call))


def test_parameters_have_the_ids_of_p4info() -> None:
    p4info = read_p4info(CONTROL)
    action = next(each for each in p4info.actions if each.preamble.name == "ControlIngress.set_tag")
    action.params[1].id = 7
    call = EntityEncoder(p4info).call(ActionCall(action.preamble.name, (1, 2)))
    assert [(param.param_id, param.value) for param in call.params] == [(1, b"\1"), (7, b"\2")]


def test_written_entries_are_read_back(client: P4RuntimeClient) -> None:
    query = p4r.Entity(table_entry=entry(1).entity.table_entry)
    query.table_entry.ClearField("match")
    query.table_entry.ClearField("action")
    client.write(*(entry(address) for address in range(5)))
    client.send(encode_writes([entry(address) for address in range(5, 10)], size=2))
    client.write(entry(3, Change.DELETE))
    assert len(client.read(query)) == 9


def test_a_refusal_has_the_switch_s_words_and_code(client: P4RuntimeClient) -> None:
    with pytest.raises(P4RuntimeError, match=r"^code 5: ") as refused:
        client.write(entry(1), entry(2, Change.DELETE), entry(3, Change.DELETE))
    assert refused.value.code == 5
    with pytest.raises(P4RuntimeError, match=r"^INVALID_ARGUMENT: ") as refused:
        client.set_pipeline(p4r.ForwardingPipelineConfig(p4_device_config=b"{}"))
    assert refused.value.code == 3


def test_packets_come_back_from_the_cpu_port(client: P4RuntimeClient) -> None:
    frame = bytes(6) + bytes(range(58))
    client.packet_out((CPU_PORT << 7).to_bytes(2, "big") + frame, CPU_PORT, 0)
    packet = client.packets.get(timeout=PATIENCE_S)
    assert (packet.payload, packet.metadata[0].value) == (frame, b"\xff")


@pytest.mark.parametrize(
    ("number", "canonical"), [(0, "00"), (1, "01"), (255, "ff"), (256, "0100"), (1 << 64, "01" + "00" * 8)]
)
def test_integers_have_one_form(number: int, canonical: str) -> None:
    assert values.encode(number).hex() == canonical


def test_programs_that_cannot_be_read(tmp_path: Path) -> None:
    program = tmp_path / "p.json"
    with pytest.raises(TargetError, match=mentions("p.p4info.txtpb", "p4c-bm2-ss", "--p4runtime-files")):
        read_p4info(program)
    (tmp_path / "p.p4info.txtpb").write_text("nonsense")
    with pytest.raises(TargetError, match=mentions("p.p4info.txtpb", "P4Info", "format")):
        pipeline_config(program)
    (tmp_path / "p.p4info.txtpb").write_text("")
    with pytest.raises(TargetError, match=mentions("p.json", "directory")):
        pipeline_config(program)
