"""What a data plane has to have, by the P4Runtime messages that the server answers with, or a model's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from finsy.proto import p4i, p4r

from softswitch.ir import Masked, Match, RangeMatch
from softswitch.pipeline import ActionCall, Pipeline, Replica
from switch_harness.dataplane_state import Buckets, Stored, stored

_US_PER_S = 1e6


def check_dataplane(pipeline: Pipeline, entities: Iterable[p4r.Entity], p4info: p4i.P4Info) -> None:
    reader = _Reader(p4info)
    for entity in entities:
        reader.add(entity)
    wanted = reader.normalized(reader.state())  # first, because it finds the one-shots
    found = reader.normalized(stored(pipeline))
    assert found == wanted, _difference(found, wanted)


def _difference(found: Stored, wanted: Stored) -> str:
    keys = [key for key in {**found, **wanted} if found.get(key) != wanted.get(key)]
    return "; ".join(f"{key}: {found.get(key)}, not {wanted.get(key)}" for key in keys)


class _Reader:
    def __init__(self, p4info: p4i.P4Info) -> None:
        groups: list[Any] = [
            value for field, value in p4info.ListFields() if field.name not in ("pkg_info", "type_info")
        ]
        self.names = {item.preamble.id: item.preamble.name for group in groups for item in group}
        self.tables = {table.preamble.id: table for table in p4info.tables}
        self.params = {action.preamble.id: action.params for action in p4info.actions}
        self.with_counter = {counter.direct_table_id for counter in p4info.direct_counters}
        self.found: Stored = {}
        self.arrays: dict[tuple[str, str], dict[int, Any]] = {}
        self.entries: list[p4r.TableEntry] = []
        self.one_shots: dict[str, list[list[ActionCall]]] = {}

    def add(self, entity: p4r.Entity) -> None:
        kind = entity.WhichOneof("entity")
        message: Any = getattr(entity, kind or "")
        match kind:
            case "table_entry" if message.is_default_action:
                action = self._call(message.action.action) if message.HasField("action") else None
                self.found["default", self.names[message.table_id]] = action
            case "table_entry":
                self.entries.append(message)
            case "action_profile_member":
                name = self.names[message.action_profile_id]
                self.found["member", name, message.member_id] = self._call(message.action)
            case "action_profile_group":
                listed = tuple(m.member_id for m in message.members for _ in range(m.weight))
                self.found["group", self.names[message.action_profile_id], message.group_id] = listed
            case "counter_entry":
                self._add_cell("counter", message.counter_id, message, _counter(message.data))
            case "meter_entry":
                value = _buckets(message.config) if message.HasField("config") else ()
                self._add_cell("meter", message.meter_id, message, value)
            case "register_entry":
                number = int.from_bytes(message.data.bitstring, "big")
                self._add_cell("register", message.register_id, message, number)
            case "value_set_entry":
                members = [int.from_bytes(m.match[0].exact.value, "big") for m in message.members]
                self.found["value set", self.names[message.value_set_id]] = members
            case "packet_replication_engine_entry":
                self._add_replication(message)

    def _add_cell(self, kind: str, array: int, message: Any, value: Any) -> None:
        self.arrays.setdefault((kind, self.names[array]), {})[message.index.index] = value

    def _add_replication(self, message: p4r.PacketReplicationEngineEntry) -> None:
        if message.HasField("multicast_group_entry"):
            group = message.multicast_group_entry
            if group.replicas:
                self.found["multicast", group.multicast_group_id] = _replicas(group.replicas)
            return
        session = message.clone_session_entry
        if session.replicas or session.packet_length_bytes:
            copies = _replicas(session.replicas)
            self.found["clone", session.session_id] = copies, session.packet_length_bytes

    def state(self) -> Stored:
        for (kind, name), cells in self.arrays.items():
            self.found[kind, name] = [cells[index] for index in sorted(cells)]
        for entry in self.entries:
            table = self.tables[entry.table_id]
            counter = _counter(entry.counter_data) if entry.table_id in self.with_counter else (0, 0)
            meter = _buckets(entry.meter_config) if entry.HasField("meter_config") else ()
            key = tuple(_match(field, entry) for field in table.match_fields)
            calls = self._calls(table, entry.action)
            self.found["entry", table.preamble.name, key, entry.priority] = calls, counter, meter
        for profile, one_shots in self.one_shots.items():
            for number, calls_of_one in enumerate(one_shots):
                for index, call in enumerate(calls_of_one):
                    self.found["member", profile, (number, index)] = call
        return self.found

    def _calls(self, table: p4i.Table, action: p4r.TableAction) -> tuple[ActionCall, ...]:
        profile = self.names.get(table.implementation_id, "")
        match action.WhichOneof("type"):
            case "action_profile_member_id":
                return (self.found["member", profile, action.action_profile_member_id],)
            case "action_profile_group_id":
                listed = self.found["group", profile, action.action_profile_group_id]
                return tuple(self.found["member", profile, member] for member in listed)
            case "action_profile_action_set":
                members = action.action_profile_action_set.action_profile_actions
                self.one_shots.setdefault(profile, []).append([self._call(m.action) for m in members])
                return tuple(self._call(m.action) for m in members for _ in range(m.weight))
        return (self._call(action.action),)

    def _call(self, action: p4r.Action) -> ActionCall:
        values = {param.param_id: int.from_bytes(param.value, "big") for param in action.params}
        return ActionCall(
            self.names[action.action_id], tuple(values[p.id] for p in self.params[action.action_id])
        )

    def normalized(self, state: Stored) -> Stored:
        """Sort what has an order of the server's (`test_p4runtime_selection`); drop numbers of one-shots."""
        result: Stored = {}
        calls: dict[str, list[ActionCall]] = {profile: [] for profile in self.one_shots}
        for key, value in state.items():
            match key:
                case ("default", name) if name not in self.names.values():
                    pass  # of a table that p4c made, which P4Info lacks
                case ("default", name) if self._is_indirect(name):
                    pass  # constant in P4Runtime
                case ("member", profile, _) if profile in self.one_shots:
                    calls[profile].append(value)
                case ("group", profile, _) if profile in self.one_shots:
                    pass  # found by the entries that have them
                case ("group", *_) | ("multicast", _):
                    result[key] = sorted(value)
                case ("clone", _):
                    result[key] = sorted(value[0]), value[1]
                case ("entry", *_):
                    result[key] = sorted(value[0]), *value[1:]
                case _:
                    result[key] = value
        for profile, found in calls.items():
            result["one-shot members", profile] = sorted(found)
        return result

    def _is_indirect(self, name: str) -> bool:
        return any(t.preamble.name == name and t.implementation_id for t in self.tables.values())


def _counter(data: p4r.CounterData) -> tuple[int, int]:
    return data.packet_count, data.byte_count


def _buckets(config: p4r.MeterConfig) -> Buckets:
    return (config.pir / _US_PER_S, config.pburst), (config.cir / _US_PER_S, config.cburst)


def _replicas(replicas: Iterable[p4r.Replica]) -> list[Replica]:
    return [
        Replica(r.egress_port if r.HasField("egress_port") else int.from_bytes(r.port, "big"), r.instance)
        for r in replicas
    ]


def _match(field: p4i.MatchField, entry: p4r.TableEntry) -> Match:
    (message,) = [match for match in entry.match if match.field_id == field.id] or [p4r.FieldMatch()]
    ones = (1 << field.bitwidth) - 1
    number = int.from_bytes
    match message.WhichOneof("field_match_type"):
        case "exact":
            return number(message.exact.value, "big")
        case "lpm":
            return Masked(number(message.lpm.value, "big"), ones & ~(ones >> message.lpm.prefix_len))
        case "ternary":
            return Masked(number(message.ternary.value, "big"), number(message.ternary.mask, "big"))
        case "range":
            return RangeMatch(number(message.range.low, "big"), number(message.range.high, "big"))
        case "optional":
            return Masked(number(message.optional.value, "big"), ones)
    return RangeMatch(0, ones) if field.match_type == p4i.MatchField.RANGE else Masked(0, 0)
