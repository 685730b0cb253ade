"""State of action profiles in the server: members, groups, and the number of references to each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from grpc import StatusCode

from softswitch.ir import Program
from softswitch.limits import GROUP_MEMBERS_PER_MEMBER
from softswitch.messages import pluralize
from softswitch.p4runtime.batch import Batch, Sizes
from softswitch.p4runtime.codecs.translation import Translation
from softswitch.p4runtime.entities.selection import MemberNumbers
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import ActionProfileInfo, P4Info
from softswitch.p4runtime.status import Refusal, find_by_id, invalid
from softswitch.pipeline import ActionCall, ControlPlane
from softswitch.v1model import DROP_PORT

WatchingMember = p4r.ActionProfileGroup.Member | p4r.ActionProfileAction


class GroupMember(NamedTuple):
    member: int
    watched_port: int | None


class OneShot(NamedTuple):
    message: p4r.ActionProfileActionSet
    member_numbers: Sequence[Sequence[int]]  # [action][copy], as many copies as the action's weight


OneShots = Mapping[int, OneShot]


class ProfileStore:
    """The state of one action profile.

    The controller writes `members` and `groups`, by its IDs, which the pipeline uses too. `one_shots` are the
    groups of one-shot table entries (module `one_shots`), by numbers that the server allocates. A profile has
    either members and groups, or one-shots (P4Runtime 1.4 §9.2.3).
    """

    def __init__(
        self,
        profile: ActionProfileInfo,
        size: int,
        port_translation: Translation | None = None,
        down_ports: Collection[int] = (),
    ) -> None:
        self.port_translation, self._down_ports = port_translation, down_ports
        # By group or one-shot: its members in the order in which hashes select them.
        self.group_orders: dict[int, Sequence[GroupMember]] = {}
        self.profile = profile
        self.name = profile.name
        self.size = size
        self.members: dict[int, ActionCall] = {}
        self.groups: dict[int, p4r.ActionProfileGroup] = {}
        self.one_shots: dict[int, OneShot] = {}
        # Members of each group or one-shot in the pipeline, each as often as its weight says.
        self.group_sizes = Sizes[int]()
        self.one_shot_sizes = Sizes[int]()  # actions of each one-shot
        self.member_uses: dict[int, int] = {}  # number of entries and groups that refer to each member
        self.group_uses: dict[int, int] = {}
        self.numbers = MemberNumbers()

    def check_member(self, member: int) -> None:
        if member not in self.members:
            raise self.missing_error("member", member)

    def check_group(self, group: int) -> None:
        if not self.profile.has_selector:
            raise invalid(f"action profile {self.name} has no selector, and so no groups")
        if group not in self.groups:
            raise self.missing_error("group", group)

    def check_no_one_shots(self) -> None:
        if self.one_shots:
            raise invalid(f"action profile {self.name} has one-shot entries, so neither members nor groups")

    def check_weight(self, weight: int, has_limit: bool = True) -> int:
        """Return how many times a member is in a group; raises Refusal for a weight that is not allowed."""
        if self.profile.weights_disallowed:
            if weight:
                raise invalid(f"action profile {self.name}: weight {weight} is given, weights are disallowed")
            return 1
        if weight <= 0:
            raise invalid(f"action profile {self.name}: weight {weight} is not positive")
        if has_limit and 0 < self.profile.max_member_weight < weight:
            limit = self.profile.max_member_weight
            raise invalid(f"action profile {self.name}: weight {weight} is above the largest, {limit}")
        return weight

    def group_size(self, weights: Sequence[int]) -> int:
        """Return the size of a group for its limits (P4Runtime 1.4 §6.4.3)."""
        return len(weights) if self.profile.counts_members else sum(weights)

    def check_group_size(self, weights: Sequence[int], limit: int, group: int | None = None) -> None:
        """Raise Refusal if a group, new or not, exceeds `limit` (0: unlimited) or the profile's space."""
        size = self.group_size(weights)
        if 0 < limit < size:
            text = f"action profile {self.name}: a group of size {size} is larger than {limit}"
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, text)
        total = sum(weights) + self.group_sizes.total_without(group)
        if total > GROUP_MEMBERS_PER_MEMBER * self.size:
            capacity = GROUP_MEMBERS_PER_MEMBER * self.size
            text = f"its groups have room for {capacity} members together, not {total}"
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, f"action profile {self.name}: {text}")

    def put_group_order(self, group: int, order: Sequence[GroupMember], batch: Batch) -> None:
        """Store the order of a group, and write it to the pipeline; a later update may change it again."""
        batch.put(self.group_orders, group, order)
        batch.add(lambda pipeline: self.write_group(pipeline, group, order))

    def write_group(self, pipeline: ControlPlane, group: int, order: Sequence[GroupMember]) -> None:
        """Write the members of a group whose watched ports are not down."""
        members = [member for member, watched_port in order if watched_port not in self._down_ports]
        pipeline.profiles.write_group(self.name, group, members)

    def change_uses(self, uses: dict[int, int], identity: int, change: int, batch: Batch) -> None:
        batch.put(uses, identity, uses.get(identity, 0) + change or None)  # None removes a count of 0

    def missing_error(self, kind: str, identity: int) -> Refusal:
        return Refusal(StatusCode.NOT_FOUND, f"action profile {self.name}: {kind} {identity} is not there")

    def full_error(self, kind: str) -> Refusal:
        text = f"action profile {self.name} is full with {pluralize(self.size, kind)}"
        return Refusal(StatusCode.RESOURCE_EXHAUSTED, text)


class ProfileStores:
    """All action profiles; the caller updates `down_ports` when a port goes down or up."""

    def __init__(self, p4info: P4Info, program: Program, down_ports: Collection[int] = ()) -> None:
        sizes = {profile.name: profile.size for profile in program.profiles}
        self._stores = {
            profile_id: ProfileStore(profile, sizes[profile.name], p4info.port_translation, down_ports)
            for profile_id, profile in p4info.profiles.items()
        }

    def __getitem__(self, profile_id: int) -> ProfileStore:
        return find_by_id(self._stores, profile_id, "action profile")

    def find_by_name(self, name: str) -> ProfileStore | None:
        return next((store for store in self._stores.values() if store.name == name), None)

    def port_changed(self, pipeline: ControlPlane, port: int) -> None:
        for store in self._stores.values():
            for group, order in store.group_orders.items():
                if any(member.watched_port == port for member in order):
                    store.write_group(pipeline, group, order)

    def select(self, profile_id: int, member_or_group_id: int, kind: str) -> list[ProfileStore]:
        if profile_id:
            return [self[profile_id]]
        if member_or_group_id:
            raise invalid(f"a {kind} ID is given without an action profile ID")
        return list(self._stores.values())


def watched_port(member: WatchingMember, location: str, port_translation: Translation | None) -> int | None:
    kind = member.WhichOneof("watch_kind")
    if kind is None:
        return None
    if kind == "watch_port" and port_translation is not None:
        port = port_translation.decode(member.watch_port, location)
    else:
        port = member.watch if kind == "watch" else int.from_bytes(member.watch_port, "big")
    if not 0 <= port < DROP_PORT:
        raise invalid(f"{location}: watched port {port} does not exist, ports go from 0 to {DROP_PORT - 1}")
    return port
