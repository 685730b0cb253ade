"""P4Info that softswitch generates from BMv2 JSON, beside what p4c prints for the same program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import finsy as fy
import grpc
import pytest
from finsy.proto import p4i, p4r

from softswitch.load import load_program
from softswitch.p4runtime.generated_p4info import generate_config
from softswitch.p4runtime.loaded_config import read_p4info
from softswitch.p4runtime.messages import adopt
from switch_harness import PROGRAMS
from switch_harness.p4runtime import CONTROL, DEVICE, asynchronous, rig, update

NAMES = sorted(file.name.removesuffix(".p4info.txtpb") for file in PROGRAMS.glob("*.p4info.txtpb"))
FORWARD, FORWARD_TO = "ControlIngress.forward", "ControlIngress.forward_to"
Get = p4r.GetForwardingPipelineConfigRequest


def _by_name(objects: Iterable[Any], *fields: str) -> dict[str, list[Any]]:
    return {each.preamble.name: [getattr(each, field) for field in fields] for each in objects}


def _describe(info: p4i.P4Info, table_names: set[str]) -> dict[str, Any]:
    """What BMv2 JSON says as well, by names: IDs differ, and JSON has tables that p4c made for calls."""
    tables = {table.preamble.id: table.preamble.name for table in info.tables}
    kinds = {each.preamble.id: "counter" for each in info.direct_counters}
    kinds |= {each.preamble.id: "meter" for each in info.direct_meters}
    return {
        "direct resources": {
            table.preamble.name: sorted(kinds[number] for number in table.direct_resource_ids)
            for table in info.tables
            if table.preamble.name in table_names
        },
        "counters": _by_name(info.counters, "size"),
        "direct counters": sorted(tables[each.direct_table_id] for each in info.direct_counters),
        "meters": {each.preamble.name: (each.size, each.spec.unit) for each in info.meters},
        "direct meters": sorted(
            (tables[each.direct_table_id], each.spec.unit) for each in info.direct_meters
        ),
        "registers": _by_name(info.registers, "size"),
    }


@pytest.mark.parametrize("name", NAMES)
def test_generated_p4info_equals_the_p4info_of_p4c(name: str) -> None:
    data = (PROGRAMS / f"{name}.json").read_bytes()
    generated = generate_config(data, load_program(data)).p4info
    printed = read_p4info(PROGRAMS / f"{name}.p4info.txtpb")
    names = {table.preamble.name for table in printed.tables}
    assert _describe(generated, names) == _describe(printed, names)
    assert all(counter.spec.unit for counter in generated.counters)
    assert all(counter.spec.unit for counter in generated.direct_counters)


@asynchronous
async def test_controllers_get_the_generated_p4info_and_write_entries_with_its_ids() -> None:
    program = CONTROL.with_suffix(".json")
    async with rig() as switch:
        controller = switch.controller()
        assert await controller.bid(1) == 0
        switch.server.pipelines.load_bare(program.read_bytes())
        config = (await switch.stub.GetForwardingPipelineConfig(Get(device_id=DEVICE))).config
        data = program.read_bytes()
        assert adopt(config) == generate_config(data, load_program(data))
        schema, before = fy.P4Schema(config.p4info), await controller.entries()
        entry = fy.P4TableEntry(FORWARD, match=fy.Match(dst_addr=1), action=fy.Action(FORWARD_TO, port=2))
        await controller.write(update(entry, schema=schema))
        assert await controller.entries() == before + 1


@asynchronous
async def test_bmv2s_controllers_get_no_generated_p4info() -> None:
    async with rig(refuses_unset_config=True) as switch:
        switch.server.pipelines.load_bare(CONTROL.with_suffix(".json").read_bytes())
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await switch.stub.GetForwardingPipelineConfig(Get(device_id=DEVICE))
        assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
