"""Calls on multicast groups and mirroring sessions, which are clone sessions in P4Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from softswitch.p4runtime.batch import DELETE, Batch
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.entities.replication import MAX_INSTANCE, PacketReplication, encode_replicas
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.pipelines import Pipelines
from softswitch.p4runtime.status import Refusal
from softswitch.pipeline import Replica
from softswitch.runtime.base import PL, RuntimeCalls
from softswitch.runtime.interface import Mirror, Multicast
from softswitch.runtime.nodes import PRE, Nodes
from softswitch.runtime.refusals import RuntimeRefusal
from softswitch.v1model import CLONE_SESSIONS, DROP_PORT, MULTICAST_GROUPS

MIRRORING = "mirroring"


class ReplicationCalls(RuntimeCalls[PL]):
    def __init__(self, pipelines: Pipelines[PL]) -> None:
        RuntimeCalls.__init__(self, pipelines)
        self._nodes: WeakKeyDictionary[ControlledPipeline[PL], Nodes] = WeakKeyDictionary()

    # -- multicast

    def mc_group_create(self, group: int) -> None:
        with self._change() as change:
            if not 0 < group < MULTICAST_GROUPS:
                text = f"multicast group {group}: there are groups 1 to {MULTICAST_GROUPS - 1}"
                raise RuntimeRefusal(PRE, "INVALID_MGID", text)
            if group in change.nodes.groups:
                return  # as in BMv2
            change.nodes.groups[group] = []
            change.write_group(group)

    def mc_group_destroy(self, group: int) -> None:
        """Remove a group; do nothing if there is none, as in BMv2."""
        with self._change() as change:
            if group not in change.nodes.groups:
                return
            for handle in change.nodes.groups.pop(group):
                change.nodes.nodes[handle].group = None
            message = p4r.MulticastGroupEntry(multicast_group_id=group)
            change.replication.groups.write(DELETE, message, change.batch)
            change.write_mirrors(group)

    def mc_node_create(self, rid: int, ports: list[int], lags: list[int]) -> int:
        _, nodes = self._update_nodes()
        if not 0 <= rid <= MAX_INSTANCE:
            raise RuntimeRefusal(PRE, "ERROR", f"rid: expected 0 to {MAX_INSTANCE}, got {rid}")
        _check_ports(ports)
        return nodes.create(rid, ports, lags)

    def mc_node_update(self, node: int, ports: list[int], lags: list[int]) -> None:
        with self._change() as change:
            _check_ports(ports)
            change.write_group(change.nodes.update(node, ports, lags))

    def mc_node_destroy(self, node: int) -> None:
        with self._change() as change:
            change.write_group(change.nodes.destroy(node))

    def mc_node_associate(self, group: int, node: int) -> None:
        with self._change() as change:
            change.nodes.associate(group, node)
            change.write_group(group)

    def mc_node_dissociate(self, group: int, node: int) -> None:
        with self._change() as change:
            if node not in change.nodes.find_group(group):
                change.nodes.find_node(node)  # raises if there is no such node
                raise RuntimeRefusal(PRE, "ERROR", f"node {node} is not in multicast group {group}")
            change.write_group(change.nodes.dissociate(node))

    def mc_set_lag(self, lag: int, ports: list[int]) -> None:
        with self._change() as change:
            _check_ports(ports)
            change.nodes.lags[lag] = sorted(ports)
            for node in change.nodes.nodes.values():
                if lag in node.lags:
                    change.write_group(node.group)

    def multicast(self) -> Multicast:
        _, nodes = self._update_nodes()
        return nodes.describe()

    # -- mirroring

    def mirror_set(self, session: int, port: int | None, group: int | None) -> None:
        with self._change() as change:
            if not 0 < session < CLONE_SESSIONS:
                text = f"mirroring session {session}: there are sessions 1 to {CLONE_SESSIONS - 1}"
                raise RuntimeRefusal(MIRRORING, "ERROR", text)
            if (port is None) == (group is None):
                raise RuntimeRefusal(MIRRORING, "ERROR", "expected either a port or a multicast group")
            if port is not None:
                _check_ports([port])
                change.nodes.group_of_session.pop(session, None)
                change.write_mirror(session, [Replica(port)])
            else:
                assert group is not None
                change.nodes.group_of_session[session] = group
                change.write_mirror(session, change.nodes.replicas(group))

    def mirror_delete(self, session: int) -> None:
        with self._change() as change:
            message = p4r.CloneSessionEntry(session_id=session)
            try:
                change.replication.sessions.write(DELETE, message, change.batch)
            except Refusal as refusal:
                raise RuntimeRefusal(MIRRORING, "SESSION_NOT_FOUND", str(refusal)) from None
            change.nodes.group_of_session.pop(session, None)

    def mirror(self, session: int) -> Mirror:
        """Return the destination of a session; if P4Runtime created it, the first port."""
        control, nodes = self._update_nodes()
        entry = control.replication.sessions.entries.get(session)
        if entry is None:
            text = f"there is no clone session {session}"
            raise RuntimeRefusal(MIRRORING, "SESSION_NOT_FOUND", text)
        if session in nodes.group_of_session:
            return Mirror(port=None, group=nodes.group_of_session[session])
        _, replicas = entry
        return Mirror(port=next((replica.port for replica in replicas), None), group=None)

    # -- helpers

    def _update_nodes(self) -> tuple[ControlledPipeline[PL], Nodes]:
        """Return the pipeline and its nodes, with P4Runtime's changes applied."""
        control = self.require_unpinned("multicast nodes and mirroring sessions")
        nodes = self._nodes.setdefault(control, Nodes())
        entries = control.replication.groups.entries
        nodes.apply_p4runtime_changes(
            {group: replicas for group, (_, replicas) in entries.items()},
            control.replication.sessions.entries,
        )
        return control, nodes

    @contextmanager
    def _change(self) -> Iterator[_Change]:
        """Apply a change of nodes, groups and sessions as a whole, or undo it if the caller raises."""
        control, nodes = self._update_nodes()
        change = _Change(nodes, control.replication, control.batch())
        change.batch.snapshot(nodes)
        try:
            yield change
        except BaseException:
            change.batch.roll_back()
            raise
        change.batch.apply()


@dataclass(frozen=True)
class _Change:
    nodes: Nodes
    replication: PacketReplication
    batch: Batch

    def write_group(self, group: int | None) -> None:
        """Write the replicas of a group, and of the mirroring sessions to the group."""
        if group is None:
            return
        replicas = self.nodes.replicas(group)
        message = p4r.MulticastGroupEntry(multicast_group_id=group, replicas=encode_replicas(replicas))
        self.replication.groups.put(message, replicas, self.batch)
        self.write_mirrors(group)

    def write_mirrors(self, group: int) -> None:
        for session in self.nodes.sessions_of(group):
            self.write_mirror(session, self.nodes.replicas(group))

    def write_mirror(self, session: int, replicas: list[Replica]) -> None:
        message = p4r.CloneSessionEntry(session_id=session, replicas=encode_replicas(replicas))
        self.replication.sessions.put(message, replicas, self.batch)


def _check_ports(ports: Sequence[int]) -> None:
    for port in ports:
        if not 0 <= port < DROP_PORT:
            text = f"port {port}: ports go from 0 to {DROP_PORT - 1}"
            raise RuntimeRefusal(PRE, "ERROR", text)
