"""A plain model of what P4Runtime writes to the program `entities.p4` do: codes, and what is read back.

The state maps keys to values, both plain tuples; `entity` returns what a client reads.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from finsy.proto import p4r

from softswitch.p4runtime.codecs import values
from switch_harness.foreign import read_p4info
from switch_harness.p4runtime import DELETE, ENTITIES, INSERT, MODIFY, identity_in

P4INFO = read_p4info(ENTITIES)
CELLS = 8
Key = tuple[Any, ...]


@cache
def named(alias: str) -> int:
    return identity_in(P4INFO, alias)


class Metered(NamedTuple):
    """An entry of table `metered`. None in a write leaves the counter, and makes the meter green."""

    port: int
    counter: tuple[int, int] | None
    meter: tuple[int, int, int, int] | None


class OneShot(NamedTuple):
    """The action of an entry that brings its group: ports and weights."""

    members: tuple[tuple[int, int], ...]


INITIAL: dict[Key, Any] = {
    **{("counter", i): (0, 0) for i in range(CELLS)},
    **{("meter", i): None for i in range(CELLS)},
    **{("register", i): 0 for i in range(CELLS)},
    ("value set",): (),
    ("default", "metered"): "NoAction",
    ("default", "seen"): "learn",
    ("default", "started"): "NoAction",
    ("started", 0x0800): "NoAction",
    ("started", 0x86DD): "drop",
}
ROOM = {"started": 2, "member nexthops": 4, "member paths": 8, "group": 8, "digest": 1}
FIELDS = {"counter": "counter_entry", "meter": "meter_entry", "register": "register_entry"}


class EntityModel:
    def __init__(self, state: dict[Key, Any] | None = None) -> None:
        self.state = dict(INITIAL if state is None else state)

    def do(self, kind: int, key: Key, value: Any) -> str:
        """Do one well-formed update; the code of the answer."""
        if key[0] in (*FIELDS, "value set", "default", "direct counter", "direct meter"):
            return self._modify(kind, key, value)
        if key[0] in ("member paths", "group") and self.one_shots():
            return "INVALID_ARGUMENT"
        if kind == INSERT and key in self.state:
            return "ALREADY_EXISTS"
        if kind != INSERT and key not in self.state:
            return "NOT_FOUND"
        if kind == DELETE:
            if any(key in references(*item) for item in self.state.items()):
                return "FAILED_PRECONDITION"
            del self.state[key]
            return "OK"
        if isinstance(value, OneShot) and (code := self._refused_one_shot(value)):
            return code
        if not references(key, value) <= self.state.keys():
            return "NOT_FOUND"
        same_kind = [other for other in self.state if other[0] == key[0]]
        if kind == INSERT and len(same_kind) >= ROOM.get(key[0], 64):
            return "RESOURCE_EXHAUSTED"
        if isinstance(value, Metered) and value.counter is None:
            value = value._replace(counter=self.state[key].counter if kind == MODIFY else (0, 0))
        self.state[key] = value
        return "OK"

    def _modify(self, kind: int, key: Key, value: Any) -> str:
        if kind != MODIFY:
            return "INVALID_ARGUMENT"
        if key[0] in ("direct counter", "direct meter"):
            of = ("metered", *key[1:])
            if of not in self.state:
                return "NOT_FOUND"
            self.state[of] = self.state[of]._replace(**{key[0].split()[1]: value})
        elif key[0] in FIELDS and key[1] is None:
            self.state |= {(key[0], index): value for index in range(CELLS)}
        else:
            self.state[key] = INITIAL[key] if key[0] == "default" and value is None else value
        return "OK"

    def one_shots(self) -> list[OneShot]:
        return [value for value in self.state.values() if isinstance(value, OneShot)]

    def _refused_one_shot(self, value: OneShot) -> str | None:
        if any(key[0] in ("member paths", "group") for key in self.state):
            return "INVALID_ARGUMENT"
        made = self.one_shots()
        members = sum(len(shot.members) for shot in made) + len(value.members)
        return "RESOURCE_EXHAUSTED" if members > ROOM["member paths"] or len(made) >= ROOM["group"] else None


def references(key: Key, value: Any) -> set[Key]:
    match key[0], value:
        case "routed", ("member", member):
            return {("member nexthops", member)}
        case "balanced", ("member", member):
            return {("member paths", member)}
        case "balanced", ("group", group):
            return {("group", group)}
        case "group", weights:
            return {("member paths", member) for member, _ in weights}
    return set()


# ---- messages


def entity(key: Key, value: Any) -> p4r.Entity:
    answer = p4r.Entity()
    match key:
        case ("counter" | "meter" | "register", index):
            _fill_cell(getattr(answer, FIELDS[key[0]]), key[0], index, value)
        case ("value set",):
            answer.value_set_entry.value_set_id = named("odd_types")
            for member in value:
                answer.value_set_entry.members.add().match.add(field_id=1).exact.value = values.encode(member)
        case ("default", table):
            message = answer.table_entry
            message.table_id, message.is_default_action = named(table), True
            if value is not None:
                message.action.action.action_id = named(value)
        case ("member nexthops" | "member paths", member):
            made = answer.action_profile_member
            made.action_profile_id, made.member_id = named(key[0].split()[1]), member
            _fill_call(made.action, value)
        case ("group", group):
            group_entry = answer.action_profile_group
            group_entry.action_profile_id, group_entry.group_id, group_entry.max_size = (
                named("paths"),
                group,
                20,
            )
            for member, weight in value:
                group_entry.members.add(member_id=member, weight=weight)
        case ("multicast", group):
            multicast_entry = answer.packet_replication_engine_entry.multicast_group_entry
            multicast_entry.multicast_group_id = group
            _fill_replicas(multicast_entry, value)
        case ("clone", session):
            session_entry = answer.packet_replication_engine_entry.clone_session_entry
            session_entry.session_id, session_entry.packet_length_bytes = session, value[0]
            session_entry.class_of_service = value[0] % 2
            _fill_replicas(session_entry, value[1])
        case ("digest",):
            answer.digest_entry.digest_id = named("learned_t")
            answer.digest_entry.config.max_list_size = value
        case ("direct counter", *of):
            _fill_match(answer.direct_counter_entry.table_entry, "metered", of)
            _fill_counter(answer.direct_counter_entry.data, value)
        case ("direct meter", *of):
            _fill_match(answer.direct_meter_entry.table_entry, "metered", of)
            if value is not None:
                _fill_config(answer.direct_meter_entry.config, value)
        case (table, *match):
            _fill_match(answer.table_entry, table, match)
            _fill_entry(answer.table_entry, value)
    return answer


def _fill_cell(message: Any, kind: str, index: int | None, value: Any) -> None:
    setattr(message, f"{kind}_id", named({"counter": "counts", "meter": "rates", "register": "cells"}[kind]))
    if index is not None:
        message.index.index = index
    if kind == "register":
        message.data.bitstring = values.encode(value)
    elif kind == "counter":
        _fill_counter(message.data, value)
    elif value is not None:
        _fill_config(message.config, value)


def _fill_counter(message: p4r.CounterData, value: tuple[int, int]) -> None:
    message.SetInParent()
    message.packet_count, message.byte_count = value


def _fill_config(message: p4r.MeterConfig, value: tuple[int, int, int, int]) -> None:
    message.SetInParent()
    message.cir, message.cburst, message.pir, message.pburst = value


def _fill_call(message: p4r.Action, port: int) -> None:
    message.action_id = named("forward_to")
    message.params.add(param_id=1, value=values.encode(port))


def _fill_replicas(message: Any, replicas: tuple[tuple[int, int], ...]) -> None:
    for port, instance in replicas:
        message.replicas.add(port=values.encode(port), instance=instance)


def _fill_match(message: p4r.TableEntry, table: str, key: Any) -> None:
    message.table_id = named(table)
    match table, key:
        case "balanced", (value, length):
            if length:
                lpm = message.match.add(field_id=1).lpm
                lpm.value, lpm.prefix_len = values.encode(value), length
        case "metered", (value, mask, priority):
            message.priority = priority
            if mask:
                ternary = message.match.add(field_id=1).ternary
                ternary.value, ternary.mask = values.encode(value), values.encode(mask)
        case _, (value,):
            message.match.add(field_id=1).exact.value = values.encode(value)


def _fill_entry(message: p4r.TableEntry, value: Any) -> None:
    match value:
        case Metered(port, counter, meter):
            message.action.action.action_id = named("forward_metered")
            message.action.action.params.add(param_id=1, value=values.encode(port))
            if counter is not None:
                _fill_counter(message.counter_data, counter)
            if meter is not None:
                _fill_config(message.meter_config, meter)
        case OneShot(members):
            message.action.action_profile_action_set.SetInParent()
            for port, weight in members:
                one = message.action.action_profile_action_set.action_profile_actions.add(weight=weight)
                _fill_call(one.action, port)
        case "member", member:
            message.action.action_profile_member_id = member
        case "group", group:
            message.action.action_profile_group_id = group
        case "learn", timeout, metadata:
            message.action.action.action_id = named("learn")
            message.idle_timeout_ns, message.metadata = timeout, metadata
        case str(action):
            message.action.action.action_id = named(action)
