"""Register arrays: writes and reads of `RegisterEntry` (P4Runtime 1.4 §9.7). BMv2 answers UNIMPLEMENTED."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from softswitch.p4runtime.batch import Batch
from softswitch.p4runtime.codecs.data import to_data, value_of
from softswitch.p4runtime.entities.arrays import Arrays
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import RegisterInfo
from softswitch.pipeline import ControlPlane


class RegisterEntries(Arrays[RegisterInfo]):
    def __init__(self, arrays: Mapping[int, RegisterInfo], pipeline: ControlPlane) -> None:
        super().__init__("register", arrays, pipeline)

    def write(self, update_type: int, message: p4r.RegisterEntry, batch: Batch) -> None:
        array, indices = self._check_write(update_type, message.register_id, message)
        value = value_of(array.shape, message.data, f"register {array.name}")

        def step(pipeline: ControlPlane) -> None:
            if message.HasField("index"):
                pipeline.cells.write_register(array.name, indices.start, value)
            else:
                pipeline.cells.fill_register(array.name, value)

        if array.shape.translation is not None and array.shape.translation.has_strings:
            for index in indices:
                batch.hold_strings(("register", array.id, index))
        batch.add(step)

    def read(self, query: p4r.RegisterEntry) -> Iterator[p4r.Entity]:
        chunks = [
            (array, start, self._pipeline.cells.read_register(array.name, start, stop))
            for array, start, stop in self._chunks(query.register_id, query)
        ]
        return (
            _make_entity(array, index, value)
            for array, start, values in chunks
            for index, value in self._with_controller_index(array, start, values)
        )


def _make_entity(array: RegisterInfo, index: int, value: int) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.register_entry
    message.register_id, message.index.index = array.id, index
    message.data.CopyFrom(to_data(array.shape, [value]))
    return entity
