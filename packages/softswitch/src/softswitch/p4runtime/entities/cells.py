"""Counters, meters and registers: cells by array ID and index (P4Runtime 1.4 §9.3.2, §9.4.2, §9.7).

BMv2 answers UNIMPLEMENTED to writes and reads of registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from grpc import StatusCode

from softswitch.p4runtime.batch import MODIFY, Batch
from softswitch.p4runtime.codecs.data import to_data, value_of
from softswitch.p4runtime.codecs.translation import Translation
from softswitch.p4runtime.messages import p4i, p4r
from softswitch.p4runtime.p4info import CounterInfo, MeterInfo, RegisterInfo
from softswitch.p4runtime.status import Refusal, find_by_id, invalid, unimplemented
from softswitch.pipeline import ControlPlane, CounterValue, MeterConfig

CHUNK = 1024  # cells read from the pipeline at a time
CellEntry = p4r.CounterEntry | p4r.MeterEntry | p4r.RegisterEntry


class SizedArray(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def index_translation(self) -> Translation | None: ...


A = TypeVar("A", bound=SizedArray)
V = TypeVar("V")


class Arrays(Generic[A]):
    def __init__(self, kind: str, arrays: Mapping[int, A], pipeline: ControlPlane) -> None:
        self._kind = kind
        self._arrays = arrays
        self._pipeline = pipeline

    def _check_write(self, update_type: int, array_id: int, message: CellEntry) -> tuple[A, range]:
        array = self._array(array_id)
        if update_type != MODIFY:
            raise invalid(f"{self._kind} {array.name} can only be modified")
        return array, self._indices(array, message)

    def _chunks(self, array_id: int, message: CellEntry) -> list[tuple[A, int, int]]:
        """Return the cells that a query selects, as (array, start, stop) of at most CHUNK cells."""
        if not array_id and message.HasField("index"):
            raise invalid(f"an index is given without a {self._kind} ID")
        arrays = [self._array(array_id)] if array_id else self._arrays.values()
        return [
            (array, start, min(start + CHUNK, indices.stop))
            for array in arrays
            for indices in [self._indices(array, message)]
            for start in indices[::CHUNK]
        ]

    def _array(self, array_id: int) -> A:
        return find_by_id(self._arrays, array_id, self._kind)

    def _indices(self, array: A, message: CellEntry) -> range:
        if not message.HasField("index"):
            return range(array.size)
        index, location = message.index.index, f"{self._kind} {array.name}"
        if index < 0:
            raise invalid(f"{location}: index {index} is negative")
        if array.index_translation is not None:
            index = array.index_translation.cell_index(index, location)
        if index >= array.size:
            raise Refusal(
                StatusCode.OUT_OF_RANGE,
                f"{location}: index {index} is beyond the last, {array.size - 1}",
            )
        return range(index, index + 1)

    def _read(
        self, array_id: int, query: CellEntry, read: Callable[[str, int, int], list[V]]
    ) -> Iterator[tuple[A, int, V]]:
        """Read the cells that a query selects now; yield array, controllers' index and value of each."""
        chunks = [
            (array, start, read(array.name, start, stop))
            for array, start, stop in self._chunks(array_id, query)
        ]
        return (
            (array, index, value)
            for array, start, values in chunks
            for index, value in self._with_controller_index(array, start, values)
        )

    def _with_controller_index(self, array: A, start: int, values: Iterable[V]) -> Iterator[tuple[int, V]]:
        """Yield (index, value) of cells from `start` on, in controllers' indices; skip cells without one."""
        for cell, value in enumerate(values, start):
            index = (
                cell if array.index_translation is None else array.index_translation.controller_index(cell)
            )
            if index is not None:
                yield index, value


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
        cells = self._read(query.counter_id, query, self._pipeline.cells.read_counter)
        return (_counter_entity(*cell) for cell in cells)


def counter_value(data: p4r.CounterData) -> CounterValue:
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid(f"counter value {data.packet_count} packets, {data.byte_count} bytes is negative")
    return CounterValue(data.packet_count, data.byte_count)


def _counter_entity(array: CounterInfo, index: int, value: CounterValue) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.counter_entry
    message.counter_id, message.index.index = array.id, index
    message.data.packet_count, message.data.byte_count = value
    return entity


def decode_config(
    message: p4r.MeterConfig, meter_type: p4i.MeterSpec.Type.ValueType, location: str
) -> MeterConfig:
    config = MeterConfig(message.cir, message.cburst, message.pir, message.pburst)
    if min(*config, message.eburst) < 0:
        raise invalid(f"{location}: expected rates and bursts of at least 0, got {_format_config(message)}")
    if message.eburst and meter_type != p4i.MeterSpec.SINGLE_RATE_THREE_COLOR:
        raise invalid(f"{location}: eburst {message.eburst} is for single-rate three-color meters only")
    if message.eburst:
        raise unimplemented(f"{location}: meters with an excess burst are not supported")
    committed = config.committed_rate, config.committed_burst
    if meter_type != p4i.MeterSpec.TWO_RATE_THREE_COLOR and committed != (
        config.peak_rate,
        config.peak_burst,
    ):
        raise invalid(
            f"{location}: a single-rate meter needs pir=cir and pburst=cburst, got {_format_config(message)}"
        )
    return config


def refuse_color_counters(message: p4r.MeterEntry | p4r.DirectMeterEntry) -> None:
    if message.HasField("counter_data"):
        raise unimplemented("counters of meter colors are not supported")


def encode_config(config: MeterConfig, message: p4r.MeterConfig) -> None:
    """Fill in a configuration, rounded to integers per second, because messages have no fractions."""
    message.cir, message.cburst, message.pir, message.pburst = map(round, config)


def _format_config(message: p4r.MeterConfig) -> str:
    return (
        f"cir={message.cir} cburst={message.cburst} pir={message.pir} "
        f"pburst={message.pburst} eburst={message.eburst}"
    )


class MeterEntries(Arrays[MeterInfo]):
    def __init__(self, arrays: Mapping[int, MeterInfo], pipeline: ControlPlane) -> None:
        super().__init__("meter", arrays, pipeline)
        self._configs: dict[tuple[int, int], MeterConfig] = {}

    def write(self, update_type: int, message: p4r.MeterEntry, batch: Batch) -> None:
        array, indices = self._check_write(update_type, message.meter_id, message)
        refuse_color_counters(message)
        config = None
        if message.HasField("config"):
            config = decode_config(message.config, array.type, f"meter {array.name}")
        self.configure(array, indices, config, batch)

    def configure(self, array: MeterInfo, indices: range, config: MeterConfig | None, batch: Batch) -> None:
        for index in indices:
            batch.put(self._configs, (array.id, index), config)

        def step(pipeline: ControlPlane) -> None:
            if len(indices) == array.size:
                pipeline.cells.fill_meter(array.name, config)
                return
            for index in indices:
                pipeline.cells.write_meter(array.name, index, config)

        batch.add(step)

    def config(self, array: MeterInfo, index: int) -> MeterConfig | None:
        return self._configs.get((array.id, index))

    def read(self, query: p4r.MeterEntry) -> Iterator[p4r.Entity]:
        refuse_color_counters(query)
        cells = [
            (array.id, index, cell)
            for array, start, stop in self._chunks(query.meter_id, query)
            for index, cell in self._with_controller_index(array, start, range(start, stop))
        ]
        configs = dict(self._configs)
        return (
            _meter_entity(meter_id, index, configs.get((meter_id, cell))) for meter_id, index, cell in cells
        )


def _meter_entity(meter_id: int, index: int, config: MeterConfig | None) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.meter_entry
    message.meter_id, message.index.index = meter_id, index
    if config is not None:
        encode_config(config, message.config)
    return entity


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
        cells = self._read(query.register_id, query, self._pipeline.cells.read_register)
        return (_register_entity(*cell) for cell in cells)


def _register_entity(array: RegisterInfo, index: int, value: int) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.register_entry
    message.register_id, message.index.index = array.id, index
    message.data.CopyFrom(to_data(array.shape, [value]))
    return entity
