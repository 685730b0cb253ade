"""Indexed counters and registers (P4Runtime 1.4 §9.3.2 and §9.7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from finsy.proto import p4r
from grpc import StatusCode

from softswitch.p4runtime import values
from softswitch.p4runtime.batch import MODIFY, Batch
from softswitch.p4runtime.direct_counters import counter_value
from softswitch.p4runtime.p4info import Array
from softswitch.p4runtime.status import Refusal, invalid
from softswitch.pipeline import CounterValue, Pipeline

CHUNK = 1024  # cells read from the pipeline at a time


class _Arrays:
    """What counters and registers have in common: cells by array ID and index, with wildcards."""

    def __init__(self, kind: str, arrays: Mapping[int, Array], pipeline: Pipeline) -> None:
        self._kind = kind
        self._arrays = arrays
        self._pipeline = pipeline

    def _array(self, identity: int) -> Array:
        array = self._arrays.get(identity)
        if array is None:
            raise invalid(f"no {self._kind} has ID {identity}")
        return array

    def _modified(self, update: int, identity: int, message: p4r.CounterEntry | p4r.RegisterEntry) -> range:
        """The indices that an update, which can only be a MODIFY, is about."""
        array = self._array(identity)
        if update != MODIFY:
            raise invalid(f"{self._kind} {array.name} can only be modified")
        return self._indices(array, message)

    def _chunks(
        self, identity: int, message: p4r.CounterEntry | p4r.RegisterEntry
    ) -> list[tuple[Array, int, int]]:
        """What a query selects, as (array, start, stop) of at most CHUNK cells."""
        if not identity and message.HasField("index"):
            raise invalid(f"an index is given without a {self._kind} ID")
        arrays = [self._array(identity)] if identity else self._arrays.values()
        return [
            (array, start, min(start + CHUNK, indices.stop))
            for array in arrays
            for indices in [self._indices(array, message)]
            for start in indices[::CHUNK]
        ]

    def _indices(self, array: Array, message: p4r.CounterEntry | p4r.RegisterEntry) -> range:
        if not message.HasField("index"):
            return range(array.size)
        index = message.index.index
        if index < 0:
            raise invalid(f"{self._kind} {array.name}: index {index} is negative")
        if index >= array.size:
            raise Refusal(
                StatusCode.OUT_OF_RANGE,
                f"{self._kind} {array.name}: index {index} is beyond the last, {array.size - 1}",
            )
        return range(index, index + 1)


class Counters(_Arrays):
    """The indexed counters."""

    def __init__(self, arrays: Mapping[int, Array], pipeline: Pipeline) -> None:
        super().__init__("counter", arrays, pipeline)

    def write(self, kind: int, message: p4r.CounterEntry, batch: Batch) -> None:
        """Check one update of a cell, or of all cells of a counter, and add it to the batch."""
        indices = self._modified(kind, message.counter_id, message)
        name, value = self._array(message.counter_id).name, counter_value(message.data)

        def step(pipeline: Pipeline) -> None:
            for index in indices:
                pipeline.write_counter(name, index, value)

        if message.HasField("data"):
            batch.steps.append(step)

    def read(self, wanted: p4r.CounterEntry) -> Iterator[p4r.Entity]:
        """One cell, all cells of a counter, or (ID 0) all cells of all counters."""
        chunks = self._chunks(wanted.counter_id, wanted)
        return (
            _counter_entity(array, index, value)
            for array, start, stop in chunks
            for index, value in enumerate(self._pipeline.read_counter(array.name, start, stop), start)
        )


class Registers(_Arrays):
    """The register arrays, each cell a `P4Data` bitstring. BMv2 answers UNIMPLEMENTED here."""

    def __init__(self, arrays: Mapping[int, Array], pipeline: Pipeline) -> None:
        super().__init__("register", arrays, pipeline)

    def write(self, kind: int, message: p4r.RegisterEntry, batch: Batch) -> None:
        """Check one update of a cell, or of all cells of a register array, and add it to the batch."""
        indices = self._modified(kind, message.register_id, message)
        array = self._array(message.register_id)
        given = message.data.WhichOneof("data")
        if given != "bitstring":
            raise invalid(f"register {array.name}: data is {given or 'missing'}, a bitstring is right")
        value = values.decode(message.data.bitstring, array.width, f"register {array.name}")

        def step(pipeline: Pipeline) -> None:
            for index in indices:
                pipeline.write_register(array.name, index, value)

        batch.steps.append(step)

    def read(self, wanted: p4r.RegisterEntry) -> Iterator[p4r.Entity]:
        """One cell, all cells of a register array, or (ID 0) all cells of all register arrays."""
        chunks = self._chunks(wanted.register_id, wanted)
        return (
            _register_entity(array, index, value)
            for array, start, stop in chunks
            for index, value in enumerate(self._pipeline.read_register(array.name, start, stop), start)
        )


def _counter_entity(array: Array, index: int, value: CounterValue) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.counter_entry
    message.counter_id, message.index.index = array.id, index
    message.data.packet_count, message.data.byte_count = value
    return entity


def _register_entity(array: Array, index: int, value: int) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.register_entry
    message.register_id, message.index.index = array.id, index
    message.data.bitstring = values.encode(value)
    return entity
