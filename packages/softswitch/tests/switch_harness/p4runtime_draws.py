"""Random P4Runtime updates of every entity kind, good and malformed, and what a model expects of them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from finsy.proto import p4r

from switch_harness.entity_model import CELLS, EntityModel, Key, Metered, OneShot, entity, named
from switch_harness.p4runtime import DELETE, INSERT, INVALID, MODIFY

CONTINUE = p4r.WriteRequest.CONTINUE_ON_ERROR
EVERYTHING = [
    p4r.Entity(table_entry=p4r.TableEntry(counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig())),
    *(
        p4r.Entity(table_entry=p4r.TableEntry(table_id=named(table), is_default_action=True))
        for table in ("metered", "seen", "started")
    ),
    p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
    p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
    p4r.Entity(counter_entry=p4r.CounterEntry()),
    p4r.Entity(meter_entry=p4r.MeterEntry()),
    p4r.Entity(register_entry=p4r.RegisterEntry()),
    p4r.Entity(value_set_entry=p4r.ValueSetEntry()),
    p4r.Entity(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
            multicast_group_entry=p4r.MulticastGroupEntry()
        )
    ),
    p4r.Entity(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
            clone_session_entry=p4r.CloneSessionEntry()
        )
    ),
    p4r.Entity(digest_entry=p4r.DigestEntry()),
]


# ---- well-formed updates


def row_of_metered(random: Random) -> Key:
    mask = random.choice([0, 0xFF00, 0xFFFF])
    return random.randrange(3) * 0x1100 & mask, mask, random.randrange(1, 3)


def config(random: Random) -> tuple[int, int, int, int] | None:
    return random.choice([None, (1, 2, 3, 4), (9, 9, 9, 9)])


def replicas(random: Random) -> tuple[tuple[int, int], ...]:
    pairs = [(port, instance) for port in (0, 5, 300) for instance in (0, 1, 65535)]
    return tuple(random.sample(pairs, random.randrange(4)))


def action_of_balanced(random: Random) -> object:
    weights = [(random.randrange(1, 4), random.randrange(1, 4)) for _ in range(random.randrange(4))]
    choices = [("member", random.randrange(1, 5)), ("group", random.randrange(1, 4)), OneShot(tuple(weights))]
    return random.choices(choices, [6, 6, 1])[0]


def some_counter(random: Random) -> tuple[int, int]:
    return random.randrange(9), random.randrange(9)


def index(random: Random) -> int | None:
    chosen: int | None = random.choice([None, *range(CELLS)])
    return chosen


DRAW: dict[str, Callable[[Random], tuple[Key, Any]]] = {
    "member nexthops": lambda r: ((r.randrange(1, 7),), r.randrange(512)),
    "member paths": lambda r: ((r.randrange(1, 5),), r.randrange(512)),
    "group": lambda r: (
        (r.randrange(1, 4),),
        tuple((m, r.randrange(1, 4)) for m in r.sample(range(1, 5), r.randrange(4))),
    ),
    "routed": lambda r: ((r.randrange(1, 7),), ("member", r.randrange(1, 7))),
    "balanced": lambda r: (r.choice([(0, 0), (1 << 47, 1), (1 << 47, 8), (5, 48)]), action_of_balanced(r)),
    "metered": lambda r: (
        row_of_metered(r),
        Metered(r.randrange(512), r.choice([None, (3, 4)]), config(r)),
    ),
    "seen": lambda r: ((r.randrange(1, 5),), ("learn", r.choice([0, 10**9]), r.choice([b"", b"note"]))),
    "started": lambda r: ((r.choice([0x0800, 0x86DD, 1, 2]),), r.choice(["NoAction", "drop"])),
    "default": lambda r: (("started",), r.choice(["NoAction", "drop", None])),
    "direct counter": lambda r: (row_of_metered(r), some_counter(r)),
    "direct meter": lambda r: (row_of_metered(r), config(r)),
    "counter": lambda r: ((index(r),), some_counter(r)),
    "meter": lambda r: ((index(r),), config(r)),
    "register": lambda r: ((index(r),), r.randrange(1 << 32)),
    "value set": lambda r: ((), tuple(r.sample(range(9), r.randrange(4)))),
    "multicast": lambda r: ((r.choice([1, 2, 65535]),), replicas(r)),
    "clone": lambda r: ((r.choice([1, 2, 32767]),), (r.choice([0, 77]), replicas(r))),
    "digest": lambda r: ((), r.randrange(5)),
}


OFTEN = {"member paths": 4, "group": 4, "balanced": 4, "metered": 4, "seen": 2}


# ---- malformed updates: the code that they get, whatever else is wrong

Spoil = Callable[[p4r.Entity], object]


def of_replication(kind: str, spoil: Callable[[Any], object]) -> Spoil:
    return lambda e: spoil(getattr(e.packet_replication_engine_entry, kind))


def of_entry(spoil: Callable[[p4r.TableEntry], object]) -> Spoil:
    return lambda e: spoil(e.table_entry)


def duplicate(repeated: Any) -> None:
    repeated.append(repeated[0])


ENTRY_SPOILS: list[tuple[str, Spoil]] = [
    (INVALID, of_entry(lambda e: setattr(e, "table_id", 7))),
    (INVALID, of_entry(lambda e: setattr(e, "priority", -1))),
    (INVALID, of_entry(lambda e: setattr(e, "is_const", True))),
    (INVALID, of_entry(lambda e: e.match.add(field_id=9))),
    (INVALID, of_entry(lambda e: e.match.extend([p4r.FieldMatch(field_id=1)] * 2))),
    (INVALID, of_entry(lambda e: e.action.action.params.add(param_id=7, value=b"\1"))),
    (INVALID, of_entry(lambda e: setattr(e.action.action, "action_id", 7))),
    (INVALID, of_entry(lambda e: e.time_since_last_hit.SetInParent())),
    (INVALID, of_entry(lambda e: setattr(e, "idle_timeout_ns", -1))),
    (INVALID, of_entry(lambda e: setattr(e.counter_data, "packet_count", -1))),
    (INVALID, of_entry(lambda e: setattr(e.meter_config, "cburst", -1))),
    (INVALID, of_entry(lambda e: setattr(e.meter_config, "eburst", 1))),
]
REPLICAS_SPOILS: list[tuple[str, Callable[[Any], object]]] = [
    (INVALID, lambda e: e.replicas.add(instance=1)),
    (INVALID, lambda e: e.replicas.add(port=b"\x01\xff", instance=1)),
    (INVALID, lambda e: e.replicas.add(port=b"\x01", instance=1 << 16)),
    (INVALID, lambda e: e.replicas.extend([p4r.Replica(port=b"\x07", instance=7)] * 2)),
    ("UNIMPLEMENTED", lambda e: e.replicas.add(port=b"\x01", backup_replicas=[p4r.BackupReplica()])),
]
MEMBER_SPOILS: list[tuple[str, Spoil]] = [
    (INVALID, lambda e: setattr(e.action_profile_member, "action_profile_id", 7)),
    (INVALID, lambda e: setattr(e.action_profile_member, "member_id", 0)),
    (INVALID, lambda e: e.action_profile_member.ClearField("action")),
    (INVALID, lambda e: setattr(e.action_profile_member.action, "action_id", named("NoAction"))),
    (INVALID, lambda e: setattr(e.action_profile_member.action.params[0], "value", b"\2\0")),
    (INVALID, lambda e: setattr(e.action_profile_member.action.params[0], "value", b"")),
]


def spoils_of_cells(kind: str) -> list[tuple[str, Spoil]]:
    def message(e: p4r.Entity) -> Any:
        return getattr(e, f"{kind}_entry")

    return [
        (INVALID, lambda e: setattr(message(e), f"{kind}_id", 7)),
        (INVALID, lambda e: setattr(message(e).index, "index", -1)),
        ("OUT_OF_RANGE", lambda e: setattr(message(e).index, "index", CELLS)),
    ]


def is_change_of(table: str) -> list[tuple[str, Spoil]]:
    """What is wrong with an entry of a table that takes members, or that takes actions."""
    if table == "routed":
        return [
            (INVALID, of_entry(lambda e: setattr(e.action, "action_profile_group_id", 1))),
            (INVALID, of_entry(lambda e: e.action.action_profile_action_set.SetInParent())),
        ]
    return [(INVALID, of_entry(lambda e: setattr(e.action, "action_profile_member_id", 1)))]


SPOILS: dict[str, list[tuple[str, Spoil]]] = {
    "member nexthops": MEMBER_SPOILS,
    "member paths": MEMBER_SPOILS,
    "group": [
        (INVALID, lambda e: setattr(e.action_profile_group, "action_profile_id", named("nexthops"))),
        (INVALID, lambda e: setattr(e.action_profile_group, "group_id", 0)),
        (INVALID, lambda e: setattr(e.action_profile_group, "max_size", -1)),
        ("NOT_FOUND", lambda e: e.action_profile_group.members.insert(0, group_member(99, 1))),
        ("RESOURCE_EXHAUSTED", lambda e: setattr(e.action_profile_group.members[0], "weight", 21)),
        (INVALID, lambda e: setattr(e.action_profile_group.members[0], "weight", 0)),
        (INVALID, lambda e: duplicate(e.action_profile_group.members)),
        (INVALID, lambda e: setattr(e.action_profile_group.members[0], "watch_port", b"\x02\x00")),
    ],
    "routed": ENTRY_SPOILS + is_change_of("routed"),
    "balanced": ENTRY_SPOILS,
    "metered": ENTRY_SPOILS + is_change_of("metered"),
    "seen": ENTRY_SPOILS + is_change_of("seen"),
    "started": ENTRY_SPOILS + is_change_of("started"),
    "default": [
        (INVALID, of_entry(lambda e: e.match.add(field_id=1))),
        (INVALID, of_entry(lambda e: setattr(e, "idle_timeout_ns", 1))),
        ("PERMISSION_DENIED", of_entry(lambda e: setattr(e, "table_id", named("routed")))),
    ],
    "direct counter": [
        (INVALID, lambda e: setattr(e.direct_counter_entry.table_entry, "table_id", named("seen"))),
        (INVALID, lambda e: setattr(e.direct_counter_entry.data, "byte_count", -1)),
        ("UNIMPLEMENTED", lambda e: setattr(e.direct_counter_entry.table_entry, "is_default_action", True)),
    ],
    "direct meter": [
        (INVALID, lambda e: setattr(e.direct_meter_entry.table_entry, "table_id", named("seen"))),
        (INVALID, lambda e: setattr(e.direct_meter_entry.config, "pir", -1)),
        ("UNIMPLEMENTED", lambda e: e.direct_meter_entry.counter_data.SetInParent()),
    ],
    "counter": [
        *spoils_of_cells("counter"),
        (INVALID, lambda e: setattr(e.counter_entry.data, "byte_count", -1)),
    ],
    "meter": [*spoils_of_cells("meter"), (INVALID, lambda e: setattr(e.meter_entry.config, "cir", -1))],
    "register": [
        *spoils_of_cells("register"),
        (INVALID, lambda e: setattr(e.register_entry.data, "bitstring", b"\1\0\0\0\0")),
        (INVALID, lambda e: setattr(e.register_entry.data, "bool", True)),
        (INVALID, lambda e: e.register_entry.ClearField("data")),
    ],
    "value set": [
        (INVALID, lambda e: setattr(e.value_set_entry, "value_set_id", 7)),
        (INVALID, lambda e: e.value_set_entry.members.insert(0, p4r.ValueSetMember())),
        (INVALID, lambda e: setattr(e.value_set_entry.members[0].match[0].exact, "value", b"\1\0\0")),
        ("ALREADY_EXISTS", lambda e: duplicate(e.value_set_entry.members)),
        ("RESOURCE_EXHAUSTED", lambda e: [e.value_set_entry.members.add() for _ in range(5)]),
    ],
    "multicast": [
        (code, of_replication("multicast_group_entry", spoil))
        for code, spoil in (*REPLICAS_SPOILS, (INVALID, lambda m: setattr(m, "multicast_group_id", 1 << 16)))
    ],
    "clone": [
        (code, of_replication("clone_session_entry", spoil))
        for code, spoil in (
            *REPLICAS_SPOILS,
            (INVALID, lambda m: setattr(m, "session_id", 0)),
            (INVALID, lambda m: setattr(m, "packet_length_bytes", -1)),
            (INVALID, lambda m: setattr(m, "class_of_service", 256)),
        )
    ],
    "digest": [
        (INVALID, lambda e: setattr(e.digest_entry, "digest_id", 7)),
        (INVALID, lambda e: setattr(e.digest_entry.config, "ack_timeout_ns", -1)),
    ],
}
ALWAYS: list[tuple[str, Callable[[p4r.Update], object]]] = [
    (INVALID, lambda update: setattr(update, "type", 0)),
    (INVALID, lambda update: update.ClearField("entity")),
]


def group_member(member: int, weight: int) -> p4r.ActionProfileGroup.Member:
    return p4r.ActionProfileGroup.Member(member_id=member, weight=weight)


def draw(random: Random) -> tuple[p4r.Update, int, Key, Any, str | None]:
    """Draw an update as a message and for the model, with the code of its fault."""
    what = random.choices(list(DRAW), [OFTEN.get(what, 1) for what in DRAW])[0]
    rest, value = DRAW[what](random)
    key = (what, *rest)
    modified = what in (
        "default",
        "direct counter",
        "direct meter",
        "counter",
        "meter",
        "register",
        "value set",
    )
    kind = (
        MODIFY
        if modified and random.random() < 0.8
        else random.choices([INSERT, MODIFY, DELETE], [4, 2, 1])[0]
    )
    update = p4r.Update(type=kind, entity=entity(key, value))
    if random.random() > 0.2:
        return update, kind, key, value, None
    if random.random() < 0.1:
        code, spoil = random.choice(ALWAYS)
        spoil(update)
        return update, kind, key, value, code
    if kind == DELETE:  # which looks at the key alone
        update.type = kind = INSERT if not modified else MODIFY
    code, spoil_entity = random.choice(SPOILS[what])
    try:
        spoil_entity(update.entity)
    except IndexError:  # there is no first member to spoil
        code, spoil = ALWAYS[0]
        spoil(update)
    return update, kind, key, value, code


def expected(
    model: EntityModel, batch: list[tuple[p4r.Update, int, Key, Any, str | None]], atomicity: int
) -> list[set[str]]:
    """Do a batch on the model; the codes that each update may get."""
    after, allowed = EntityModel(model.state), []
    for _, kind, key, value, wrong in batch:
        if wrong is None:
            allowed.append({after.do(kind, key, value)})
        else:
            allowed.append({wrong, EntityModel(after.state).do(kind, key, value)} - {"OK"})
    if atomicity == CONTINUE or all(codes == {"OK"} for codes in allowed):
        model.state = after.state
    else:
        allowed = [{"ABORTED"} if codes == {"OK"} else codes for codes in allowed]
    return allowed


def serialized(entities: list[p4r.Entity]) -> list[bytes]:
    return sorted(entity.SerializeToString(deterministic=True) for entity in entities)


STATE: dict[tuple[Any, ...], Any] = {
    ("member nexthops", 1): 5,
    ("member paths", 4): 6,
    ("member paths", 3): 7,
    ("group", 2): ((3, 2), (4, 1)),
    ("routed", 1): ("member", 1),
    ("balanced", 5, 48): ("group", 2),
    ("metered", 0x1100, 0xFF00, 3): Metered(9, (3, 4), (1, 2, 3, 4)),
    ("seen", 1): ("learn", 10**9, b"note"),
    ("started", 0x0800): "drop",
    ("default", "started"): "drop",
    ("counter", 3): (1, 2),
    ("meter", 3): (5, 6, 7, 8),
    ("register", 3): 77,
    ("value set",): (8, 9),
    ("multicast", 1): ((1, 1), (2, 1)),
    ("clone", 5): (64, ((3, 0),)),
    ("digest",): 4,
}
