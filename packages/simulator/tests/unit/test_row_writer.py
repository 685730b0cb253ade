"""Rows written to a switch in this process are the rows that a controller reads from it."""

from __future__ import annotations

import finsy as fy
import pytest
from finsy.proto import p4r

from controller.controller_ops import control_of
from controller.tables import (
    Change,
    GroupRow,
    HotParam,
    JobRow,
    KeyState,
    Replica,
    RowEncoder,
    TableRow,
    Update,
)
from foundation.designs.hotset import OFFLOAD_PROXY
from foundation.designs.interface import Design, SwitchHosts
from foundation.designs.registry import design
from foundation.protocol.hashing import lane_of
from hotline_simulator.simulated_switch import RowWriter, compiled_config
from softswitch.compiled import CompiledPipeline
from softswitch.errors import StateError
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.messages import adopt
from switch_harness.wording import mentions

HOTSET = design("hotset")
GROUP = GroupRow(5, (Replica(1), Replica(2, 7)))


def controlled(chosen: Design) -> ControlledPipeline[CompiledPipeline]:
    compiled = compiled_config(chosen)
    return ControlledPipeline(compiled.config, compiled.pipeline, clock=lambda: 0)


def param(key: int, slot: int = 3, state: KeyState = KeyState.HOT) -> HotParam:
    return HotParam(OFFLOAD_PROXY.job, key, lane_of(key), slot, state)


def read(
    control: ControlledPipeline[CompiledPipeline], chosen: Design, kind: type[TableRow]
) -> set[TableRow]:
    """Return all rows of a kind as a controller reads them."""
    schema = fy.P4Schema(chosen.p4info)
    queries = [fy.P4TableEntry(kind.CONTROL + table).encode(schema) for table in kind.TABLES]
    responses, refusals = control.read(adopt(p4r.ReadRequest(entities=queries)))
    assert not any(refusals)
    found = [p4r.Entity.FromString(each.SerializeToString()) for part in responses for each in part.entities]
    return {kind.from_entry(fy.P4TableEntry.decode(each, schema)) for each in found}


@pytest.mark.parametrize("name", ["hotset", "none", "switchml"])
def test_rows_are_read_as_written(name: str) -> None:
    chosen = design(name)
    control = controlled(chosen)
    rows = [*control_of(chosen).rows(SwitchHosts(workers=3, servers=2), list(chosen.arms), 1)]
    if chosen is HOTSET:
        rows += [
            param(key, slot, state) for slot, state in enumerate(KeyState) for key in (slot, 2**63 + slot)
        ]
    RowWriter(control).insert(rows)
    kinds = {type(row) for row in rows} - {GroupRow}
    assert kinds
    for kind in kinds:
        assert read(control, chosen, kind) == {row for row in rows if type(row) is kind}


def test_rows_are_changed_and_deleted() -> None:
    control = controlled(HOTSET)
    writer = RowWriter(control)
    writer.insert([param(1), param(2), GROUP])
    replaced = param(2, slot=4, state=KeyState.PARKED)
    changes = [Update(Change.DELETE, param(1)), Update(Change.MODIFY, replaced), Update(Change.DELETE, GROUP)]
    writer.write(changes)
    assert read(control, HOTSET, HotParam) == {replaced}
    writer.insert([GROUP])


@pytest.mark.parametrize("others", [0, 100], ids=["alone", "among many"])
def test_a_refusal_names_the_row_and_the_reason(others: int) -> None:
    control = controlled(HOTSET)
    writer = RowWriter(control)
    writer.insert([param(1)])
    many = [param(key) for key in range(2, 2 + others)]
    expected = (
        rf"^insert of HotParam\(job={OFFLOAD_PROXY.job}, key=1, .*\): ALREADY_EXISTS: .* is already there$"
    )
    with pytest.raises(StateError, match=expected):
        writer.insert([param(1), *many])
    assert read(control, HOTSET, HotParam) == {param(1), *many}
    with pytest.raises(StateError, match=mentions("NOT_FOUND", "modify")):
        writer.write([Update(Change.MODIFY, param(5000))])


def test_an_empty_write_is_accepted() -> None:
    RowWriter(controlled(HOTSET)).write([])


def test_a_request_of_many_updates_has_their_messages() -> None:
    encoder = RowEncoder(controlled(HOTSET).config.p4info)
    params = [param(key, slot, state) for state in KeyState for slot, key in enumerate((2**63, 0, 255, 256))]
    jobs = [JobRow(job, offload=True, proxy=False, quota=quota) for job, quota in enumerate((0, 70_000, 0))]
    updates = [
        Update(change, row) for row in (*params, *jobs, *params[::-1], GROUP, *jobs) for change in Change
    ]
    request = p4r.WriteRequest()
    for update in updates:
        encoder.append(request, update)
    assert list(request.updates) == [encoder.update(update) for update in updates]
