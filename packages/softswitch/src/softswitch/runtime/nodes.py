"""BMv2's multicast groups: groups of nodes, which have ports and link aggregation groups (LAGs).

A node sends a copy to each of its ports in ascending order, and one to a port of each of its LAGs (BMv2:
simple_pre_lag.cpp). P4Runtime has only replicas: when a P4Runtime client changes a group, its replicas become
nodes here, one for each `egress_rid`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import groupby

from softswitch.p4runtime.entities.selection import NumberAllocator
from softswitch.pipeline import Replica
from softswitch.runtime.interface import Lag, McGroup, Multicast, RuntimeNode
from softswitch.runtime.refusals import RuntimeRefusal

PRE = "PRE"  # the packet replication engine, in texts of errors
_LAG_HASH = 0xFF  # the hash that BMv2 uses for all packets


@dataclass
class _Node:
    rid: int  # `egress_rid` of its copies
    ports: list[int]
    lags: list[int]
    group: int | None = None


@dataclass
class Nodes:
    nodes: dict[int, _Node] = field(default_factory=dict)  # by handle
    groups: dict[int, list[int]] = field(default_factory=dict)  # handles of nodes by multicast group
    lags: dict[int, list[int]] = field(default_factory=dict)  # ports by LAG
    group_of_session: dict[int, int] = field(default_factory=dict)  # multicast group by mirroring session
    _allocator: NumberAllocator = field(default_factory=NumberAllocator)

    def snapshot(self) -> Callable[[], None]:
        """Copy the state; return a function that restores it (`p4runtime.batch.Restorable`)."""
        state = {
            "nodes": {handle: replace(node) for handle, node in self.nodes.items()},
            "groups": {group: list(handles) for group, handles in self.groups.items()},
            "lags": dict(self.lags),
            "group_of_session": dict(self.group_of_session),
            "_allocator": deepcopy(self._allocator),
        }
        return lambda: self.__dict__.update(state)

    def find_node(self, handle: int) -> _Node:
        if handle not in self.nodes:
            raise RuntimeRefusal(PRE, "INVALID_L1_HANDLE", f"there is no node with handle {handle}")
        return self.nodes[handle]

    def find_group(self, group: int) -> list[int]:
        if group not in self.groups:
            raise RuntimeRefusal(PRE, "INVALID_MGRP_HANDLE", f"there is no multicast group {group}")
        return self.groups[group]

    def create(self, rid: int, ports: Sequence[int], lags: Sequence[int]) -> int:
        handle = self._allocator.allocate()
        self.nodes[handle] = _Node(rid, sorted(ports), sorted(lags))
        return handle

    def update(self, handle: int, ports: Sequence[int], lags: Sequence[int]) -> int | None:
        """Replace a node's ports and LAGs; return its group."""
        node = self.find_node(handle)
        node.ports, node.lags = sorted(ports), sorted(lags)
        return node.group

    def destroy(self, handle: int) -> int | None:  # returns the group that it was in
        group = self.dissociate(handle)
        del self.nodes[handle]
        self._allocator.free(handle)
        return group

    def associate(self, group: int, handle: int) -> None:
        node, handles = self.find_node(handle), self.find_group(group)
        if node.group is not None:
            text = f"node {handle} is in multicast group {node.group} already"
            raise RuntimeRefusal(PRE, "ERROR", text)
        handles.append(handle)
        node.group = group

    def dissociate(self, handle: int) -> int | None:  # returns the group that it was in
        node = self.find_node(handle)
        group, node.group = node.group, None
        if group is not None:
            self.groups[group].remove(handle)
        return group

    def replicas(self, group: int) -> list[Replica]:
        replicas = []
        for handle in self.groups.get(group, []):
            node = self.nodes[handle]
            lag_ports = [self._pick_port(lag) for lag in node.lags]
            replicas += [
                Replica(port, node.rid) for port in (*node.ports, *(p for p in lag_ports if p is not None))
            ]
        return replicas

    def sessions_of(self, group: int) -> list[int]:
        return [session for session, destination in self.group_of_session.items() if destination == group]

    def _pick_port(self, lag: int) -> int | None:
        ports = self.lags.get(lag)
        return ports[_LAG_HASH % len(ports)] if ports else None

    def apply_p4runtime_changes(
        self, entries: Mapping[int, Sequence[Replica]], sessions: Mapping[int, object]
    ) -> None:
        for group in [group for group in self.groups if group not in entries]:
            for handle in self.groups.pop(group):
                self.nodes[handle].group = None
        for group, replicas in entries.items():
            if group in self.groups and self.replicas(group) == list(replicas):
                continue
            for handle in list(self.groups.setdefault(group, [])):
                self.destroy(handle)
            for rid, copies in groupby(replicas, key=lambda replica: replica.instance):
                self.associate(group, self.create(rid, [copy.port for copy in copies], []))
        self.group_of_session = {
            session: group for session, group in self.group_of_session.items() if session in sessions
        }

    def describe(self) -> Multicast:
        return Multicast(
            groups=[
                McGroup(group=group, nodes=[self._describe_node(handle) for handle in handles])
                for group, handles in self.groups.items()
            ],
            lags=[Lag(lag=lag, ports=ports) for lag, ports in self.lags.items()],
        )

    def _describe_node(self, handle: int) -> RuntimeNode:
        node = self.nodes[handle]
        return RuntimeNode(handle=handle, rid=node.rid, ports=node.ports, lags=node.lags)
