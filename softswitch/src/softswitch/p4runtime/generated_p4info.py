"""P4Info generated from BMv2 JSON, for commands on programs without P4Info.

All actions of a table are allowed in entries and as its default, as in BMv2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeVar

from softswitch.errors import ProgramError
from softswitch.ir import MatchKind, Program
from softswitch.p4runtime.messages import p4i, p4r

T = TypeVar("T")
# The first byte of an ID is the type of the object (P4Runtime 1.4 §6.3).
_TABLE, _ACTION, _VALUE_SET, _PROFILE = 0x02, 0x01, 0x03, 0x11
_COUNTER, _DIRECT_COUNTER, _METER, _DIRECT_METER, _REGISTER = 0x12, 0x13, 0x14, 0x15, 0x16
_KINDS = {
    MatchKind.EXACT: p4i.MatchField.EXACT,
    MatchKind.LPM: p4i.MatchField.LPM,
    MatchKind.TERNARY: p4i.MatchField.TERNARY,
    MatchKind.RANGE: p4i.MatchField.RANGE,
    MatchKind.OPTIONAL: p4i.MatchField.OPTIONAL,
}


def generate_config(data: bytes, program: Program) -> p4r.ForwardingPipelineConfig:
    try:
        names = {
            item["name"]: [p["name"] for p in item["runtime_data"]] for item in json.loads(data)["actions"]
        }
    except (KeyError, TypeError) as error:
        raise ProgramError(f"not a BMv2 program as p4c prints it: {error}") from error
    return p4r.ForwardingPipelineConfig(p4info=_P4InfoBuilder(program, names).message, p4_device_config=data)


class _P4InfoBuilder:
    def __init__(self, program: Program, parameters: dict[str, list[str]]) -> None:
        self.message = p4i.P4Info()
        self._program = program
        self._parameters = parameters
        self._actions = {action.name: _ACTION << 24 | i for i, action in enumerate(program.actions, 1)}
        self._tables = {name: _TABLE << 24 | i for i, name in enumerate(program.tables, 1)}
        for name, identity in self._actions.items():
            self._add_action(name, identity)
        for name in program.tables:
            self._add_table(name)
        self._add_profiles()
        self._add_cells()

    def _add_action(self, name: str, identity: int) -> None:
        action = next(action for action in self._program.actions if action.name == name)
        message = self.message.actions.add()
        _name(message.preamble, identity, name)
        parameters = zip(action.parameters, self._parameters[name], strict=True)
        for i, (width, parameter) in enumerate(parameters, 1):
            message.params.add(id=i, name=parameter, bitwidth=width)

    def _add_table(self, name: str) -> None:
        table, message = self._program.tables[name], self.message.tables.add()
        _name(message.preamble, self._tables[name], name)
        for i, field in enumerate(table.key, 1):
            message.match_fields.add(
                id=i, name=field.name, bitwidth=field.width, match_type=_KINDS[field.kind]
            )
        for action_name in dict.fromkeys(self._program.actions[index].name for index in table.actions):
            message.action_refs.add(id=self._actions[action_name])
        if table.default is not None and table.default_is_const:
            default = self._program.actions[table.default.action].name
            message.const_default_action_id = self._actions[default]
        if table.profile is not None:
            message.implementation_id = _PROFILE << 24 | table.profile + 1
        message.size, message.is_const_table = table.size, table.is_immutable
        if table.has_idle_timeout:
            message.idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL

    def _add_profiles(self) -> None:
        for i, profile in enumerate(self._program.profiles):
            message = self.message.action_profiles.add(
                with_selector=profile.selector is not None, size=profile.size
            )
            _name(message.preamble, _PROFILE << 24 | i + 1, profile.name)
            users = [self._tables[name] for name, table in self._program.tables.items() if table.profile == i]
            message.table_ids.extend(users)

    def _add_cells(self) -> None:
        for i, (name, identity) in enumerate(self._tables.items(), 1):
            table = self._program.tables[name]
            if table.has_counter:
                direct_counter = self.message.direct_counters.add(direct_table_id=identity)
                _name(direct_counter.preamble, _DIRECT_COUNTER << 24 | i, f"{name}.counter")
            if table.meter is not None:
                direct_meter = self.message.direct_meters.add(direct_table_id=identity)
                _name(direct_meter.preamble, _DIRECT_METER << 24 | i, f"{name}.meter")
        for identity, counter in _with_ids(_COUNTER, self._program.counters):
            _name(self.message.counters.add(size=counter.size).preamble, identity, counter.name)
        for identity, meter in _with_ids(_METER, self._program.meters):
            _name(self.message.meters.add(size=meter.size).preamble, identity, meter.name)
        for identity, register in _with_ids(_REGISTER, self._program.registers):
            cells = self.message.registers.add(size=register.size)
            _name(cells.preamble, identity, register.name)
            cells.type_spec.bitstring.bit.bitwidth = register.width
        for identity, value_set in _with_ids(_VALUE_SET, self._program.value_sets):
            members = self.message.value_sets.add(size=value_set.size)
            _name(members.preamble, identity, value_set.name)
            for i, width in enumerate(value_set.widths, 1):
                members.match.add(id=i, name=f"part{i}", bitwidth=width, match_type=p4i.MatchField.EXACT)


def _with_ids(kind: int, items: tuple[T, ...]) -> Iterator[tuple[int, T]]:
    return ((kind << 24 | i, item) for i, item in enumerate(items, 1))


def _name(preamble: p4i.Preamble, identity: int, name: str) -> None:
    preamble.id, preamble.name, preamble.alias = identity, name, name
