"""Indexed counters: writes and reads of `CounterEntry` (P4Runtime 1.4 §9.3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from softswitch.p4runtime.batch import Batch
from softswitch.p4runtime.entities.arrays import Arrays
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import CounterInfo
from softswitch.p4runtime.status import invalid
from softswitch.pipeline import ControlPlane, CounterValue


class CounterEntries(Arrays[CounterInfo]):
    def __init__(self, arrays: Mapping[int, CounterInfo], pipeline: ControlPlane) -> None:
        super().__init__("counter", arrays, pipeline)

    def write(self, update_type: int, message: p4r.CounterEntry, batch: Batch) -> None:
        array, indices = self._check_write(update_type, message.counter_id, message)
        value = counter_value(message.data)

        def step(pipeline: ControlPlane) -> None:
            if message.HasField("index"):
                pipeline.cells.write_counter(array.name, indices.start, value)
            else:
                pipeline.cells.fill_counter(array.name, value)

        if message.HasField("data"):
            batch.add(step)

    def read(self, query: p4r.CounterEntry) -> Iterator[p4r.Entity]:
        chunks = [
            (array, start, self._pipeline.cells.read_counter(array.name, start, stop))
            for array, start, stop in self._chunks(query.counter_id, query)
        ]
        return (
            _make_entity(array, index, value)
            for array, start, values in chunks
            for index, value in self._with_controller_index(array, start, values)
        )


def counter_value(data: p4r.CounterData) -> CounterValue:
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid(f"counter value {data.packet_count} packets, {data.byte_count} bytes is negative")
    return CounterValue(data.packet_count, data.byte_count)


def _make_entity(array: CounterInfo, index: int, value: CounterValue) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.counter_entry
    message.counter_id, message.index.index = array.id, index
    message.data.packet_count, message.data.byte_count = value
    return entity
