"""An action profile as the server keeps it: members, groups, and how many refer to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from grpc import StatusCode

from softswitch.ir import Program
from softswitch.limits import GROUP_SHARE
from softswitch.messages import pluralize
from softswitch.p4runtime.batch import Batch
from softswitch.p4runtime.entities.selection import MemberNumbers
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import ActionProfileInfo, P4Info
from softswitch.p4runtime.status import Refusal, invalid
from softswitch.pipeline import ActionCall
from softswitch.v1model import DROP_PORT

Watched = p4r.ActionProfileGroup.Member | p4r.ActionProfileAction


class OneShot(NamedTuple):
    """A group that an entry brought with it, as it was written, and the numbers of each member's copies."""

    message: p4r.ActionProfileActionSet
    copies: Sequence[Sequence[int]]


OneShots = Mapping[int, OneShot]


class ProfileStore:
    """One action profile.

    `members` and `groups` are the controller's, by its IDs, which are those in the pipeline too. `one_shots`
    are groups that entries brought with them (`one_shots.OneShots`), by numbers of the server's own: a
    profile has either the one or the other (P4Runtime 1.4 §9.2.3).
    """

    def __init__(self, profile: ActionProfileInfo, size: int) -> None:
        self.profile = profile
        self.name = profile.name
        self.size = size
        self.members: dict[int, ActionCall] = {}
        self.groups: dict[int, p4r.ActionProfileGroup] = {}
        self.one_shots: dict[int, OneShot] = {}
        self.listed: dict[int, int] = {}  # how many members each group or one-shot lists in the pipeline
        self.member_uses: dict[int, int] = {}
        self.group_uses: dict[int, int] = {}
        self.numbers = MemberNumbers()

    def check_member(self, member: int) -> None:
        """Refuse a member that is not there."""
        if member not in self.members:
            raise self.missing("member", member)

    def check_group(self, group: int) -> None:
        """Refuse a group that is not there, and any in a profile without selector."""
        if not self.profile.has_selector:
            raise invalid(f"action profile {self.name} has no selector, and so no groups")
        if group not in self.groups:
            raise self.missing("group", group)

    def check_manual(self) -> None:
        """Refuse members and groups beside one-shots."""
        if self.one_shots:
            raise invalid(f"action profile {self.name} has one-shot entries, so neither members nor groups")

    def weight(self, weight: int) -> int:
        """How often a member is in a group; `Refusal` where the weight is wrong."""
        if self.profile.weights_disallowed:
            if weight:
                raise invalid(f"action profile {self.name}: weight {weight} is given, weights are disallowed")
            return 1
        if weight <= 0:
            raise invalid(f"action profile {self.name}: weight {weight} is not positive")
        if 0 < self.profile.max_member_weight < weight:
            most = self.profile.max_member_weight
            raise invalid(f"action profile {self.name}: weight {weight} is above the largest, {most}")
        return weight

    def group_size(self, weights: Sequence[int]) -> int:
        """What counts against the limits of a group (P4Runtime 1.4 §6.4.3)."""
        return len(weights) if self.profile.counts_members else sum(weights)

    def check_group_size(self, weights: Sequence[int], most: int, group: int | None = None) -> None:
        """Refuse members for a group, new or not, that are more than `most` (0: no limit), or than fit."""
        size = self.group_size(weights)
        if 0 < most < size:
            text = f"action profile {self.name}: a group of size {size} is larger than {most}"
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, text)
        listed = sum(weights) + sum(n for other, n in self.listed.items() if other != group)
        if listed > GROUP_SHARE * self.size:
            text = f"its groups have room for {GROUP_SHARE * self.size} members together, not {listed}"
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, f"action profile {self.name}: {text}")

    def use(self, uses: dict[int, int], identity: int, change: int, batch: Batch) -> None:
        """Count one reference to a member or a group more or less."""
        batch.put(uses, identity, uses.get(identity, 0) + change or None)

    def missing(self, kind: str, identity: int) -> Refusal:
        """The refusal of a member or group that is not there."""
        return Refusal(StatusCode.NOT_FOUND, f"action profile {self.name}: {kind} {identity} is not there")

    def full(self, kind: str) -> Refusal:
        """The refusal of one member or group more than there is room for."""
        text = f"action profile {self.name} is full with {pluralize(self.size, kind)}"
        return Refusal(StatusCode.RESOURCE_EXHAUSTED, text)


class Profiles:
    """All action profiles, by ID."""

    def __init__(self, p4info: P4Info, program: Program) -> None:
        sizes = {profile.name: profile.size for profile in program.profiles}
        self._stores = {i: ProfileStore(p, sizes[p.name]) for i, p in p4info.profiles.items()}

    def __getitem__(self, identity: int) -> ProfileStore:
        store = self._stores.get(identity)
        if store is None:
            raise invalid(f"no action profile has ID {identity}")
        return store

    def find_named(self, name: str) -> ProfileStore | None:
        """The profile with a P4 name, or None."""
        return next((store for store in self._stores.values() if store.name == name), None)

    def selected(self, profile: int, inside: int, what: str) -> list[ProfileStore]:
        """The profiles that a query is about: the one with its ID, or all where that is 0."""
        if profile:
            return [self[profile]]
        if inside:
            raise invalid(f"a {what} ID is given without an action profile ID")
        return list(self._stores.values())


def check_watch(member: Watched, location: str) -> None:
    """Refuse a watched port that no port can be. (Which ports are up is not watched.)"""
    kind = member.WhichOneof("watch_kind")
    if kind is None:
        return
    port = member.watch if kind == "watch" else int.from_bytes(member.watch_port, "big")
    if not 0 <= port < DROP_PORT:
        raise invalid(f"{location}: watched port {port} does not exist, ports go from 0 to {DROP_PORT - 1}")
