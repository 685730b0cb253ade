"""`softswitch explain --from`: program and state of a switch that runs, which does not notice."""

from __future__ import annotations

import asyncio
import json

import pytest
from finsy.proto import p4r

from softswitch import explaining
from softswitch.explain.state import SwitchReader
from switch_harness import PROGRAMS
from switch_harness.entity_model import EntityModel, entity
from switch_harness.model_pipeline import ModelPipeline
from switch_harness.p4runtime import (
    DEVICE,
    ENTITIES,
    INSERT,
    MODIFY,
    asynchronous,
    controlled,
    forward,
    read,
    rig,
    update,
)
from switch_harness.p4runtime_draws import EVERYTHING, STATE, serialized

FRAME = bytes.fromhex("00000000000b 00000000000a 0800")


async def explain(*arguments: str) -> str | int | None:
    """What the process would exit with."""

    def run() -> str | int | None:
        with pytest.raises(SystemExit) as ended:
            explaining.main([*arguments, "--packet", FRAME.hex(), "--json"])
        return ended.value.code

    return await asyncio.to_thread(run)


@asynchronous
async def test_the_explained_state_has_all_entries_and_cells_of_the_switch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def copied() -> list[p4r.Entity]:
        fresh = controlled(ENTITIES, ModelPipeline)
        with SwitchReader(running.address, DEVICE) as switch:
            switch.copy_to(fresh)
        return read(fresh, *EVERYTHING)

    async with rig(ModelPipeline) as running:
        controller, model, known = await running.primary(ENTITIES), EntityModel(), controlled(ENTITIES)
        for key, value in STATE.items():
            kind = MODIFY if key in model.state else INSERT
            model.do(kind, key, value)
            await controller.write(p4r.Update(type=kind, entity=entity(key, value)))
        request = p4r.ReadRequest(device_id=DEVICE, entities=EVERYTHING)
        held = [each async for answer in running.stub.Read(request) for each in answer.entities]
        assert len(held) > len(read(known, *EVERYTHING))
        assert serialized(await asyncio.to_thread(copied)) == serialized(held)
    assert caplog.records == []


@asynchronous
async def test_a_packet_meets_the_entries_of_the_switch(capsys: pytest.CaptureFixture[str]) -> None:
    """Whether or not the program is named, too."""
    async with rig() as switch:
        controller = await switch.primary()
        await controller.write(update(forward(0xB, port=2)))
        before = await controller.entries()
        options = ["--from", switch.address, "--device-id", str(DEVICE)]
        for program in ([], [str(PROGRAMS / "control.json")]):
            assert await explain(*program, *options) == 0
            events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            assert [event["port"] for event in events if event["kind"] == "send"] == [2]
        assert await controller.entries() == before
        error = await explain(str(PROGRAMS / "ecn.json"), *options)
        assert isinstance(error, str) and switch.address in error and "another program" in error
        error = await explain("--from", switch.address, "--device-id", "9")
        assert isinstance(error, str) and "device 9" in error
    error = await explain(*options)
    assert isinstance(error, str) and switch.address in error and "no switch answers" in error


@asynchronous
async def test_a_switch_without_a_program_is_one_error() -> None:
    async with rig() as switch:
        error = await explain("--from", switch.address, "--device-id", str(DEVICE))
        assert isinstance(error, str) and "no program" in error
