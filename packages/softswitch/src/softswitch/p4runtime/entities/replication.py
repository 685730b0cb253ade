"""Multicast groups and clone sessions: `PacketReplicationEngineEntry` (P4Runtime 1.4 §9.5)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from grpc import StatusCode

from softswitch.limits import MAX_REPLICAS
from softswitch.p4runtime.batch import DELETE, INSERT, Batch, Sizes
from softswitch.p4runtime.codecs.translation import Translation
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal, invalid, unimplemented
from softswitch.pipeline import ControlPlane, Replica
from softswitch.v1model import CLONE_SESSIONS, DROP_PORT, MULTICAST_GROUPS, REPLICA_INSTANCES

M = TypeVar("M", p4r.MulticastGroupEntry, p4r.CloneSessionEntry)
MAX_CLASS_OF_SERVICE = (1 << 8) - 1  # PSA's ClassOfService_t
MAX_INSTANCE = REPLICA_INSTANCES - 1
_BUCKET_COUNTS = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229)
"""Sizes of a hash table of libstdc++, which grows when it has as many elements as buckets."""


def order_replicas(replicas: Iterable[Replica], old_order: Sequence[Replica] = ()) -> list[Replica]:
    """Return the replicas in the order in which BMv2 sends copies; `old_order` is the previous order.

    BMv2 has a list of nodes, one for each instance, and each node sends to its ports in ascending order. PI,
    its P4Runtime server, appends new nodes in the order of a hash table, and does not move those that remain
    (PI: proto/frontend/src/pre_mc_mgr.cpp; BMv2: src/bm_sim/simple_pre_lag.cpp).
    """
    ports: dict[int, list[int]] = {}
    for port, instance in replicas:
        ports.setdefault(instance, []).append(port)
    old_nodes = [replica.instance for replica in old_order if replica.instance in ports]
    nodes = dict.fromkeys(old_nodes + _iteration_order(list(ports)))
    return [Replica(port, node) for node in nodes for port in sorted(ports[node])]


def _iteration_order(keys: list[int]) -> list[int]:
    """Return the order in which libstdc++ iterates over an `unordered_map` after inserting distinct keys."""
    order: list[int] = []
    pending_keys = keys
    for bucket_count in _BUCKET_COUNTS:
        free_buckets = bucket_count - len(order)  # keys that fit before the table grows
        order = _hash_order(order + pending_keys[:free_buckets], bucket_count)
        pending_keys = pending_keys[free_buckets:]
        if not pending_keys:
            break
    return order


def _hash_order(keys: Iterable[int], bucket_count: int) -> list[int]:
    chains: dict[int, list[int]] = {}
    for key in keys:
        chains.setdefault(key % bucket_count, []).append(key)
    # A new bucket goes to the front of the list, and a new key to the front of its bucket.
    return [key for chain in reversed(chains.values()) for key in reversed(chain)]


def decode_replicas(
    messages: Iterable[p4r.Replica], location: str, port_translation: Translation | None = None
) -> list[Replica]:
    replicas: dict[Replica, None] = {}
    for message in messages:
        if message.backup_replicas:
            raise unimplemented(f"{location}: backup replicas are not supported")
        replica = Replica(_decode_port(message, location, port_translation), message.instance)
        if replica.instance > MAX_INSTANCE:
            raise invalid(f"{location}: instance {replica.instance} is above the largest, {MAX_INSTANCE}")
        if replica in replicas:
            raise invalid(f"{location}: port {replica.port}, instance {replica.instance} is given twice")
        replicas[replica] = None
    return list(replicas)


def encode_replicas(replicas: Iterable[Replica]) -> list[p4r.Replica]:
    return [p4r.Replica(egress_port=replica.port, instance=replica.instance) for replica in replicas]


def _decode_port(message: p4r.Replica, location: str, port_translation: Translation | None) -> int:
    kind = message.WhichOneof("port_kind")
    if kind is None or (kind == "port" and not message.port):
        raise invalid(f"{location}: the port of a replica is missing")
    if kind == "egress_port":
        port = message.egress_port
    else:
        port = (
            int.from_bytes(message.port, "big")
            if port_translation is None
            else port_translation.decode(message.port, location)
        )
    if port >= DROP_PORT:
        raise invalid(f"{location}: port {port} does not exist, ports go from 0 to {DROP_PORT - 1}")
    return port


class _ReplicatedEntries(ABC, Generic[M]):
    """Entries of one kind by ID, with their replicas; `sizes` has the number of replicas of every entry."""

    name: str
    max_id: int

    def __init__(self, sizes: Sizes[tuple[str, int]], port_translation: Translation | None) -> None:
        self.entries: dict[int, tuple[M, list[Replica]]] = {}
        self._port_translation = port_translation
        self._sizes = sizes

    @abstractmethod
    def id_of(self, message: M) -> int: ...

    @abstractmethod
    def only_id(self, identity: int) -> M: ...

    @abstractmethod
    def check_fields(self, message: M, location: str) -> None:
        """Raise Refusal for invalid fields that only this kind has."""

    @abstractmethod
    def write_replicas(self, pipeline: ControlPlane, message: M, replicas: list[Replica]) -> None:
        """Write the replicas to the pipeline; `replicas` is empty after a DELETE."""

    @abstractmethod
    def make_entry(self, message: M) -> p4r.PacketReplicationEngineEntry: ...

    def write(self, update_type: int, message: M, batch: Batch) -> None:
        identity = self.id_of(message)
        location = f"{self.name} {identity}"
        if not 0 < identity <= self.max_id:
            raise invalid(f"{location}: IDs go from 1 to {self.max_id}")
        if update_type == INSERT and identity in self.entries:
            raise Refusal(StatusCode.ALREADY_EXISTS, f"{location} is already there")
        if update_type != INSERT:
            self._check_exists(identity)
        if update_type == DELETE:
            batch.put(self.entries, identity, None)
            self._sizes.put((self.name, identity), None, batch)
            batch.release_strings((self.name, identity))
            # Only the ID of the message counts; its other fields were not checked.
            batch.add(lambda pipeline: self.write_replicas(pipeline, self.only_id(identity), []))
            return
        self.check_fields(message, location)
        _, old_order = self.entries.get(identity, (None, []))
        replicas = order_replicas(
            decode_replicas(message.replicas, location, self._port_translation), old_order
        )
        copy = type(message)()
        copy.CopyFrom(message)
        self.put(copy, replicas, batch)

    def put(self, message: M, replicas: list[Replica], batch: Batch) -> None:
        identity = self.id_of(message)
        key = (self.name, identity)
        if self._sizes.total_without(key) + len(replicas) > MAX_REPLICAS:
            text = f"all groups and sessions together have room for {MAX_REPLICAS} replicas"
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, f"{self.name} {identity}: {text}")
        batch.put(self.entries, identity, (message, replicas))
        self._sizes.put(key, len(replicas), batch)
        batch.hold_strings(key)
        batch.add(lambda pipeline: self.write_replicas(pipeline, message, replicas))

    def read(self, query: M) -> Iterator[p4r.Entity]:
        identity = self.id_of(query)
        if identity:
            self._check_exists(identity)
        selected_entries = [self.entries[identity]] if identity else list(self.entries.values())
        return (
            p4r.Entity(packet_replication_engine_entry=self.make_entry(message))
            for message, _ in selected_entries
        )

    def _check_exists(self, identity: int) -> None:
        if identity not in self.entries:
            raise Refusal(StatusCode.NOT_FOUND, f"{self.name} {identity} is not there")


class _MulticastGroups(_ReplicatedEntries[p4r.MulticastGroupEntry]):
    name, max_id = "multicast group", MULTICAST_GROUPS - 1

    def id_of(self, message: p4r.MulticastGroupEntry) -> int:
        return message.multicast_group_id

    def only_id(self, identity: int) -> p4r.MulticastGroupEntry:
        return p4r.MulticastGroupEntry(multicast_group_id=identity)

    def check_fields(self, message: p4r.MulticastGroupEntry, location: str) -> None:
        pass

    def write_replicas(
        self, pipeline: ControlPlane, message: p4r.MulticastGroupEntry, replicas: list[Replica]
    ) -> None:
        pipeline.replication.write_multicast_group(message.multicast_group_id, replicas)

    def make_entry(self, message: p4r.MulticastGroupEntry) -> p4r.PacketReplicationEngineEntry:
        return p4r.PacketReplicationEngineEntry(multicast_group_entry=message)


class _CloneSessions(_ReplicatedEntries[p4r.CloneSessionEntry]):
    """The clone sessions; the class of service is stored without effect, because no queue uses it."""

    name, max_id = "clone session", CLONE_SESSIONS - 1

    def id_of(self, message: p4r.CloneSessionEntry) -> int:
        return message.session_id

    def only_id(self, identity: int) -> p4r.CloneSessionEntry:
        return p4r.CloneSessionEntry(session_id=identity)

    def check_fields(self, message: p4r.CloneSessionEntry, location: str) -> None:
        if message.class_of_service > MAX_CLASS_OF_SERVICE:
            raise invalid(
                f"{location}: class_of_service {message.class_of_service} is above {MAX_CLASS_OF_SERVICE}"
            )
        if message.packet_length_bytes < 0:
            raise invalid(f"{location}: packet_length_bytes {message.packet_length_bytes} is negative")

    def write_replicas(
        self, pipeline: ControlPlane, message: p4r.CloneSessionEntry, replicas: list[Replica]
    ) -> None:
        pipeline.replication.write_clone_session(message.session_id, replicas, message.packet_length_bytes)

    def make_entry(self, message: p4r.CloneSessionEntry) -> p4r.PacketReplicationEngineEntry:
        return p4r.PacketReplicationEngineEntry(clone_session_entry=message)


class PacketReplication:
    def __init__(self, port_translation: Translation | None = None) -> None:
        sizes = Sizes[tuple[str, int]]()
        self.groups = _MulticastGroups(sizes, port_translation)
        self.sessions = _CloneSessions(sizes, port_translation)

    def write(self, update_type: int, message: p4r.PacketReplicationEngineEntry, batch: Batch) -> None:
        match message.WhichOneof("type"):
            case "multicast_group_entry":
                self.groups.write(update_type, message.multicast_group_entry, batch)
            case "clone_session_entry":
                self.sessions.write(update_type, message.clone_session_entry, batch)
            case _:
                raise _unset_type_error()

    def read(self, query: p4r.PacketReplicationEngineEntry) -> Iterator[p4r.Entity]:
        match query.WhichOneof("type"):
            case "multicast_group_entry":
                return self.groups.read(query.multicast_group_entry)
            case "clone_session_entry":
                return self.sessions.read(query.clone_session_entry)
            case _:
                raise _unset_type_error()


def _unset_type_error() -> Refusal:
    return invalid("the packet replication engine entry is neither a multicast group nor a clone session")
