"""P4Info generated from BMv2 JSON, for commands and controllers of programs without P4Info.

All actions of a table are allowed in entries and as its default, as in BMv2; counters count both units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from softswitch.errors import ProgramError
from softswitch.ir import Action, DirectMeter, Meter, Program, Table
from softswitch.p4runtime.messages import p4i, p4r
from softswitch.p4runtime.p4info import MATCH_KINDS

T = TypeVar("T")
# The first byte of an ID is the type of the object (P4Runtime 1.4 §6.3).
_TYPE_SHIFT = 24
_ACTION, _TABLE, _VALUE_SET, _PROFILE = 0x01, 0x02, 0x03, 0x11
_COUNTER, _DIRECT_COUNTER, _METER, _DIRECT_METER, _REGISTER = 0x12, 0x13, 0x14, 0x15, 0x16
_MATCH_TYPES = {kind: match_type for match_type, kind in MATCH_KINDS.items()}


def generate_config(data: bytes, program: Program) -> p4r.ForwardingPipelineConfig:
    return p4r.ForwardingPipelineConfig(p4info=_P4InfoBuilder(program).message, p4_device_config=data)


class _P4InfoBuilder:
    def __init__(self, program: Program) -> None:
        self.message = p4i.P4Info()
        self._program = program
        self._action_ids = {
            action.name: _ACTION << _TYPE_SHIFT | i for i, action in enumerate(program.actions, 1)
        }
        self._table_ids = {
            name: _TABLE << _TYPE_SHIFT | i
            for i, (name, table) in enumerate(program.tables.items(), 1)
            if not self._is_hidden(table)
        }
        for name, action in program.entry_actions.items():
            self._add_action(name, action)
        for name in self._table_ids:
            self._add_table(name)
        self._add_profiles()
        self._add_cells()

    def _add_action(self, name: str, action: Action) -> None:
        message = self.message.actions.add()
        _fill_preamble(message.preamble, self._action_ids[name], name)
        parameters = zip(action.parameters, action.parameter_names, strict=True)
        for i, (width, parameter) in enumerate(parameters, 1):
            message.params.add(id=i, name=parameter, bitwidth=width)

    def _is_hidden(self, table: Table) -> bool:
        """Return whether p4c made the table for a direct call of an action that other tables have, too."""
        called = [self._program.actions[index] for index in table.actions]
        entry_actions = self._program.entry_actions
        different = [a.name for a in called if a.parameters != entry_actions[a.name].parameters]
        if different and table.key:
            raise ProgramError(
                f"table {table.name}: expected the parameters that action {different[0]} has in other tables"
            )
        return bool(different)

    def _add_table(self, name: str) -> None:
        table, message = self._program.tables[name], self.message.tables.add()
        _fill_preamble(message.preamble, self._table_ids[name], name)
        for i, field in enumerate(table.key, 1):
            message.match_fields.add(
                id=i, name=field.name, bitwidth=field.width, match_type=_MATCH_TYPES[field.kind]
            )
        for action_name in dict.fromkeys(self._program.actions[index].name for index in table.actions):
            message.action_refs.add(id=self._action_ids[action_name])
        if table.default is not None and table.default_is_const:
            default = self._program.actions[table.default.action].name
            message.const_default_action_id = self._action_ids[default]
        if table.profile is not None:
            # `table.profile` is an index; the numbers in IDs begin with 1.
            message.implementation_id = _PROFILE << _TYPE_SHIFT | table.profile + 1
        message.size, message.is_const_table = table.size, table.is_immutable
        if table.has_idle_timeout:
            message.idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL

    def _add_profiles(self) -> None:
        for i, profile in enumerate(self._program.profiles):
            message = self.message.action_profiles.add(
                with_selector=profile.selector is not None, size=profile.size
            )
            _fill_preamble(message.preamble, _PROFILE << _TYPE_SHIFT | i + 1, profile.name)
            table_ids = [
                table_id
                for name, table_id in self._table_ids.items()
                if self._program.tables[name].profile == i
            ]
            message.table_ids.extend(table_ids)

    def _add_cells(self) -> None:
        for i, message in enumerate(self.message.tables, 1):
            name, table = message.preamble.name, self._program.tables[message.preamble.name]
            if table.has_counter:
                direct_counter = self.message.direct_counters.add(direct_table_id=message.preamble.id)
                _fill_preamble(direct_counter.preamble, _DIRECT_COUNTER << _TYPE_SHIFT | i, f"{name}.counter")
                direct_counter.spec.unit = p4i.CounterSpec.BOTH
                message.direct_resource_ids.append(direct_counter.preamble.id)
            if table.meter is not None:
                direct_meter = self.message.direct_meters.add(direct_table_id=message.preamble.id)
                _fill_preamble(direct_meter.preamble, _DIRECT_METER << _TYPE_SHIFT | i, f"{name}.meter")
                direct_meter.spec.unit = _meter_unit(table.meter)
                message.direct_resource_ids.append(direct_meter.preamble.id)
        for object_id, counter in _assign_ids(_COUNTER, self._program.counters):
            counter_message = self.message.counters.add(size=counter.size)
            _fill_preamble(counter_message.preamble, object_id, counter.name)
            counter_message.spec.unit = p4i.CounterSpec.BOTH
        for object_id, meter in _assign_ids(_METER, self._program.meters):
            meter_message = self.message.meters.add(size=meter.size)
            _fill_preamble(meter_message.preamble, object_id, meter.name)
            meter_message.spec.unit = _meter_unit(meter)
        for object_id, register in _assign_ids(_REGISTER, self._program.registers):
            register_message = self.message.registers.add(size=register.size)
            _fill_preamble(register_message.preamble, object_id, register.name)
            register_message.type_spec.bitstring.bit.bitwidth = register.width
        for object_id, value_set in _assign_ids(_VALUE_SET, self._program.value_sets):
            value_set_message = self.message.value_sets.add(size=value_set.size)
            _fill_preamble(value_set_message.preamble, object_id, value_set.name)
            for i, width in enumerate(value_set.widths, 1):
                value_set_message.match.add(
                    id=i, name=f"part{i}", bitwidth=width, match_type=p4i.MatchField.EXACT
                )


def _meter_unit(meter: Meter | DirectMeter) -> p4i.MeterSpec.Unit.ValueType:
    return p4i.MeterSpec.BYTES if meter.counts_bytes else p4i.MeterSpec.PACKETS


def _assign_ids(object_type: int, items: tuple[T, ...]) -> Iterator[tuple[int, T]]:
    return ((object_type << _TYPE_SHIFT | i, item) for i, item in enumerate(items, 1))


def _fill_preamble(preamble: p4i.Preamble, object_id: int, name: str) -> None:
    preamble.id, preamble.name, preamble.alias = object_id, name, name
