"""Choice of group members and order of copies: as in BMv2 after the same writes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from softswitch import processes
from softswitch.conformance.client import P4RuntimeClient, pipeline_config, read_p4info
from softswitch.conformance.errors import P4RuntimeError
from softswitch.p4runtime.codecs import values
from softswitch.p4runtime.messages import p4r
from switch_harness import PROGRAMS
from switch_harness.effort import seeds
from switch_harness.waiting import PATIENCE_S

CPU_PORT = 255
ORDERS = PROGRAMS / "orders"
P4INFO = read_p4info(ORDERS)
GROUP, ONE_SHOT, MULTICAST, CLONE = range(4)
PROBE = struct.Struct(">5H")  # ask, number, key, mark, instance
FRAME = 14  # bytes, at least: less does not get through the kernel
KEYS = range(0, 600, 37)
Both = tuple[P4RuntimeClient, P4RuntimeClient]


def named(alias: str) -> int:
    groups: list[Any] = [*P4INFO.tables, *P4INFO.actions, *P4INFO.action_profiles]
    return next(int(each.preamble.id) for each in groups if each.preamble.alias == alias)


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with ExitStack() as stack:
        clients = []
        for started in (processes.bmv2, processes.softswitch):
            switch = stack.enter_context(started(cpu_port=CPU_PORT))
            client = stack.enter_context(P4RuntimeClient(switch.address))
            client.set_pipeline(pipeline_config(ORDERS))
            clients.append(client)
        yield clients[0], clients[1]


def written(client: P4RuntimeClient, update: p4r.Update) -> bool:
    try:
        client.write(update)
    except P4RuntimeError:
        return False
    return True


def write(both: Both, update: p4r.Update) -> bool:
    """Do an update on both, which have to agree whether it can be done."""
    first, second = (written(client, update) for client in both)
    assert first == second, update
    return first


def ask(
    client: P4RuntimeClient, question: int, number: int, key: int = 0, copies: int = 1
) -> list[tuple[int, int]]:
    """Mark and instance of the copies of a packet."""
    client.packet_out(PROBE.pack(question, number, key, 0, 0).ljust(FRAME, b"\0"), 0, 0)
    payloads = [client.packets.get(timeout=PATIENCE_S).payload for _ in range(copies)]
    return [PROBE.unpack(payload[: PROBE.size])[3:] for payload in payloads]


def call(message: p4r.Action, mark: int) -> None:
    message.action_id = named("set_mark")
    message.params.add(param_id=1, value=values.encode(mark))


def member(kind: int, number: int) -> p4r.Update:
    update = p4r.Update(type=kind)  # type: ignore[arg-type]  # an enum's value
    message = update.entity.action_profile_member
    message.action_profile_id, message.member_id = named("paths"), number
    call(message.action, 100 + number)
    return update


def group(kind: int, number: int, weights: dict[int, int]) -> p4r.Update:
    update = p4r.Update(type=kind)  # type: ignore[arg-type]  # an enum's value
    message = update.entity.action_profile_group
    message.action_profile_id, message.group_id = named("paths"), number
    for each, weight in weights.items():
        message.members.add(member_id=each, weight=weight)
    return update


def entry(kind: int, table: str, number: int) -> p4r.Update:
    update = p4r.Update(type=kind)  # type: ignore[arg-type]  # an enum's value
    message = update.entity.table_entry
    message.table_id = named(table)
    message.match.add(field_id=1).exact.value = values.encode(number)
    return update


INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE


@pytest.mark.bmv2
@pytest.mark.parametrize("seed", seeds(3))
def test_members_are_picked_as_in_bmv2(both: Both, seed: int) -> None:
    random = Random(seed)
    members: set[int] = set()
    groups: dict[int, dict[int, int]] = {}
    for _ in range(60):
        number = random.randrange(1, 7)
        if random.random() < 0.5:
            kind = DELETE if number in members else INSERT
            if any(number in weights for weights in groups.values()):
                kind = MODIFY
            assert write(both, member(kind, number))
            members.symmetric_difference_update({number} if kind != MODIFY else set())
        elif members:
            number = random.randrange(1, 4)
            chosen = random.sample(sorted(members), random.randrange(1, len(members) + 1))
            weights = {each: random.randrange(1, 4) for each in chosen}
            if number in groups and random.random() < 0.3:
                assert write(both, entry(DELETE, "by_group", number))
                assert write(both, group(DELETE, number, {}))
                del groups[number]
                continue
            assert write(both, group(MODIFY if number in groups else INSERT, number, weights))
            if number not in groups:
                pointing = entry(INSERT, "by_group", number)
                pointing.entity.table_entry.action.action_profile_group_id = number
                assert write(both, pointing)
            groups[number] = weights
        for number in groups:
            picked = [[ask(client, GROUP, number, key) for key in KEYS] for client in both]
            assert picked[0] == picked[1]
    for number in groups:
        assert write(both, entry(DELETE, "by_group", number))
        assert write(both, group(DELETE, number, {}))
    for number in members:
        assert write(both, member(DELETE, number))


@pytest.mark.bmv2
@pytest.mark.parametrize("seed", seeds(2))
def test_members_of_one_shots_are_picked_as_in_bmv2(both: Both, seed: int) -> None:
    random, there = Random(seed), set[int]()
    for _ in range(40):
        number = random.randrange(1, 5)
        kind = random.choice([MODIFY, DELETE]) if number in there else INSERT
        update = entry(kind, "by_one_shot", number)
        if kind != DELETE:
            for _ in range(random.randrange(1, 4)):
                actions = update.entity.table_entry.action.action_profile_action_set.action_profile_actions
                call(actions.add(weight=random.randrange(1, 4)).action, random.randrange(1000))
        assert write(both, update)
        there.symmetric_difference_update({number} if kind != MODIFY else set())
        for each in there:
            picked = [[ask(client, ONE_SHOT, each, key) for key in KEYS] for client in both]
            assert picked[0] == picked[1]
    for number in there:
        assert write(both, entry(DELETE, "by_one_shot", number))


@pytest.mark.bmv2
@pytest.mark.parametrize("question", [MULTICAST, CLONE])
def test_copies_are_made_in_the_order_of_bmv2(both: Both, question: int) -> None:
    random = Random(question)
    kind = INSERT
    for _ in range(20):
        instances = random.sample(range(1, 60), random.randrange(1, 35))
        update = p4r.Update(type=kind)
        engine = update.entity.packet_replication_engine_entry
        if question == MULTICAST:
            engine.multicast_group_entry.multicast_group_id = 9
        else:
            engine.clone_session_entry.session_id = 9
        message = engine.multicast_group_entry if question == MULTICAST else engine.clone_session_entry
        for instance in instances:
            message.replicas.add(egress_port=CPU_PORT, instance=instance)
        assert write(both, update)
        copies = [ask(client, question, 9, copies=len(instances)) for client in both]
        assert copies[0] == copies[1]
        kind = MODIFY
    update.type = DELETE
    assert write(both, update)
