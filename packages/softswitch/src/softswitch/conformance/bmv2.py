"""BMv2 as a target: a new `simple_switch_grpc` for each program, controlled over P4Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NoReturn

from softswitch import processes
from softswitch.conformance.client import P4RuntimeClient
from softswitch.conformance.dataplane import Dataplane
from softswitch.conformance.encoding import EntityEncoder, clone_session, multicast_group
from softswitch.conformance.errors import P4RuntimeError, TargetError, Unsupported
from softswitch.p4runtime.messages import p4i, p4r
from softswitch.pipeline import (
    CounterValue,
    EntryAction,
    EntryKey,
    EntryWrite,
    MeterConfig,
    Output,
    Replica,
)


@contextmanager
def running_switch(cpu_port: int | None = None) -> Iterator[tuple[P4RuntimeClient, Dataplane]]:
    with processes.reserved_port() as port:
        address = f"127.0.0.1:{port}"
        options = ["--dp-grpc-server-addr", address]
        with processes.bmv2(cpu_port=cpu_port, target_options=options) as switch:
            try:
                with P4RuntimeClient(switch.address) as client, closing(Dataplane(address)) as dataplane:
                    yield client, dataplane
            except TargetError as error:
                exit_error = switch.exit_error()
                if exit_error is None:
                    raise
                raise exit_error from error


@contextmanager
def open_bmv2(config: p4r.ForwardingPipelineConfig) -> Iterator[Bmv2]:
    with running_switch() as (client, dataplane):
        client.set_pipeline(config)
        dataplane.wait_until_started()
        yield Bmv2(client, dataplane, config.p4info)


class Bmv2:
    def __init__(self, client: P4RuntimeClient, dataplane: Dataplane, p4info: p4i.P4Info) -> None:
        self._dataplane = dataplane
        encoder = EntityEncoder(p4info)
        self.tables = Bmv2Tables(client, encoder)
        self.cells = Bmv2Cells(client, encoder)
        self.replication = Bmv2Replication(client)

    def process(self, port: int, frame: bytes, _t_in: int, _now: int) -> list[Output]:
        """Process a frame; BMv2 has its own clock, so the times are ignored."""
        return self._dataplane.process(port, frame)


class Bmv2Tables:
    def __init__(self, client: P4RuntimeClient, encoder: EntityEncoder) -> None:
        self._client, self._encoder = client, encoder

    def write(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        return [self._write(write) for write in writes]

    def _write(self, write: EntryWrite) -> Exception | None:
        try:
            self._client.write(self._encoder.update(write))
        except P4RuntimeError as error:
            return error
        return None

    def set_default(self, table: str, action: EntryAction | None) -> None:
        _modify(self._client, self._encoder.default(table, action))

    def counter(self, entry: EntryKey) -> CounterValue:
        (entity,) = self._client.read(self._encoder.entry_counter(entry))
        return _counter_value(entity.direct_counter_entry.data)


class Bmv2Cells:
    def __init__(self, client: P4RuntimeClient, encoder: EntityEncoder) -> None:
        self._client, self._encoder = client, encoder

    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]:
        entities = self._client.read(*(self._encoder.counter(name, index) for index in range(start, stop)))
        return [_counter_value(entity.counter_entry.data) for entity in entities]

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        _modify(self._client, self._encoder.counter(name, index, value))

    def write_meter(self, name: str, index: int, config: MeterConfig | None) -> None:
        _modify(self._client, self._encoder.meter(name, index, config))

    def read_register(self, name: str, _start: int, _stop: int) -> list[int]:
        self._refuse_registers(name)

    def write_register(self, name: str, _index: int, _value: int) -> None:
        self._refuse_registers(name)

    def _refuse_registers(self, name: str) -> NoReturn:
        raise Unsupported(f"BMv2 does not serve registers over P4Runtime: {name}")


class Bmv2Replication:
    def __init__(self, client: P4RuntimeClient) -> None:
        self._client = client
        self._existing_keys: set[tuple[str, int]] = set()  # ("group" or "session", number)

    def write_multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        self._write(multicast_group(group, replicas), replicas, ("group", group))

    def write_clone_session(self, session: int, replicas: Sequence[Replica], length: int = 0) -> None:
        self._write(clone_session(session, replicas, length), replicas, ("session", session))

    def _write(self, entity: p4r.Entity, replicas: Sequence[Replica], key: tuple[str, int]) -> None:
        exists = key in self._existing_keys
        if replicas:
            kind = p4r.Update.MODIFY if exists else p4r.Update.INSERT
            self._client.write(p4r.Update(type=kind, entity=entity))
            self._existing_keys.add(key)
        elif exists:
            self._client.write(p4r.Update(type=p4r.Update.DELETE, entity=entity))
            self._existing_keys.remove(key)


def _modify(client: P4RuntimeClient, entity: p4r.Entity) -> None:
    client.write(p4r.Update(type=p4r.Update.MODIFY, entity=entity))


def _counter_value(data: p4r.CounterData) -> CounterValue:
    return CounterValue(data.packet_count, data.byte_count)
