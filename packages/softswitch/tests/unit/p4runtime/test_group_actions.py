"""`group_action`: an action before the member that a one-shot group picks (P4Runtime 1.6)."""

from __future__ import annotations

from typing import Any

import pytest
from finsy.proto import p4r

from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.messages import adopt
from switch_harness import PROGRAMS
from switch_harness.p4runtime import (
    INSERT,
    MODIFY,
    Control,
    config,
    controlled_by,
    identity_in,
)

PROFILES = PROGRAMS / "profiles"
P4INFO = config(program=PROFILES).p4info
GROUP_ACTION: Any = 3


def control_with(group_action: str, make: Any = InterpretedPipeline) -> Control:
    request = config(program=PROFILES)
    table = next(each for each in request.p4info.tables if each.preamble.alias == "selected")
    reference = next(each for each in table.action_refs if each.id == identity_in(P4INFO, group_action))
    reference.scope = GROUP_ACTION
    return controlled_by(request, make)


def one_shot(first: tuple[str, int] | None, *members: tuple[str, int], kind: Any = INSERT) -> p4r.Update:
    """An entry for `selected` = 0; an action has an argument of one byte unless it is `leave_out`."""
    update: Any = adopt(p4r.Update(type=kind))
    entry = update.entity.table_entry
    entry.table_id, entry.priority = identity_in(P4INFO, "selected"), 1
    entry.match.add(field_id=1).ternary.value = entry.match[0].ternary.mask = b"\xff"
    actions = entry.action.action_profile_action_set
    if first is not None:
        _call(actions.group_action, *first)
    for member in members:
        _call(actions.action_profile_actions.add(weight=1).action, *member)
    return update  # type: ignore[no-any-return]  # protobuf has no types


def _call(message: Any, name: str, argument: int) -> None:
    message.action_id = identity_in(P4INFO, name)
    if name != "leave_out":
        message.params.add(param_id=1, value=bytes([argument]))


def outcome(control: Control, flow: int) -> tuple[int, int, int]:
    """Send a frame that hits the entry: return `profiled`, `balanced` and the path that `selected` left."""
    frame = bytes([9, 0xFF]) + flow.to_bytes(2, "big") + bytes(7)
    ((_, sent),) = control.pipeline.process(1, frame, 0, 0)
    return sent[0], int.from_bytes(sent[6:8], "big"), sent[10] & ~(4 | 64)


def write(control: Control, update: Any) -> Any:
    request: Any = adopt(p4r.WriteRequest())
    request.updates.add().CopyFrom(update)
    return control.write(request)[0]


@pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])
def test_the_group_action_and_the_member_run_and_the_member_decides_the_next_table(make: Any) -> None:
    control = control_with("annotate", make)
    assert write(control, one_shot(("annotate", 5), ("balance", 7), ("leave_out", 0))) is None
    assert {outcome(control, flow) for flow in range(20)} == {(5, 7, 8), (5, 0, 17)}
    assert write(control, one_shot(("annotate", 0), ("balance", 9), kind=MODIFY)) is None
    assert outcome(control, 0) == (9, 9, 128 | 8)
    assert write(control, one_shot(None, ("balance", 9), kind=MODIFY)) is None
    assert outcome(control, 0) == (9, 9, 8)


@pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])
@pytest.mark.parametrize(("mark", "expected"), [(0, (9, 0, 1 | 128 | 32)), (6, (6, 0, 1 | 32))])
def test_a_member_with_jumps_and_data_runs_after_a_group_action(
    make: Any, mark: int, expected: tuple[int, int, int]
) -> None:
    control = control_with("leave_out", make)
    assert write(control, one_shot(("leave_out", 0), ("annotate", mark))) is None
    assert outcome(control, 3) == expected


def test_an_entry_is_read_as_written() -> None:
    control = control_with("annotate")
    update: Any = one_shot(("annotate", 5), ("balance", 7))
    assert write(control, update) is None
    request: Any = adopt(p4r.ReadRequest())
    request.entities.add().table_entry.table_id = update.entity.table_entry.table_id
    responses, _ = control.read(request)
    (found,) = [entity for response in responses for entity in response.entities]
    assert found.table_entry.action == update.entity.table_entry.action


@pytest.mark.parametrize(
    ("first", "member", "error"),
    [
        ("balance", "leave_out", "action profile Choose.paths, group_action has no action"),
        ("annotate", "annotate", "action profile Choose.paths has no action"),
    ],
)
def test_only_actions_with_group_scope_are_accepted_as_group_actions(
    first: str, member: str, error: str
) -> None:
    refusal = write(control_with("annotate"), one_shot((first, 1), (member, 1)))
    assert error in str(refusal)
