"""RECONCILE_AND_COMMIT: what of the state goes over to another pipeline."""

from typing import Any

import grpc
import pytest
from finsy.proto import p4d, p4r

from softswitch.p4runtime.messages import adopt
from softswitch.p4runtime.reconcile import carry_over
from switch_harness.entity_model import EntityModel, OneShot, entity
from switch_harness.model_pipeline import ModelPipeline
from switch_harness.p4runtime import (
    DEVICE,
    ENTITIES,
    INSERT,
    MODIFY,
    Control,
    asynchronous,
    config,
    controlled,
    forward,
    identity,
    read,
    rig,
    update,
    write,
)
from switch_harness.p4runtime_draws import EVERYTHING, STATE, serialized
from switch_harness.wording import says


def filled(state: dict[tuple[Any, ...], Any]) -> tuple[Control, EntityModel]:
    control, model = controlled(ENTITIES, ModelPipeline), EntityModel()
    for key, value in state.items():
        kind = MODIFY if key in model.state else INSERT
        assert model.do(kind, key, value) == "OK"
        change = p4r.Update(type=kind, entity=entity(key, value))
        assert write(control, change) == [None]
    return control, model


@pytest.mark.parametrize("state", [STATE, {("balanced", 5, 48): OneShot(((5, 2), (6, 1)))}])
def test_all_state_is_kept_when_reconciling_with_another_pipeline(state: dict[tuple[Any, ...], Any]) -> None:
    old, _ = filled(state)
    new = controlled(ENTITIES, ModelPipeline)
    assert carry_over(old, new) == []
    assert serialized(read(new, *EVERYTHING)) == serialized(read(old, *EVERYTHING))
    assert new.pipeline.profile_states == old.pipeline.profile_states
    assert new.pipeline.meters == old.pipeline.meters


class RegisterCell:
    """The state of a pipeline whose only entity is a register cell that no other pipeline has."""

    def __init__(self, data: p4d.P4Data) -> None:
        cell = p4r.Entity(register_entry=p4r.RegisterEntry(register_id=99, data=data))
        self.response = adopt(p4r.ReadResponse(entities=[cell]))
        self.tables: Any = None

    def read(self, request: Any) -> tuple[Any, list[Any]]:
        return iter([self.response]), []


@pytest.mark.parametrize(
    "zero, value",
    [
        (p4d.P4Data(bitstring=b"\0"), p4d.P4Data(bitstring=b"\0\1")),
        (p4d.P4Data(bool=False), p4d.P4Data(bool=True)),
        (p4d.P4Data(enum_value=b"\0"), p4d.P4Data(enum_value=b"\1")),
    ],
)
def test_only_register_cells_of_zero_need_no_place(zero: p4d.P4Data, value: p4d.P4Data) -> None:
    new = controlled(ENTITIES, ModelPipeline)
    assert carry_over(RegisterCell(zero), new) == []
    assert len(carry_over(RegisterCell(value), new)) == 1


def without_table(name: str) -> p4r.ForwardingPipelineConfig:
    """Return another program: `control.p4` whose other table has another name."""
    answer = config()
    for table in answer.p4info.tables:
        if table.preamble.alias == name:
            table.preamble.name += "_2"
            table.preamble.id += 1
    answer.p4_device_config = answer.p4_device_config.replace(
        f'"ControlIngress.{name}"'.encode(), f'"ControlIngress.{name}_2"'.encode()
    )
    return answer


@asynchronous
async def test_state_without_a_place_in_the_new_pipeline_keeps_the_old_pipeline() -> None:
    async with rig() as switch:
        primary = await switch.primary()
        await primary.write(update(forward(1)), p4r.Update(type=INSERT, entity=entity_of_pairs()))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await primary.set_config("RECONCILE_AND_COMMIT", without_table("pairs"))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert says(str(refused.value.details()), 1, "first", "ID")
        assert len(switch.ports.started) == 1
        assert await primary.entries() == 4


@asynchronous
async def test_entries_with_a_place_in_the_new_pipeline_are_kept() -> None:
    async with rig() as switch:
        primary = await switch.primary()
        pair = entity_of_pairs()
        await primary.write(update(forward(1, port=4)))
        await primary.set_config("RECONCILE_AND_COMMIT", without_table("pairs"))
        assert len(switch.ports.started) == 2
        frame = (1).to_bytes(6, "big") + bytes(58)
        assert [out.port for out in switch.ports.started[-1].process(1, frame, 0, 0)] == [4]
        assert await primary.entries() == 3
        request = p4r.ReadRequest(device_id=DEVICE, entities=[pair])
        with pytest.raises(grpc.aio.AioRpcError, match="no table has ID"):
            [response async for response in switch.stub.Read(request)]


def entity_of_pairs() -> p4r.Entity:
    answer = p4r.Entity()
    entry = answer.table_entry
    entry.table_id = identity("pairs")
    for field in (1, 2):
        entry.match.add(field_id=field).exact.value = b"\1"
    entry.action.action.action_id = identity("NoAction")
    return answer
