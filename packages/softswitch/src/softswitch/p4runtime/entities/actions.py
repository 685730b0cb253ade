"""Conversion of action messages to `ActionCall`s and back (P4Runtime 1.4 §9.1.2)."""

from __future__ import annotations

from collections.abc import Mapping

from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import ActionInfo
from softswitch.p4runtime.status import Refusal, invalid
from softswitch.pipeline import ActionCall


def decode_call(actions: Mapping[int, ActionInfo], call: p4r.Action, location: str) -> ActionCall:
    action = actions.get(call.action_id)
    if action is None:
        raise unknown_action(actions, call.action_id, location)
    return decode_arguments(action, call)


def decode_arguments(action: ActionInfo, call: p4r.Action) -> ActionCall:
    args = action.params.decode([(param.param_id, param.value) for param in call.params])
    return ActionCall(action.name, args)


def unknown_action(actions: Mapping[int, ActionInfo], action_id: int, location: str) -> Refusal:
    names = ", ".join(f"{action.name} (ID {action.id})" for action in actions.values()) or "none"
    return invalid(f"{location} has no action with ID {action_id}; it has {names}")


def encode_call(actions: Mapping[str, ActionInfo], call: ActionCall, message: p4r.Action) -> None:
    action = actions[call.name]
    message.action_id = action.id
    for param_id, value in action.params.encode(call.args):
        message.params.add(param_id=param_id, value=value)
