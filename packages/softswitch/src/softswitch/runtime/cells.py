"""Calls on registers, counters, meters and value sets; direct counters and meters are indexed by handle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from softswitch.p4runtime.batch import MODIFY
from softswitch.p4runtime.codecs.data import to_data
from softswitch.p4runtime.entities.cells import SizedArray, encode_config
from softswitch.p4runtime.entities.store import NO_EXTRAS, Key
from softswitch.p4runtime.entities.value_sets import make_matches
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import ValueSetInfo
from softswitch.p4runtime.status import Refusal
from softswitch.pipeline import CounterValue
from softswitch.runtime.base import (
    PL,
    has_integer_rates,
    make_meter_config,
    make_rates,
    set_entry_meter,
    update,
)
from softswitch.runtime.interface import RuntimeCount, RuntimeRate
from softswitch.runtime.keys import parse_value
from softswitch.runtime.refusals import TABLE, RuntimeRefusal
from softswitch.runtime.tables import TableCalls

REGISTER, COUNTER, METER, VALUE_SET = "register", "counter", "meter", "parser value set"
_UNKNOWN_NAME_CODES = {
    REGISTER: "INVALID_REGISTER_NAME",
    COUNTER: "INVALID_COUNTER_NAME",
    METER: "INVALID_METER_NAME",
    VALUE_SET: "INVALID_PARSE_VSET_NAME",
}


class SizedObject(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int:
        """Number of cells, or maximum number of members."""


N = TypeVar("N", bound=SizedObject)


class CellCalls(TableCalls[PL]):
    # -- registers

    def register_read(self, register: str, index: int | None) -> list[str]:
        control = self.control()
        array = _find_array(REGISTER, control.p4info.registers, register)
        cells = _select_indices(REGISTER, array, index)
        values = control.pipeline.cells.read_register(register, cells.start, cells.stop)
        return [f"{value:#x}" for value in values]

    def register_write(self, register: str, index: int | None, value: str) -> None:
        control = self.control()
        array = _find_array(REGISTER, control.p4info.registers, register)
        index = _find_controller_index(REGISTER, array, index)
        try:
            number = int(value, 0) & (1 << array.shape.width) - 1
        except ValueError:
            raise RuntimeRefusal(REGISTER, "ERROR", f"expected a number, got {value!r}") from None
        entry = p4r.RegisterEntry(register_id=array.id, data=to_data(array.shape, [number]))
        if index is not None:
            entry.index.index = index
        update(control, MODIFY, p4r.Entity(register_entry=entry))

    # -- counters

    def counter_read(self, counter: str, index: int) -> RuntimeCount:
        control = self.control()
        cells = _select_indices(COUNTER, _find_array(COUNTER, control.p4info.counters, counter), index)
        (value,) = control.pipeline.cells.read_counter(counter, cells.start, cells.stop)
        return _make_count(value)

    def counter_write(self, counter: str, index: int | None, packets: int, octets: int) -> None:
        control = self.control()
        array = _find_array(COUNTER, control.p4info.counters, counter)
        index = _find_controller_index(COUNTER, array, index)
        entry = p4r.CounterEntry(counter_id=array.id, data=_make_counter_data(packets, octets))
        if index is not None:
            entry.index.index = index
        update(control, MODIFY, p4r.Entity(counter_entry=entry))

    def entry_counter_read(self, table: str, handle: int) -> RuntimeCount:
        control, store = self._find_table(table)
        if not store.table.has_counter:
            raise RuntimeRefusal(TABLE, "COUNTERS_DISABLED", f"table {table} has no direct counter")
        key = self.key_of(control, table, handle)
        return _make_count(control.pipeline.tables.counter(store.entry_key(key)))

    def entry_counter_write(self, table: str, handle: int | None, packets: int, octets: int) -> None:
        control, store = self._find_table(table)
        if not store.table.has_counter:
            raise RuntimeRefusal(TABLE, "COUNTERS_DISABLED", f"table {table} has no direct counter")
        for key in self._select_keys(table, handle):
            message = p4r.DirectCounterEntry(data=_make_counter_data(packets, octets))
            store.fill_key(key, message.table_entry)
            update(control, MODIFY, p4r.Entity(direct_counter_entry=message))

    # -- meters

    def meter_rates(self, meter: str, index: int) -> list[RuntimeRate]:
        control = self.control()
        array = _find_array(METER, control.p4info.meters, meter)
        _select_indices(METER, array, index)  # raises if there is no such cell
        return make_rates(control.meters.config(array, index))

    def meter_set_rates(self, meter: str, index: int | None, rates: list[RuntimeRate]) -> None:
        control, config = self.control(), make_meter_config(rates)
        array = _find_array(METER, control.p4info.meters, meter)
        cells = _select_indices(METER, array, index)
        if not has_integer_rates(config):
            batch = self.require_unpinned("a rate with a fraction of a packet or byte per second").batch()
            control.meters.configure(array, cells, config, batch)
            batch.apply()
            return
        index = _find_controller_index(METER, array, index)
        entry = p4r.MeterEntry(meter_id=array.id)
        encode_config(config, entry.config)
        if index is not None:
            entry.index.index = index
        update(control, MODIFY, p4r.Entity(meter_entry=entry))

    def entry_meter_rates(self, table: str, handle: int) -> list[RuntimeRate]:
        control, store = self._find_table(table)
        if store.table.meter is None:
            raise RuntimeRefusal(TABLE, "METERS_DISABLED", f"table {table} has no direct meter")
        return make_rates(store.extras.get(self.key_of(control, table, handle), NO_EXTRAS).meter)

    def entry_meter_set_rates(self, table: str, handle: int | None, rates: list[RuntimeRate]) -> None:
        control, store = self._find_table(table)
        config = make_meter_config(rates)
        if store.table.meter is None:
            raise RuntimeRefusal(TABLE, "METERS_DISABLED", f"table {table} has no direct meter")
        if not has_integer_rates(config):
            self.require_unpinned("a rate with a fraction of a packet or byte per second")
        for key in self._select_keys(table, handle):
            if not has_integer_rates(config):
                set_entry_meter(control, store, key, config)
                continue
            message = p4r.DirectMeterEntry()
            store.fill_key(key, message.table_entry)
            encode_config(config, message.config)
            update(control, MODIFY, p4r.Entity(direct_meter_entry=message))

    def _select_keys(self, table: str, handle: int | None) -> list[Key]:
        control = self.control()
        if handle is not None:
            return [self.key_of(control, table, handle)]
        return [key for _, key in control.handles.handles_and_keys(table)]

    # -- value sets

    def value_set(self, name: str) -> list[str]:
        control = self.control()
        info = _find_array(VALUE_SET, control.p4info.value_sets, name)
        return [f"{_join_fields(info, member):#x}" for member in control.value_sets.members(info.id)]

    def value_set_write(self, name: str, values: list[str]) -> None:
        control = self.control()
        info = _find_array(VALUE_SET, control.p4info.value_sets, name)
        entry = p4r.ValueSetEntry(value_set_id=info.id)
        for text in values:
            member = parse_value(text, sum(field.width for field in info.key.fields), f"value set {name}")
            info.key.encode(make_matches(info, _split_fields(info, member)), entry.members.add())
        try:
            update(control, MODIFY, p4r.Entity(value_set_entry=entry))
        except Refusal as refusal:
            raise RuntimeRefusal(VALUE_SET, "ERROR", str(refusal)) from None


def _find_array(kind: str, arrays: Mapping[int, N], name: str) -> N:
    for array in arrays.values():
        if array.name == name:
            return array
    raise RuntimeRefusal(kind, _UNKNOWN_NAME_CODES[kind], f"the program has no {kind} {name}")


def _select_indices(kind: str, array: SizedObject, index: int | None) -> range:
    if index is None:
        return range(array.size)
    if not 0 <= index < array.size:
        text = f"{kind} {array.name} has cells 0 to {array.size - 1}, not {index}"
        raise RuntimeRefusal(kind, "INVALID_INDEX", text)
    return range(index, index + 1)


def _find_controller_index(kind: str, array: SizedArray, index: int | None) -> int | None:
    """Return the index by which P4Runtime knows a cell; None, which selects all cells, is kept."""
    _select_indices(kind, array, index)  # raises if there is no such cell
    if index is None or array.index_translation is None:
        return index
    controller_index = array.index_translation.controller_index(index)
    if controller_index is None:
        text = f"{kind} {array.name}: the type {array.index_translation.name} has no index of cell {index}"
        raise RuntimeRefusal(kind, "ERROR", text)
    return controller_index


def _make_counter_data(packets: int, octets: int) -> p4r.CounterData:
    if not (0 <= packets < 1 << 63 and 0 <= octets < 1 << 63):
        text = f"expected counts from 0 to 2^63 - 1, got {packets} packets, {octets} bytes"
        raise RuntimeRefusal(COUNTER, "ERROR", text)
    return p4r.CounterData(packet_count=packets, byte_count=octets)


def _make_count(value: CounterValue) -> RuntimeCount:
    return RuntimeCount(packets=value.packets, bytes=value.bytes)


def _join_fields(info: ValueSetInfo, member: Sequence[int]) -> int:
    joined_value = 0
    for value, field in zip(member, info.key.fields, strict=True):
        joined_value = joined_value << field.width | value
    return joined_value


def _split_fields(info: ValueSetInfo, joined_value: int) -> list[int]:
    parts = []
    for field in reversed(info.key.fields):
        parts.append(joined_value & field.full_mask)
        joined_value >>= field.width
    return parts[::-1]
