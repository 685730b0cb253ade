"""Unsolicited messages to controllers: digests, idle timeouts and the program's log; and roles."""

import json
import logging

import grpc
import pytest
from finsy.proto import p4r

from softswitch.pipeline import EntryKey
from switch_harness.entity_model import entity, named
from switch_harness.model_pipeline import ModelPipeline
from switch_harness.p4runtime import (
    DELETE,
    ENTITIES,
    INSERT,
    MODIFY,
    Controller,
    FakePorts,
    Rig,
    asynchronous,
    config,
    forward,
    rig,
    update,
)

SECOND = 1_000_000  # µs
OK, ALREADY_EXISTS = 0, 6


def digest_entry(kind: int = INSERT, timeout: int = 0, size: int = 1, ack: int = 0) -> p4r.Update:
    answer = p4r.Update(type=kind)  # type: ignore[arg-type]  # an enum's value
    message = answer.entity.digest_entry
    message.digest_id = named("learned_t")
    message.config.max_timeout_ns, message.config.max_list_size = timeout, size
    message.config.ack_timeout_ns = ack
    return answer


def learn(ports: FakePorts, mac: int, port: int = 1) -> None:
    """Play a packet that the program makes a digest of."""
    ports.notice_end.send(json.dumps([0, [mac, port]]).encode())


def seen(address: int, timeout_ns: int, kind: int = INSERT) -> p4r.Update:
    answer = entity(("seen", address), ("learn", timeout_ns, b"note"))
    return p4r.Update(type=kind, entity=answer)  # type: ignore[arg-type]  # an enum's value


def seen_key(address: int) -> EntryKey:
    return EntryKey("Entities.seen", (address,))


async def macs(controller: Controller) -> list[int]:
    message = (await controller.receive()).digest
    return [int.from_bytes(data.struct.members[0].bitstring, "big") for data in message.data]


@asynchronous
async def test_digests_are_listed_acknowledged_and_sent_again() -> None:
    async with rig(ModelPipeline) as switch:
        primary = await switch.primary(ENTITIES)
        learn(switch.ports, 1)  # before a controller has enabled digests
        await primary.write(digest_entry(timeout=10**15, size=2, ack=10**15))
        for mac in (7, 7, 8):
            learn(switch.ports, mac)
        first = (await primary.receive()).digest
        assert (first.digest_id, first.list_id, len(first.data)) == (named("learned_t"), 1, 2)
        assert first.timestamp > 0
        for mac in (7, 9, 10):
            learn(switch.ports, mac)
        assert await macs(primary) == [9, 10]
        ack = p4r.DigestListAck(digest_id=named("learned_t"), list_id=first.list_id)
        await primary.stream.write(p4r.StreamMessageRequest(digest_ack=ack))
        await answered(primary)
        for mac in (7, 9, 11):
            learn(switch.ports, mac)
        assert await macs(primary) == [7, 11]
        await primary.write(digest_entry(DELETE))


@asynchronous
async def test_notices_of_a_pipeline_that_is_replaced_are_dropped() -> None:
    async with rig(ModelPipeline) as switch:
        primary = await switch.primary(ENTITIES)
        await primary.write(digest_entry())
        switch.ports.stop = lambda: learn(switch.ports, 1)  # type: ignore[method-assign]  # of this one
        other = config(program=ENTITIES)
        other.p4_device_config += b"\n"
        await primary.set_config("RECONCILE_AND_COMMIT", other)
        learn(switch.ports, 2)
        assert await macs(primary) == [2]


async def answered(controller: Controller) -> None:
    """Wait until what was sent on the stream before has been taken."""
    await controller.stream.write(p4r.StreamMessageRequest())
    assert (await controller.receive()).HasField("error")


@asynchronous
async def test_a_list_that_is_not_full_is_sent_after_its_timeout() -> None:
    async with rig(ModelPipeline) as switch:
        primary = await switch.primary(ENTITIES)
        await primary.write(digest_entry(timeout=20_000_000, size=100))
        switch.ports.now.step = 1000
        learn(switch.ports, 5)
        assert await macs(primary) == [5]


@asynchronous
async def test_a_new_primary_gets_the_pending_messages() -> None:
    async with rig(ModelPipeline) as switch:
        first, second = await switch.primary(ENTITIES), switch.controller()
        await first.write(digest_entry(ack=10**15))
        learn(switch.ports, 5)
        assert await macs(first) == [5]
        assert await second.bid(9) == OK
        learn(switch.ports, 5)
        assert await macs(second) == [5]


@pytest.mark.parametrize(
    ("digest", "code", "message"),
    [(7, 3, "no digest has ID 7"), (None, 7, "digest acknowledgement is for the primary controller only")],
)
@asynchronous
async def test_a_bad_acknowledgement_is_answered_on_the_stream(
    digest: int | None, code: int, message: str
) -> None:
    async with rig(ModelPipeline) as switch:
        controller = await switch.primary(ENTITIES)
        if digest is None:
            controller = switch.controller()
            assert await controller.bid(0) == ALREADY_EXISTS
        ack = p4r.DigestListAck(digest_id=digest or named("learned_t"))
        await controller.stream.write(p4r.StreamMessageRequest(digest_ack=ack))
        error = (await controller.receive()).error
        assert (error.canonical_code, error.message) == (code, message)
        assert error.digest_list_ack.digest_list_ack == ack


@asynchronous
async def test_idle_entries_are_notified_until_hit_or_deleted() -> None:
    async with rig(ModelPipeline) as switch:
        primary, clock = await switch.primary(ENTITIES), switch.ports.now
        await primary.write(seen(5, 20_000_000), seen(6, 20_000_000), seen(7, 0))
        pipeline = switch.ports.started[-1]
        assert isinstance(pipeline, ModelPipeline)
        clock.now = SECOND
        assert [idle.match[0].exact.value for idle in await idle_entries(primary)] == [b"\5", b"\6"]
        pipeline.hit(seen_key(5), 2 * SECOND)
        clock.now = 2 * SECOND
        (idle,) = await idle_entries(primary)
        assert (idle.table_id, idle.match[0].exact.value) == (named("seen"), b"\6")
        assert (idle.idle_timeout_ns, idle.metadata) == (20_000_000, b"note")
        await primary.write(seen(6, 0, MODIFY))
        clock.now = 3 * SECOND
        assert [idle.match[0].exact.value for idle in await idle_entries(primary)] == [b"\5"]
        await primary.write(seen(5, 0, DELETE), seen(8, 20_000_000))
        clock.now = 4 * SECOND
        assert [idle.match[0].exact.value for idle in await idle_entries(primary)] == [b"\x08"]


async def idle_entries(controller: Controller) -> list[p4r.TableEntry]:
    notice = (await controller.receive()).idle_timeout_notification
    assert notice.timestamp > 0
    return list(notice.table_entry)


async def elapsed(switch: Rig) -> list[tuple[int, int]]:
    query = p4r.TableEntry(table_id=named("seen"), time_since_last_hit=p4r.TableEntry.IdleTimeout())
    request = p4r.ReadRequest(device_id=7, entities=[p4r.Entity(table_entry=query)])
    return [
        (e.table_entry.match[0].exact.value[0], e.table_entry.time_since_last_hit.elapsed_ns)
        async for response in switch.stub.Read(request)
        for e in response.entities
    ]


@asynchronous
async def test_the_time_since_the_last_hit_is_read() -> None:
    async with rig(ModelPipeline) as switch:
        primary = await switch.primary(ENTITIES)
        clock = switch.ports.now
        clock.now = SECOND
        await primary.write(seen(5, 0), seen(6, 10**15))
        clock.now = 3 * SECOND
        pipeline = switch.ports.started[-1]
        assert isinstance(pipeline, ModelPipeline)
        pipeline.hit(seen_key(6), 2_999_999)
        await primary.write(seen(5, 0, MODIFY))
        assert await elapsed(switch) == [(5, 2 * SECOND * 1000), (6, 1000)]


@asynchronous
async def test_log_messages_of_the_program_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "softswitch.program")
    async with rig(ModelPipeline) as switch:
        primary = await switch.primary(ENTITIES)
        switch.ports.notice_end.send(json.dumps("ttl is 5").encode())
        switch.ports.notice_end.send(json.dumps({"failed": "assert failed"}).encode())
        await primary.write(digest_entry())
        learn(switch.ports, 5)
        assert await macs(primary) == [5]  # after the lines
    # gRPC complains in asyncio's log of earlier loops that are closed.
    logged = [
        (record.message, record.levelno) for record in caplog.records if record.name == "softswitch.program"
    ]
    assert logged == [("ttl is 5", logging.INFO), ("assert failed", logging.WARNING)]


@asynchronous
async def test_roles_have_own_elections_and_write_side_by_side() -> None:
    async with rig() as switch:
        primary = await switch.primary()
        other, backup = switch.controller(), switch.controller()
        assert await other.bid(1, role="other") == OK
        assert await backup.bid(0, role="other") == ALREADY_EXISTS
        await primary.write(update(forward(1)))
        await other.write(update(forward(2)))
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await backup.write(update(forward(3)))
        assert error.value.code().name == "PERMISSION_DENIED"
        other.role = "unheard"
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await other.write(update(forward(3)))
        assert error.value.code().name == "NOT_FOUND"
        assert await primary.entries() == 4
        switch.ports.switch_end.send(bytes(20))
        for controller in (primary, other):
            assert (await controller.receive()).HasField("packet")
