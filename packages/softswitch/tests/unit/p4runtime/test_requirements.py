"""Requirements of 4ward's list (docs/conformance.md) that no other test is about."""

from __future__ import annotations

import asyncio
import csv
import re
from pathlib import Path
from typing import Any

import finsy as fy
import grpc
import pytest
from finsy.proto import p4i, p4r

from switch_harness.entity_model import entity
from switch_harness.model_pipeline import ModelPipeline
from switch_harness.p4runtime import (
    DELETE,
    DEVICE,
    ENTITIES,
    INSERT,
    P4INFO,
    SCHEMA,
    asynchronous,
    controlled,
    forward,
    read,
    rig,
    update,
    write,
)

TESTS = Path(__file__).parents[2]
PAGE = Path(__file__).parents[3] / "docs" / "conformance.md"
TESTED = TESTS / "p4runtime_requirements.csv"
Get = p4r.GetForwardingPipelineConfigRequest


def refusals(control: Any, *updates: p4r.Update) -> list[str]:
    results = write(control, *updates)
    return [result.code.name if result else "OK" for result in results]


def test_every_requirement_has_a_test_that_exists_or_is_on_the_page() -> None:
    defined = {
        name
        for file in TESTS.rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    with TESTED.open() as file:
        tested = {row["requirement"]: row["test"] for row in csv.DictReader(file)}
    assert set(tested.values()) <= defined
    page = PAGE.read_text().partition("## Requirements of P4Runtime\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([r\d][^|]*) \| ([^|]*) \|", page, re.MULTILINE)
    answers = {number: answer for numbers, answer in rows for number in numbers.split(", ")}
    assert len(answers) == sum(len(numbers.split(", ")) for numbers, _ in rows)
    listed, untested = len({*tested, *answers}), list(answers.values()).count("not tested")
    assert listed == 144 + 5 + 6 + 10
    counts = re.findall(r"(\d+) requirements|meets (\d+)|answers (\d+) in|for (\d+) this", page)
    expected = [listed, listed - len(answers), len(answers) - untested, untested]
    assert [int("".join(count)) for count in counts] == expected


def test_ids_have_the_prefix_of_their_kind() -> None:
    kinds = {"tables": p4i.P4Ids.TABLE, "actions": p4i.P4Ids.ACTION, "registers": p4i.P4Ids.REGISTER}
    for field, prefix in kinds.items():
        assert {each.preamble.id >> 24 for each in getattr(P4INFO, field)} == {prefix}


def test_zero_values_are_written_and_read_back() -> None:
    control = controlled()
    written = forward(0, port=0)
    assert refusals(control, update(written)) == ["OK"]
    query = p4r.Entity(table_entry=p4r.TableEntry(table_id=written.encode_entry(SCHEMA).table_id))
    assert read(control, query) == [written.encode(SCHEMA)]


def test_registers_are_neither_inserted_nor_deleted() -> None:
    cell = fy.P4RegisterEntry("cells", index=1, data=7)
    assert refusals(controlled(), update(cell, INSERT), update(cell, DELETE)) == ["INVALID_ARGUMENT"] * 2


def test_an_entity_with_an_unknown_id_is_an_invalid_argument() -> None:
    register = update(fy.P4RegisterEntry("cells", index=1, data=7), p4r.Update.MODIFY)
    register.entity.register_entry.register_id += 1
    assert refusals(controlled(), register) == ["INVALID_ARGUMENT"]
    member = p4r.Update(type=INSERT, entity=entity(("member paths", 1), 1))
    member.entity.action_profile_member.action_profile_id += 1
    group = p4r.Update(type=INSERT, entity=entity(("group", 1), ()))
    group.entity.action_profile_group.action_profile_id += 1
    assert refusals(controlled(ENTITIES, ModelPipeline), member, group) == ["INVALID_ARGUMENT"] * 2


@asynchronous
async def test_reads_without_a_pipeline_or_of_another_device_are_refused() -> None:
    async with rig() as switch:

        async def answers(**request: Any) -> list[p4r.ReadResponse]:
            return [each async for each in switch.stub.Read(p4r.ReadRequest(**request))]

        async def code(**request: Any) -> str:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await answers(**request)
            return error.value.code().name

        tables = [p4r.Entity(table_entry=p4r.TableEntry())]
        assert await code(device_id=DEVICE, entities=tables) == "FAILED_PRECONDITION"
        await switch.primary()
        assert await code(device_id=DEVICE + 1, entities=tables) == "NOT_FOUND"
        assert [len(each.entities) for each in await answers(device_id=DEVICE)] in ([], [0])
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await switch.stub.GetForwardingPipelineConfig(Get(device_id=DEVICE + 1))
        assert error.value.code() == grpc.StatusCode.NOT_FOUND


@asynchronous
async def test_all_controllers_may_read() -> None:
    async with rig() as switch:
        primary = await switch.primary()
        await primary.write(update(forward(1)))
        backup, other = switch.controller(), switch.controller()
        await backup.bid(0)
        await other.bid(1, role="other")
        assert [await each.entries() for each in (primary, backup, other)] == [3] * 3


@asynchronous
async def test_packets_out_keep_their_order() -> None:
    async with rig() as switch:
        primary = await switch.primary()
        for number in range(20):
            request = p4r.StreamMessageRequest()
            request.packet.payload = bytes([number])
            request.packet.metadata.add(metadata_id=1, value=b"\5")
            request.packet.metadata.add(metadata_id=2, value=b"\0")
            await primary.stream.write(request)
        received = [await asyncio.to_thread(switch.ports.switch_end.recv, 100) for _ in range(20)]
        assert [frame[-1] for frame in received] == list(range(20))


def test_batches_of_several_kinds_are_done_in_order() -> None:
    control = controlled(ENTITIES, ModelPipeline)
    batch = [
        p4r.Update(type=INSERT, entity=entity(("member paths", 1), 7)),
        p4r.Update(type=INSERT, entity=entity(("group", 1), ((1, 1),))),
        p4r.Update(type=INSERT, entity=entity(("balanced", 5, 48), ("group", 1))),
    ]
    assert refusals(control, *batch) == ["OK"] * 3
    assert refusals(controlled(ENTITIES, ModelPipeline), *batch[::-1]) == ["NOT_FOUND"] * 2 + ["OK"]
