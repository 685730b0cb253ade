"""A plain P4Runtime client for tests: the same `EntryWrite`s that a `Pipeline` takes, to any target."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
from finsy.proto import p4i, p4r, p4r_grpc
from google.protobuf import text_format

from softswitch.pipeline import CounterValue, EntryWrite
from targets.encoding import Encoder, minimal
from tests.harness.waiting import PATIENCE_S

ELECTION_ID = 10


def load_p4info(path: Path) -> p4i.P4Info:
    return text_format.Parse(path.read_text(), p4i.P4Info())


class Client:
    """Primary controller of device 0 over one stream."""

    def __init__(self, address: str, p4info: p4i.P4Info, device_id: int) -> None:
        self.device_id = device_id
        self.channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(self.channel).result(timeout=PATIENCE_S)
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.p4info = p4info
        self.encode = Encoder(p4info)
        self.counters = {counter.preamble.id: counter for counter in p4info.counters}
        self.packets: queue.Queue[tuple[int, bytes]] = queue.Queue()
        self._arbitrated = threading.Event()
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read_stream)
        self._reader.start()
        arbitration = p4r.MasterArbitrationUpdate(device_id=device_id)
        arbitration.election_id.low = ELECTION_ID
        self._requests.put(p4r.StreamMessageRequest(arbitration=arbitration))
        assert self._arbitrated.wait(PATIENCE_S)

    def _read_stream(self) -> None:
        try:
            for message in self.stub.StreamChannel(iter(self._requests.get, None)):
                if message.HasField("packet"):
                    metadata = {item.metadata_id: item.value for item in message.packet.metadata}
                    self.packets.put((int.from_bytes(metadata[1], "big"), message.packet.payload))
                elif message.HasField("arbitration"):
                    self._arbitrated.set()
        except grpc.RpcError:
            pass

    def close(self) -> None:
        self._requests.put(None)
        self.channel.close()
        self._reader.join()

    def set_pipeline(self, program: bytes) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id, action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        )
        request.election_id.low = ELECTION_ID
        request.config.p4info.CopyFrom(self.p4info)
        request.config.p4_device_config = program
        self.stub.SetForwardingPipelineConfig(request, timeout=PATIENCE_S)

    def write(self, entries: list[EntryWrite]) -> None:
        self.update([self.encode(entry) for entry in entries])

    def update(self, updates: list[p4r.Update]) -> None:
        request = p4r.WriteRequest(device_id=self.device_id, updates=updates)
        request.election_id.low = ELECTION_ID
        self.stub.Write(request, timeout=PATIENCE_S)

    def packet_out(self, egress_port: int, payload: bytes) -> None:
        packet = p4r.PacketOut(payload=payload)
        packet.metadata.add(metadata_id=1, value=minimal(egress_port))
        packet.metadata.add(metadata_id=2, value=b"\0")
        self._requests.put(p4r.StreamMessageRequest(packet=packet))

    def read(self, *entities: p4r.Entity) -> Iterator[p4r.Entity]:
        request = p4r.ReadRequest(device_id=self.device_id, entities=entities)
        for response in self.stub.Read(request, timeout=PATIENCE_S):
            yield from response.entities

    def read_counters(self) -> dict[str, list[CounterValue]]:
        """Every cell of every indirect counter."""
        cells: dict[str, dict[int, CounterValue]] = {}
        for counter_id, counter in self.counters.items():
            wanted = p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=counter_id))
            for entity in self.read(wanted):
                data = entity.counter_entry.data
                value = CounterValue(data.packet_count, data.byte_count)
                cells.setdefault(counter.preamble.name, {})[entity.counter_entry.index.index] = value
        return {name: [by_index[i] for i in sorted(by_index)] for name, by_index in cells.items()}
