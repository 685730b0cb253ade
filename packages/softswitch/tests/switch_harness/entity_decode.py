"""The inverse of `entity_model.entity`: what a message says in the model's terms, None for other messages."""

from __future__ import annotations

from typing import Any

from finsy.proto import p4r

from softswitch.v1model import CLONE_SESSIONS, DROP_PORT, MULTICAST_GROUPS, REPLICA_INSTANCES
from switch_harness.entity_model import CELLS, EntityModel, Key, Metered, OneShot, entity, named
from switch_harness.p4runtime import DELETE, INVALID

OUT_OF_RANGE, FULL = "OUT_OF_RANGE", "RESOURCE_EXHAUSTED"
PORTS = 1 << 9
GROUP_SIZE = 20  # of the model's groups
VALUE_SET_SIZE = 4
MAX_ONE_SHOT_SIZE = 60  # so that any eight fit: the model does not count them
ACTIONS = {named(name): name for name in ("NoAction", "drop", "learn")}
TABLES = {named(name): name for name in ("routed", "balanced", "metered", "seen", "started")}
DEFAULTS: dict[str, tuple[str | None, ...]] = {
    "started": ("NoAction", "drop", None),
    "metered": ("NoAction", None),
    "seen": ("NoAction", "learn", None),
    "routed": (),
    "balanced": (),
}


def decode(message: p4r.Entity) -> tuple[Key, Any] | None:
    """Return key and value, if the model's message for them is the same."""
    try:
        found = _decode(message)
        if found is None or _bytes(entity(*found)) != _bytes(message):
            return None
    except (KeyError, ValueError, IndexError, TypeError, OverflowError):
        return None
    return found


def model_of(entities: list[p4r.Entity]) -> EntityModel | None:
    """Return the model that has these entities; None if one of them is not in its terms."""
    decoded = [decode(message) for message in entities]
    known = [item for item in decoded if item is not None]
    return EntityModel(dict(known)) if len(known) == len(decoded) else None


def _bytes(message: p4r.Entity) -> bytes:
    return message.SerializeToString(deterministic=True)


def _decode(message: p4r.Entity) -> tuple[Key, Any] | None:
    kind = message.WhichOneof("entity")
    body: Any = getattr(message, kind or "", None)
    match kind:
        case "counter_entry" | "meter_entry" | "register_entry":
            return (kind.removesuffix("_entry"), _index(body)), _cell_value(kind, body)
        case "value_set_entry":
            return ("value set",), tuple(_number(m.match[0].exact.value) for m in body.members)
        case "action_profile_member":
            profile = {named(name): name for name in ("nexthops", "paths")}[body.action_profile_id]
            return (f"member {profile}", body.member_id), _port(body.action)
        case "action_profile_group":
            return ("group", body.group_id), tuple((m.member_id, m.weight) for m in body.members)
        case "packet_replication_engine_entry" if body.HasField("multicast_group_entry"):
            group = body.multicast_group_entry
            return ("multicast", group.multicast_group_id), _replicas(group)
        case "packet_replication_engine_entry" if body.HasField("clone_session_entry"):
            session = body.clone_session_entry
            return ("clone", session.session_id), (session.packet_length_bytes, _replicas(session))
        case "digest_entry":
            return ("digest",), body.config.max_list_size
        case "direct_counter_entry":
            return ("direct counter", *_metered_key(body.table_entry)), _counter(body.data)
        case "direct_meter_entry":
            return ("direct meter", *_metered_key(body.table_entry)), _config(body)
        case "table_entry":
            return _decode_entry(body)
    return None


def _decode_entry(entry: p4r.TableEntry) -> tuple[Key, Any] | None:
    table = TABLES[entry.table_id]
    if entry.is_default_action:
        value = ACTIONS[entry.action.action.action_id] if entry.HasField("action") else None
        return (("default", table), value) if value in DEFAULTS[table] else None
    match table:
        case "metered":
            counter = _counter(entry.counter_data) if entry.HasField("counter_data") else None
            meter = _config(entry, "meter_config")
            return (table, *_metered_key(entry)), Metered(_port(entry.action.action), counter, meter)
        case "balanced":
            lpm = entry.match[0].lpm if entry.match else p4r.FieldMatch.LPM(value=b"\0")
            return (table, _number(lpm.value), lpm.prefix_len), _balanced_action(entry.action)
        case "routed":
            action = ("member", entry.action.action_profile_member_id)
            return (table, _number(entry.match[0].exact.value)), action
        case "seen":
            learn = ("learn", entry.idle_timeout_ns, entry.metadata)
            return (table, _number(entry.match[0].exact.value)), learn
    return (table, _number(entry.match[0].exact.value)), ACTIONS[entry.action.action.action_id]


def _balanced_action(action: p4r.TableAction) -> object:
    match action.WhichOneof("type"):
        case "action_profile_member_id":
            return "member", action.action_profile_member_id
        case "action_profile_group_id":
            return "group", action.action_profile_group_id
    members = action.action_profile_action_set.action_profile_actions
    if sum(member.weight for member in members) > MAX_ONE_SHOT_SIZE:
        raise ValueError("the model does not know whether there is room for it")
    return OneShot(tuple((_port(member.action), member.weight) for member in members))


def _metered_key(entry: p4r.TableEntry) -> tuple[int, int, int]:
    if not entry.match:
        return 0, 0, entry.priority
    ternary = entry.match[0].ternary
    return _number(ternary.value), _number(ternary.mask), entry.priority


def _number(value: bytes) -> int:
    return int.from_bytes(value, "big")


def _port(action: p4r.Action) -> int:
    return _number(action.params[0].value)


def _index(message: Any) -> int | None:
    return message.index.index if message.HasField("index") else None


def _cell_value(kind: str, message: Any) -> Any:
    if kind == "register_entry":
        return _number(message.data.bitstring)
    return _counter(message.data) if kind == "counter_entry" else _config(message)


def _counter(data: p4r.CounterData) -> tuple[int, int]:
    return data.packet_count, data.byte_count


def _config(message: Any, field: str = "config") -> tuple[int, int, int, int] | None:
    config = getattr(message, field)
    return (config.cir, config.cburst, config.pir, config.pburst) if message.HasField(field) else None


def _replicas(message: Any) -> tuple[tuple[int, int], ...]:
    return tuple((_number(replica.port), replica.instance) for replica in message.replicas)


# ---- what is wrong with a decoded update, besides the state


def flaws(kind: int, key: Key, value: Any) -> set[str]:
    """Return the codes of all that is wrong with an update by itself; a DELETE looks at the key alone."""
    found = {code for is_right, code in _key_checks(key) if not is_right}
    if kind != DELETE:
        found |= {code for is_right, code in _value_checks(key, value) if not is_right}
    return found


def _key_checks(key: Key) -> list[tuple[bool, str]]:
    match key:
        case ("counter" | "meter" | "register", index):
            return [(index is None or index >= 0, INVALID), (index is None or index < CELLS, OUT_OF_RANGE)]
        case ("member nexthops" | "member paths" | "group", identity):
            return [(identity > 0, INVALID)]
        case ("multicast", group):
            return [(0 < group < MULTICAST_GROUPS, INVALID)]
        case ("clone", session):
            return [(0 < session < CLONE_SESSIONS, INVALID)]
        case ("routed" | "seen", address):
            return [(address < 1 << 48, INVALID)]
        case ("started", ether_type):
            return [(ether_type < 1 << 16, INVALID)]
        case ("balanced", address, length):
            mask = (1 << 48) - (1 << 48 - length) if 0 <= length <= 48 else 0
            return [(0 <= length <= 48 and not address & ~mask, INVALID)]
        case ("metered" | "direct counter" | "direct meter", value, mask, priority):
            return [(mask < 1 << 16 and not value & ~mask and priority > 0, INVALID)]
    return []


def _value_checks(key: Key, value: Any) -> list[tuple[bool, str]]:
    match key[0], value:
        case (("counter" | "direct counter"), (packets, octets)):
            return [(min(packets, octets) >= 0, INVALID)]
        case (("meter" | "direct meter"), _):
            return [(value is None or min(value) >= 0, INVALID)]
        case "register", _:
            return [(value < 1 << 32, INVALID)]
        case "value set", _:
            return [
                (max(value, default=0) < 1 << 16, INVALID),
                (len(set(value)) == len(value), "ALREADY_EXISTS"),
                (len(value) <= VALUE_SET_SIZE, FULL),
            ]
        case (("member nexthops" | "member paths"), port):
            return [(port < PORTS, INVALID)]
        case "group", _:
            weights = [weight for _, weight in value]
            return [
                (min(weights, default=1) > 0 and len(dict(value)) == len(value), INVALID),
                (sum(weights) <= GROUP_SIZE, FULL),
            ]
        case "multicast", _:
            return _replica_checks(value)
        case "clone", (length, copies):
            return [(length >= 0, INVALID), *_replica_checks(copies)]
        case "digest", size:
            return [(size >= 0, INVALID)]
        case "started", action:
            return [(action != "learn", INVALID)]
        case "seen", (_, timeout, _):
            return [(timeout >= 0, INVALID)]
        case "metered", Metered(port, counter, meter):
            numbers = *(counter or ()), *(meter or ())
            return [(port < PORTS and min(numbers, default=0) >= 0, INVALID)]
        case "balanced", OneShot(members):
            weights = [weight for _, weight in members]
            return [(min(weights, default=1) > 0 and all(port < PORTS for port, _ in members), INVALID)]
    return []


def _replica_checks(copies: tuple[tuple[int, int], ...]) -> list[tuple[bool, str]]:
    in_range = all(port < DROP_PORT and instance < REPLICA_INSTANCES for port, instance in copies)
    return [(in_range and len(set(copies)) == len(copies), INVALID)]
