"""Multicast groups and clone sessions of simple_switch_CLI, translated to P4Runtime.

The CLI creates nodes (a replication ID and ports), adds them to groups, and lets a clone session refer to a
group; in P4Runtime groups and sessions list their replicas. So each change writes whole groups and sessions.
"""

from __future__ import annotations

from softswitch.conformance.errors import StfError
from softswitch.conformance.target import Target
from softswitch.pipeline import Replica


class CliReplication:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._nodes: list[list[Replica]] = []
        self._groups: dict[int, list[int]] = {}
        self._session_groups: dict[int, int] = {}
        self._sessions: set[int] = set()

    def create_group(self, group: int) -> None:
        if group in self._groups:
            raise StfError(f"multicast group {group} exists already")
        self._groups[group] = []

    def create_node(self, instance: int, ports: tuple[int, ...]) -> None:
        """Create a node; nodes are numbered from 0."""
        self._nodes.append([Replica(port, instance) for port in ports])

    def update_node(self, node: int, ports: tuple[int, ...]) -> None:
        self._check_node(node)
        self._nodes[node] = [Replica(port, self._nodes[node][0].instance) for port in ports]
        for group, nodes in self._groups.items():
            if node in nodes:
                self._write_group(group)

    def add_node_to_group(self, group: int, node: int) -> None:
        self._check_node(node)
        self._check_group(group)
        self._groups[group].append(node)
        self._write_group(group)

    def mirror_to_port(self, session: int, port: int) -> None:
        self._session_groups.pop(session, None)
        self._write_session(session, (Replica(port, 0),))

    def mirror_to_group(self, session: int, group: int) -> None:
        """Write a clone session with a group's replicas; later changes of the group update the session."""
        self._check_group(group)
        self._session_groups[session] = group
        self._write_session(session, self._replicas(group))

    def check_session(self, session: int) -> None:
        if session not in self._sessions:
            raise StfError(f"there is no clone session {session}")

    def delete_session(self, session: int) -> None:
        self.check_session(session)
        self._sessions.discard(session)
        self._session_groups.pop(session, None)
        self._target.replication.write_clone_session(session, ())

    def _write_group(self, group: int) -> None:
        self._target.replication.write_multicast_group(group, self._replicas(group))
        for session, mirrored_group in self._session_groups.items():
            if mirrored_group == group:
                self._write_session(session, self._replicas(group))

    def _write_session(self, session: int, replicas: tuple[Replica, ...]) -> None:
        self._target.replication.write_clone_session(session, replicas)
        self._sessions.add(session)

    def _replicas(self, group: int) -> tuple[Replica, ...]:
        return tuple(replica for node in self._groups[group] for replica in self._nodes[node])

    def _check_group(self, group: int) -> None:
        if group not in self._groups:
            raise StfError(f"there is no multicast group {group}")

    def _check_node(self, node: int) -> None:
        if node >= len(self._nodes):
            raise StfError(f"there is no multicast node {node}; {len(self._nodes)} were created")
