"""The primary of each role (P4Runtime 1.4 §5), without I/O: methods return the notices to send."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from grpc import StatusCode

from softswitch.p4runtime.codecs.values import decode_uint128, encode_uint128
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal, denied, invalid

MAX_CONTROLLERS = 16  # streams of a role, as in BMv2
C = TypeVar("C")  # a controller: a hashable object for its stream
Notices = list[tuple[C, p4r.StreamMessageResponse]]


@dataclass
class _Role(Generic[C]):
    """The connected controllers of a role with their election IDs; None for no election ID."""

    controllers: dict[C, int | None] = field(default_factory=dict)

    @property
    def primary_id(self) -> int | None:
        return max((i for i in self.controllers.values() if i is not None), default=None)

    @property
    def primary(self) -> C | None:
        primary_id = self.primary_id
        return next((c for c, i in self.controllers.items() if i is not None and i == primary_id), None)


class Arbiter(Generic[C]):
    """The controllers of one device.

    The primary of a role is the connected controller with the highest election ID, as in BMv2: when it
    leaves, the next one becomes primary. (The specification leaves the role without a primary until a
    controller bids at least as high, which a client with a fixed ID, such as p4runtime-shell, cannot do.) All
    roles have all permissions: role configurations are refused.
    """

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self._roles: dict[str, _Role[C]] = {"": _Role()}
        self._role_names: dict[C, str] = {}

    def update(self, controller: C, message: p4r.MasterArbitrationUpdate) -> Notices[C]:
        """Process a controller's bid; return the notices to send. A Refusal ends its stream."""
        name = message.role.name
        if message.role.HasField("config"):
            raise invalid(f"role {name!r}: role configurations are not supported, leave role.config unset")
        current_role = self._role_names.get(controller)
        if message.device_id != self._device_id:
            code = StatusCode.NOT_FOUND if current_role is None else StatusCode.FAILED_PRECONDITION
            raise Refusal(code, f"device {message.device_id} is not here, this is device {self._device_id}")
        if current_role not in (None, name):
            raise Refusal(
                StatusCode.FAILED_PRECONDITION, f"this stream's role is {current_role!r}, not {name!r}"
            )
        role = self._roles.get(name) or _Role()
        election_id = decode_uint128(message.election_id) if message.HasField("election_id") else None
        self._check_bid(role, controller, election_id)
        old_primary = role.primary
        self._roles[name] = role
        role.controllers[controller] = election_id
        self._role_names[controller] = name
        must_notify_all = role.primary is not old_primary or role.primary is controller
        return self._notices(name, list(role.controllers) if must_notify_all else [controller])

    def leave(self, controller: C) -> Notices[C]:
        name = self._role_names.pop(controller, None)
        if name is None:
            return []
        role = self._roles[name]
        was_primary = role.primary is controller
        del role.controllers[controller]
        if name and not role.controllers:  # the name may be any text: do not collect them
            del self._roles[name]
        return self._notices(name, list(role.controllers)) if was_primary and role.controllers else []

    def check_write(self, role_name: str, election_id: int | None) -> None:
        role = self._roles.get(role_name)
        if role is None:
            raise Refusal(StatusCode.NOT_FOUND, f"role {role_name!r} has no controller")
        primary_id = role.primary_id
        if election_id is None or election_id != primary_id:
            given_text = "no election ID" if election_id is None else f"election ID {election_id}"
            primary_text = "there is no primary" if primary_id is None else f"the primary has {primary_id}"
            raise denied(f"not primary: {given_text} is given, {primary_text}")

    def is_primary(self, controller: C) -> bool:
        name = self._role_names.get(controller)
        return name is not None and self._roles[name].primary is controller

    @property
    def primaries(self) -> list[C]:
        return [role.primary for role in self._roles.values() if role.primary is not None]

    def _check_bid(self, role: _Role[C], controller: C, election_id: int | None) -> None:
        other_ids = [
            i for other_controller, i in role.controllers.items() if other_controller is not controller
        ]
        if election_id is not None and election_id in other_ids:
            raise invalid(f"election ID {election_id} is used by another controller")
        if len(other_ids) >= MAX_CONTROLLERS:
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, f"there are {MAX_CONTROLLERS} controllers already")

    def _notices(self, name: str, controllers: list[C]) -> Notices[C]:
        role = self._roles[name]
        primary_id, primary = role.primary_id, role.primary
        notices: Notices[C] = []
        for controller in controllers:
            response = p4r.StreamMessageResponse()
            update = response.arbitration
            update.device_id = self._device_id
            if name:
                update.role.name = name
            if primary_id is not None:
                update.election_id.CopyFrom(encode_uint128(primary_id))
            if primary is None:
                code, text = StatusCode.NOT_FOUND, "there is no primary"
            elif controller is primary:
                code, text = StatusCode.OK, "is primary"
            else:
                code, text = StatusCode.ALREADY_EXISTS, "is backup"
            update.status.code, update.status.message = int(code.value[0]), text
            notices.append((controller, response))
        return notices
