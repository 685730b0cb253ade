"""A pipeline that a config has replaced is freed at once, and answers to earlier reads are complete."""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc

from softswitch.compiled import CompiledPipeline
from softswitch.explain.live import Trace, TracedPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.p4runtime.notifications import Notifications
from switch_harness.constructs import compiled
from switch_harness.effort import seeds, steps
from switch_harness.entity_model import entity
from switch_harness.lifetimes import History, without_collector
from switch_harness.p4runtime import (
    DEVICE,
    ENTITIES,
    INSERT,
    SMALL_WINDOW,
    Rig,
    asynchronous,
    config,
    controlled,
    forward,
    rig,
    update,
    write,
)

Make = Callable[[Program], Any]
ENTRIES, QUERIES = 500, 40
"""Entries of a table, and the times that one call reads all of them: far more than gRPC buffers."""
TABLES, CELLS = p4r.Entity(table_entry=p4r.TableEntry()), p4r.Entity(register_entry=p4r.RegisterEntry())


@pytest.fixture(params=[InterpretedPipeline, CompiledPipeline, TracedPipeline])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param is not TracedPipeline:
        kind: Make = request.param
        return kind
    trace = Trace(tmp_path / "trace")
    request.addfinalizer(trace.close)
    return lambda program: TracedPipeline(program, trace)


@pytest.mark.parametrize("seed", seeds(8))
def test_a_replaced_pipeline_is_freed_and_reads_go_on(make: Make, seed: int) -> None:
    with without_collector():
        History(make, Random(seed)).run(steps(100))


def test_a_closed_pipeline_has_no_memory_while_references_remain() -> None:
    with without_collector():
        pipeline = CompiledPipeline(compiled("l2"))
        parts = [
            weakref.ref(part) for part in (pipeline._memory.words, pipeline._output_buffer, pipeline.code)
        ]
        for _ in range(2):
            pipeline.close()
            assert [part() for part in parts] == [None] * len(parts)


class Made:
    """The pipelines that a switch has made and not freed."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[CompiledPipeline]] = []

    def make(self, program: Program) -> CompiledPipeline:
        pipeline = CompiledPipeline(program)
        self._references.append(weakref.ref(pipeline))
        return pipeline

    def count(self, switch: Rig) -> int:
        switch.ports.started.clear()
        return sum(reference() is not None for reference in self._references)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@asynchronous
async def test_refused_calls_keep_no_pipeline() -> None:
    made, bad_config = Made(), config()
    bad_config.p4_device_config = b"{}"
    read = p4r.ReadRequest(device_id=DEVICE, entities=[p4r.Entity(table_entry=p4r.TableEntry(table_id=77))])
    with without_collector():
        async with rig(made.make) as switch:
            controller = await switch.primary()
            for _ in range(2):
                await controller.write(update(forward(1)))
                with pytest.raises(grpc.aio.AioRpcError):
                    await controller.write(update(forward(1)))
                with pytest.raises(grpc.aio.AioRpcError):
                    _ = [response async for response in controller.stub.Read(read)]
                with pytest.raises(grpc.aio.AioRpcError):
                    await controller.set_config("VERIFY_AND_COMMIT", bad_config)
                await controller.set_config("VERIFY_AND_COMMIT", config())
                await until(lambda: made.count(switch) == 1)


async def count_kinds(call: Any, count: int | None = None) -> Counter[str | None]:
    """Return the number of entities by kind in the next responses, or in all that remain."""
    counts = Counter[str | None]()
    while count != 0 and (response := await call.read()) is not grpc.aio.EOF:
        counts.update(entity.WhichOneof("entity") for entity in response.entities)
        count = None if count is None else count - 1
    return counts


@asynchronous
async def test_a_read_ends_in_the_pipeline_of_its_beginning() -> None:
    """A client that reads slowly gets all entries, although two commits come between."""
    made = Made()
    with without_collector():
        async with (
            rig(made.make) as switch,
            grpc.aio.insecure_channel(switch.address, SMALL_WINDOW) as channel,
        ):
            controller = await switch.primary()
            await controller.write(*(update(forward(address)) for address in range(ENTRIES)))
            stub: Any = p4r_grpc.P4RuntimeStub(channel)
            call = stub.Read(p4r.ReadRequest(device_id=DEVICE, entities=[*[TABLES] * QUERIES, CELLS]))
            counts = await count_kinds(call, 1)
            for _ in range(2):
                await controller.set_config("VERIFY_AND_COMMIT", config())
            counts += await count_kinds(call)
            assert counts["table_entry"] == QUERIES * (ENTRIES + await controller.entries())
            cells = await count_kinds(stub.Read(p4r.ReadRequest(device_id=DEVICE, entities=[CELLS])))
            assert counts["register_entry"] == cells["register_entry"] > 0
            await until(lambda: made.count(switch) == 1)


@asynchronous
async def test_a_read_that_is_cancelled_keeps_no_pipeline() -> None:
    made = Made()
    with without_collector():
        async with (
            rig(made.make) as switch,
            grpc.aio.insecure_channel(switch.address, SMALL_WINDOW) as channel,
        ):
            controller = await switch.primary()
            await controller.write(*(update(forward(address)) for address in range(ENTRIES)))
            stub: Any = p4r_grpc.P4RuntimeStub(channel)
            call = stub.Read(p4r.ReadRequest(device_id=DEVICE, entities=[*[TABLES] * QUERIES, CELLS]))
            await call.read()
            call.cancel()
            await controller.set_config("VERIFY_AND_COMMIT", config())
            await until(lambda: made.count(switch) == 1)


@asynchronous
async def test_an_alarm_set_for_a_replaced_pipeline_serves_the_running_pipeline() -> None:
    timeout_us = 20_000
    replaced, running = controls = [controlled(ENTITIES, CompiledPipeline) for _ in range(2)]
    for control in controls:
        entry = entity(("seen", 5), ("learn", 1_000 * timeout_us, b""))
        assert write(control, p4r.Update(type=INSERT, entity=entry)) == [None]
    current, now, sent = replaced, 0, list[Any]()
    notifications: Notifications[CompiledPipeline] = Notifications(lambda: current, sent.append, lambda: now)
    notifications.reschedule()
    current, now = running, timeout_us
    replaced.close()
    await until(lambda: bool(sent))
    notifications.stop()
    [entry] = sent[0].idle_timeout_notification.table_entry
    assert entry.idle_timeout_ns == 1_000 * timeout_us
