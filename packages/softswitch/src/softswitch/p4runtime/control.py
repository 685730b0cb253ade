"""A pipeline controlled by P4Runtime: its config and entities, and batches of writes and reads of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from itertools import chain, islice
from typing import Any, Generic, Protocol, TypeVar

from grpc import StatusCode

from softswitch.errors import NESTED_TOO_DEEPLY, BatchTooLarge, SwitchError
from softswitch.ir import Program
from softswitch.p4runtime.batch import DELETE, INSERT, MODIFY, Batch
from softswitch.p4runtime.codecs.translation import NoFreeNumber
from softswitch.p4runtime.entities.cells import CounterEntries, MeterEntries, RegisterEntries
from softswitch.p4runtime.entities.digests import DigestEntries
from softswitch.p4runtime.entities.direct import DirectCounterEntries, DirectMeterEntries
from softswitch.p4runtime.entities.handles import Handles
from softswitch.p4runtime.entities.idle_timeouts import IdleTimers
from softswitch.p4runtime.entities.members import Groups, Members
from softswitch.p4runtime.entities.profiles import ProfileStores
from softswitch.p4runtime.entities.replication import PacketReplication
from softswitch.p4runtime.entities.store import Stores
from softswitch.p4runtime.entities.tables import Clock, TableEntries
from softswitch.p4runtime.entities.value_sets import ValueSetEntries
from softswitch.p4runtime.journal import Journal
from softswitch.p4runtime.loaded_config import LoadedConfig, check_complete
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.packet_io import ControllerHeader
from softswitch.p4runtime.plain.request import Request, ScannedUpdates
from softswitch.p4runtime.plain.writer import OperationTarget, PlainWriter
from softswitch.p4runtime.status import Refusal, internal_error, invalid, unimplemented
from softswitch.pipeline import ControlPlane, EntryWrite

READ_CHUNK = 1024  # entities in one ReadResponse
PL = TypeVar("PL", bound=ControlPlane)


class EntityKind(Protocol):
    """One kind of `Entity`, with its own message type: adds checked writes to a batch and answers queries."""

    # `Any`, because the type of messages depends on the kind.
    def write(self, update_type: int, message: Any, batch: Batch) -> None:
        """Check one update and add it to the batch; raises `Refusal`, and then changes nothing."""

    def read(self, query: Any) -> Iterator[p4r.Entity]:
        """Check a query and return the entities that it selects, in their current state; raises `Refusal`."""


class ControlledPipeline(Generic[PL]):
    """A pipeline with its P4Runtime entities, without gRPC; creating it raises `Refusal` for a bad config.

    Its owner closes it. `config` is a message, or a loaded config that several pipelines share.
    `make_pipeline` compiles the program to a pipeline; `clock` returns the pipeline's time, in µs since
    start. `port_changed` must be called when the set `down_ports` changes.

    Entries that have only exact matches and an action, and no strings of translated types, are stored in the
    pipeline and nowhere else. So a caller that writes no other entries may replace the pipeline's state, by
    `load_image` for example.
    """

    def __init__(
        self,
        config: p4r.ForwardingPipelineConfig | LoadedConfig,
        make_pipeline: Callable[[Program], PL],
        clock: Clock,
        down_ports: Collection[int] = (),
    ) -> None:
        loaded_config = config if isinstance(config, LoadedConfig) else LoadedConfig(config)
        program, p4info = loaded_config.program, loaded_config.make_p4info()
        self.config = loaded_config.message
        self._clock = clock
        self._journal: Journal | None = None
        try:
            self.pipeline = make_pipeline(program)
        except SwitchError as error:
            raise invalid(str(error)) from error
        except RecursionError:
            raise invalid(f"the program cannot be compiled: {NESTED_TOO_DEEPLY}") from None
        self.packet_in = ControllerHeader(p4info.packet_in, p4info.uses)
        self.packet_out = ControllerHeader(p4info.packet_out, p4info.uses)
        self.timers = IdleTimers(self.pipeline.tables.last_hits)
        self.digests = DigestEntries(p4info.digests, [digest.name for digest in program.digests])
        self.p4info = p4info
        self.profiles = ProfileStores(p4info, program, down_ports)
        self.stores = Stores(p4info, program, self.profiles)
        self.handles = Handles(self.pipeline.tables.read)
        self.tables = TableEntries(self.stores, p4info.actions, self.pipeline, self.timers, clock)
        self._plain_writer: PlainWriter | None = None
        if isinstance(self.pipeline.tables, OperationTarget):
            self._plain_writer = PlainWriter(self.stores, program.tables.values(), self.pipeline.tables)
        self.meters = MeterEntries(p4info.meters, self.pipeline)
        self.replication = PacketReplication(p4info.port_translation)
        self.value_sets = ValueSetEntries(p4info.value_sets)
        self._handlers: dict[str, EntityKind] = {
            "action_profile_member": Members(self.profiles, p4info.actions),
            "action_profile_group": Groups(self.profiles),
            "table_entry": self.tables,
            "direct_counter_entry": DirectCounterEntries(self.stores, self.pipeline),
            "direct_meter_entry": DirectMeterEntries(self.stores, self.pipeline),
            "counter_entry": CounterEntries(p4info.counters, self.pipeline),
            "meter_entry": self.meters,
            "register_entry": RegisterEntries(p4info.registers, self.pipeline),
            "packet_replication_engine_entry": self.replication,
            "value_set_entry": self.value_sets,
            "digest_entry": self.digests,
        }

    def close(self) -> None:
        """Close the pipeline and its journal; results of `read` hold copies, and can be consumed later."""
        self.pipeline.close()
        if self._journal is not None:
            self._journal.close()

    def journal_writes(self, journal: Journal) -> None:
        """Write all requests to a journal from now on, before they are executed."""
        self._journal = journal

    def adopt_config(self, config: p4r.ForwardingPipelineConfig) -> bool:
        """Replace the config and its cookie if program and P4Info are the same; return whether they are."""
        check_complete(config)
        has_same_program = config.p4_device_config == self.config.p4_device_config
        if is_same_config := has_same_program and config.p4info == self.config.p4info:
            if self._journal is not None:
                self._journal.set_config(config)
            self.config = config
        return is_same_config

    def port_changed(self, port: int) -> None:
        self.profiles.port_changed(self.pipeline, port)

    @property
    def has_journal(self) -> bool:
        return self._journal is not None

    def now(self) -> int:
        return self._clock()

    # -- writes

    def batch(self) -> Batch:
        return Batch(self.pipeline, self.p4info.uses, self.handles.track)

    def write(self, request: p4r.WriteRequest) -> list[Refusal | None]:
        """Execute a batch of updates in order, as atomically as requested; return a result for each."""
        if self._journal is not None:
            self._journal.add(self._clock(), request.SerializeToString())
        return self._write(request)

    def write_bytes(self, request: Request) -> list[Refusal | None]:
        """Execute a request given as bytes; a fast path applies plain updates if none of them fails."""
        if self._journal is not None:
            self._journal.add(self._clock(), request.data)
        scanned = request.scanned
        if scanned is not None:
            is_atomic = request.head.atomicity == p4r.WriteRequest.DATAPLANE_ATOMIC
            try:
                if self._write_scanned(scanned, is_atomic):
                    return [None] * len(scanned.updates)
            except BatchTooLarge as error:
                raise unimplemented(f"DATAPLANE_ATOMIC: {error}") from None
            except Exception as error:
                return [internal_error(error)] * len(scanned.updates)
        return self._write(request.whole)

    def _write_scanned(self, scanned: ScannedUpdates, is_atomic: bool) -> bool:
        """Apply all updates if the fast path can; return whether it did."""
        if self._plain_writer is None:
            return False
        with self.pipeline.transaction(is_atomic=True) if is_atomic else nullcontext():
            return self._plain_writer.write(scanned, self.handles.tracked_tables)

    def _write(self, request: p4r.WriteRequest) -> list[Refusal | None]:
        if request.atomicity == p4r.WriteRequest.CONTINUE_ON_ERROR:
            return self._write_each(request)
        batch = self.batch()
        results = [self._add_update(update, batch, index) for index, update in enumerate(request.updates)]
        if any(results):
            batch.roll_back()
        else:
            is_atomic = request.atomicity == p4r.WriteRequest.DATAPLANE_ATOMIC
            if failure := self._apply(batch, is_atomic):
                results[batch.position] = failure
        if any(results):
            aborted = Refusal(StatusCode.ABORTED, "not done, because another update of the batch failed")
            return [result or aborted for result in results]
        return results

    def _apply(self, batch: Batch, is_atomic: bool = False) -> Refusal | None:
        """Apply a batch; return why it was undone, or None."""
        try:
            batch.apply(is_atomic)
        except BatchTooLarge as error:
            raise unimplemented(f"DATAPLANE_ATOMIC: {error}") from None
        except Exception as error:
            return internal_error(error)
        return None

    def _write_each(self, request: p4r.WriteRequest) -> list[Refusal | None]:
        """Execute updates one by one; consecutive plain ones go to the pipeline together."""
        results: list[Refusal | None] = [None] * len(request.updates)
        plain_writes: list[tuple[int, EntryWrite]] = []
        for index, update in enumerate(request.updates):
            try:
                write = self.tables.decode_plain_write(update)
            except Refusal as refusal:
                results[index] = refusal.without_traceback()
                continue
            except Exception as error:
                results[index] = internal_error(error)
                continue
            if write is not None:
                plain_writes.append((index, write))
                continue
            self._write_plain(plain_writes, results)  # before this update, to keep the order
            plain_writes = []
            batch = self.batch()
            results[index] = self._add_update(update, batch, index)
            if results[index] is None:
                results[index] = self._apply(batch)
            else:
                batch.roll_back()
        self._write_plain(plain_writes, results)
        return results

    def _write_plain(
        self, indexed_writes: list[tuple[int, EntryWrite]], results: list[Refusal | None]
    ) -> None:
        if indexed_writes:
            writes = [write for _, write in indexed_writes]
            try:
                with self.pipeline.transaction():
                    failures = self.pipeline.tables.write(writes)
            except Exception as error:
                refusal = internal_error(error)
                for index, _ in indexed_writes:
                    results[index] = refusal
                return
            self.handles.track(writes, failures)
            for (index, write), failure in zip(indexed_writes, failures, strict=True):
                results[index] = self.tables.record_plain_result(write, failure)

    def _add_update(self, update: p4r.Update, batch: Batch, position: int) -> Refusal | None:
        """Check an update and add it to the batch; after a failure, the caller rolls the batch back."""
        batch.position = position
        try:
            kind, handler = self._find_handler(update.entity)
            if update.type not in (INSERT, MODIFY, DELETE):
                raise invalid(f"update type {update.type} is none of INSERT, MODIFY and DELETE")
            handler.write(update.type, getattr(update.entity, kind), batch)
        except NoFreeNumber as refusal:
            if update.type == DELETE:
                return Refusal(StatusCode.NOT_FOUND, f"the entity is not there: {refusal}")
            return refusal.without_traceback()
        except Refusal as refusal:
            return refusal.without_traceback()
        except Exception as error:
            return internal_error(error)
        except BaseException:
            batch.roll_back()
            raise
        finally:
            self.p4info.uses.settle(batch.on_undo)
        return None

    # -- reads

    def read(self, request: p4r.ReadRequest) -> tuple[Iterator[p4r.ReadResponse], list[Refusal | None]]:
        """Return the entities that queries select, in messages of limited size, and one result per query.

        The entities are those of the call, even if the pipeline is written or closed before they are used.
        """
        results: list[Refusal | None] = []
        entity_iterators: list[Iterator[p4r.Entity]] = []
        for entity in request.entities:
            try:
                kind, handler = self._find_handler(entity)
                entity_iterators.append(handler.read(getattr(entity, kind)))
                results.append(None)
            except NoFreeNumber:
                results.append(None)  # no entity has the string
            except Refusal as refusal:
                results.append(refusal.without_traceback())
            finally:
                self.p4info.uses.settle()
        return _responses(chain.from_iterable(entity_iterators)), results

    def _find_handler(self, entity: p4r.Entity) -> tuple[str, EntityKind]:
        kind = entity.WhichOneof("entity")
        if kind is None:
            raise invalid("the entity is not set")
        handler = self._handlers.get(kind)
        if handler is None:
            raise unimplemented(f"{kind} is not supported by softswitch")
        return kind, handler


def _responses(entities: Iterator[p4r.Entity]) -> Iterator[p4r.ReadResponse]:
    while chunk := list(islice(entities, READ_CHUNK)):
        yield p4r.ReadResponse(entities=chunk)
