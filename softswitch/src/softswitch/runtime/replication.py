"""Calls on multicast groups and mirroring sessions, which are clone sessions in P4Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from softswitch.p4runtime.batch import DELETE
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.entities.replicas import MAX_INSTANCE
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


class Replication(RuntimeCalls[PL]):
    def __init__(self, pipelines: Pipelines[PL]) -> None:
        RuntimeCalls.__init__(self, pipelines)
        self._nodes: WeakKeyDictionary[ControlledPipeline[PL], Nodes] = WeakKeyDictionary()

    # -- multicast

    def mc_group_create(self, group: int) -> None:
        control, nodes = self._update_nodes()
        if not 0 < group < MULTICAST_GROUPS:
            text = f"multicast group {group}: there are groups 1 to {MULTICAST_GROUPS - 1}"
            raise RuntimeRefusal(PRE, "INVALID_MGID", text)
        if group in nodes.groups:
            return  # as in BMv2
        nodes.groups[group] = []
        _write_group(control, nodes, group)

    def mc_group_destroy(self, group: int) -> None:
        """Remove a group; do nothing if there is none, as in BMv2."""
        control, nodes = self._update_nodes()
        if group not in nodes.groups:
            return
        for handle in nodes.groups.pop(group):
            nodes.nodes[handle].group = None
        batch = control.batch()
        message = p4r.MulticastGroupEntry(multicast_group_id=group)
        control.replication.groups.write(DELETE, message, batch)
        batch.apply()
        _write_mirrors(control, nodes, group)

    def mc_node_create(self, rid: int, ports: list[int], lags: list[int]) -> int:
        _, nodes = self._update_nodes()
        if not 0 <= rid <= MAX_INSTANCE:
            raise RuntimeRefusal(PRE, "ERROR", f"rid: expected 0 to {MAX_INSTANCE}, got {rid}")
        _check_ports(ports)
        return nodes.create(rid, ports, lags)

    def mc_node_update(self, node: int, ports: list[int], lags: list[int]) -> None:
        control, nodes = self._update_nodes()
        _check_ports(ports)
        stored_node = nodes.find_node(node)
        stored_node.ports, stored_node.lags = sorted(ports), sorted(lags)
        _write_group(control, nodes, stored_node.group)

    def mc_node_destroy(self, node: int) -> None:
        control, nodes = self._update_nodes()
        _write_group(control, nodes, nodes.destroy(node))

    def mc_node_associate(self, group: int, node: int) -> None:
        control, nodes = self._update_nodes()
        nodes.associate(group, node)
        _write_group(control, nodes, group)

    def mc_node_dissociate(self, group: int, node: int) -> None:
        control, nodes = self._update_nodes()
        if node not in nodes.find_group(group):
            nodes.find_node(node)  # raises if there is no such node
            raise RuntimeRefusal(PRE, "ERROR", f"node {node} is not in multicast group {group}")
        _write_group(control, nodes, nodes.dissociate(node))

    def mc_set_lag(self, lag: int, ports: list[int]) -> None:
        control, nodes = self._update_nodes()
        _check_ports(ports)
        nodes.lags[lag] = sorted(ports)
        for node in list(nodes.nodes.values()):
            if lag in node.lags:
                _write_group(control, nodes, node.group)

    def multicast(self) -> Multicast:
        _, nodes = self._update_nodes()
        return nodes.describe()

    # -- mirroring

    def mirror_set(self, session: int, port: int | None, group: int | None) -> None:
        control, nodes = self._update_nodes()
        if not 0 < session < CLONE_SESSIONS:
            text = f"mirroring session {session}: there are sessions 1 to {CLONE_SESSIONS - 1}"
            raise RuntimeRefusal(MIRRORING, "ERROR", text)
        if (port is None) == (group is None):
            raise RuntimeRefusal(MIRRORING, "ERROR", "expected either a port or a multicast group")
        if port is not None:
            _check_ports([port])
            nodes.group_of_session.pop(session, None)
            _write_mirror(control, session, [Replica(port)])
        else:
            assert group is not None
            nodes.group_of_session[session] = group
            _write_mirror(control, session, nodes.replicas(group))

    def mirror_delete(self, session: int) -> None:
        control, nodes = self._update_nodes()
        batch = control.batch()
        try:
            control.replication.sessions.write(DELETE, p4r.CloneSessionEntry(session_id=session), batch)
        except Refusal as refusal:
            raise RuntimeRefusal(MIRRORING, "SESSION_NOT_FOUND", str(refusal)) from None
        batch.apply()
        nodes.group_of_session.pop(session, None)

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


def _write_group(control: ControlledPipeline[PL], nodes: Nodes, group: int | None) -> None:
    """Write the replicas of a group, and of the mirroring sessions to the group, to the pipeline."""
    if group is None:
        return
    replicas = nodes.replicas(group)
    message = p4r.MulticastGroupEntry(multicast_group_id=group, replicas=_encode_replicas(replicas))
    batch = control.batch()
    control.replication.groups.put(message, replicas, batch)
    batch.apply()
    _write_mirrors(control, nodes, group)


def _write_mirrors(control: ControlledPipeline[PL], nodes: Nodes, group: int) -> None:
    for session, destination in nodes.group_of_session.items():
        if destination == group:
            _write_mirror(control, session, nodes.replicas(group))


def _write_mirror(control: ControlledPipeline[PL], session: int, replicas: list[Replica]) -> None:
    message = p4r.CloneSessionEntry(session_id=session, replicas=_encode_replicas(replicas))
    batch = control.batch()
    control.replication.sessions.put(message, replicas, batch)
    batch.apply()


def _encode_replicas(replicas: Sequence[Replica]) -> list[p4r.Replica]:
    return [p4r.Replica(egress_port=replica.port, instance=replica.instance) for replica in replicas]


def _check_ports(ports: Sequence[int]) -> None:
    for port in ports:
        if not 0 <= port < DROP_PORT:
            text = f"port {port}: ports go from 0 to {DROP_PORT - 1}"
            raise RuntimeRefusal(PRE, "ERROR", text)
