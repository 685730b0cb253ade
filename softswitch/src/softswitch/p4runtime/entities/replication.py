"""Multicast groups and clone sessions: `PacketReplicationEngineEntry` (P4Runtime 1.4 §9.5)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from grpc import StatusCode

from softswitch.limits import MAX_REPLICAS
from softswitch.p4runtime.batch import DELETE, INSERT, Batch
from softswitch.p4runtime.codecs.translation import Translation
from softswitch.p4runtime.entities.replicas import decode_replicas, order_replicas
from softswitch.p4runtime.entities.sizes import Sizes
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal, invalid
from softswitch.pipeline import ControlPlane, Replica
from softswitch.v1model import CLONE_SESSIONS, MULTICAST_GROUPS

M = TypeVar("M", p4r.MulticastGroupEntry, p4r.CloneSessionEntry)
MAX_CLASS_OF_SERVICE = (1 << 8) - 1  # PSA's ClassOfService_t


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
