"""Multicast groups and clone sessions of simple_switch_CLI, translated to P4Runtime.

In P4Runtime groups and sessions list their replicas. So each change of a node or group writes whole groups,
and the sessions that refer to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from softswitch.conformance.errors import StfError
from softswitch.conformance.target import ConformanceTarget
from softswitch.pipeline import Replica
from softswitch.runtime.nodes import Nodes
from softswitch.runtime.refusals import RuntimeRefusal


class CliReplication:
    def __init__(self, target: ConformanceTarget) -> None:
        self._target = target
        self._nodes = Nodes()
        self._sessions: set[int] = set()

    def create_group(self, group: int) -> None:
        if group in self._nodes.groups:
            raise StfError(f"multicast group {group} exists already")
        self._nodes.groups[group] = []

    def create_node(self, instance: int, ports: tuple[int, ...]) -> None:
        """Create a node; nodes are numbered from 0."""
        self._nodes.create(instance, ports, lags=())

    def update_node(self, node: int, ports: tuple[int, ...]) -> None:
        with _stf_errors():
            group = self._nodes.update(node, ports, lags=())
        if group is not None:
            self._write_group(group)

    def add_node_to_group(self, group: int, node: int) -> None:
        with _stf_errors():
            self._nodes.associate(group, node)
        self._write_group(group)

    def mirror_to_port(self, session: int, port: int) -> None:
        self._nodes.group_of_session.pop(session, None)
        self._write_session(session, [Replica(port)])

    def mirror_to_group(self, session: int, group: int) -> None:
        """Write a clone session with a group's replicas; later changes of the group update the session."""
        with _stf_errors():
            self._nodes.find_group(group)
        self._nodes.group_of_session[session] = group
        self._write_session(session, self._nodes.replicas(group))

    def check_session(self, session: int) -> None:
        if session not in self._sessions:
            raise StfError(f"there is no clone session {session}")

    def delete_session(self, session: int) -> None:
        self.check_session(session)
        self._sessions.discard(session)
        self._nodes.group_of_session.pop(session, None)
        self._target.replication.write_clone_session(session, ())

    def _write_group(self, group: int) -> None:
        replicas = self._nodes.replicas(group)
        self._target.replication.write_multicast_group(group, replicas)
        for session in self._nodes.sessions_of(group):
            self._write_session(session, replicas)

    def _write_session(self, session: int, replicas: list[Replica]) -> None:
        self._target.replication.write_clone_session(session, replicas)
        self._sessions.add(session)


@contextmanager
def _stf_errors() -> Iterator[None]:
    try:
        yield
    except RuntimeRefusal as refusal:
        raise StfError(refusal.text) from None
