"""A pipeline under control: its configuration, its entities, and batches of writes and reads on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, Generic, Protocol, TypeVar

from finsy.proto import p4r
from grpc import StatusCode

from softswitch.errors import SwitchError
from softswitch.ir import Program
from softswitch.load import load_program
from softswitch.p4runtime.arrays import Counters, Registers
from softswitch.p4runtime.batch import DELETE, INSERT, MODIFY, Batch
from softswitch.p4runtime.direct_counters import DirectCounters
from softswitch.p4runtime.p4info import P4Info
from softswitch.p4runtime.packet_io import ControllerHeader
from softswitch.p4runtime.status import Refusal, invalid, unimplemented
from softswitch.p4runtime.store import Stores
from softswitch.p4runtime.tables import TableEntries
from softswitch.pipeline import Pipeline

READ_CHUNK = 1024  # entities in one ReadResponse
PL = TypeVar("PL", bound=Pipeline)
MakePipeline = Callable[[Program], PL]


class EntityKind(Protocol):
    """One kind of `Entity`: checks writes into a batch and answers queries. Messages are of its own type."""

    def write(self, kind: int, message: Any, batch: Batch) -> None:
        """Check one update and add it to the batch; `Refusal` where it is wrong."""
        ...

    def read(self, wanted: Any) -> Iterator[p4r.Entity]:
        """Check a query and return what it selects; `Refusal` where it is wrong."""
        ...


class ControlledPipeline(Generic[PL]):
    """A pipeline made from a `ForwardingPipelineConfig`; `Refusal` where it cannot be realized."""

    def __init__(self, config: p4r.ForwardingPipelineConfig, make: MakePipeline[PL]) -> None:
        _check_complete(config)
        self.config = config
        try:
            program = load_program(config.p4_device_config)
            p4info = P4Info(config.p4info)
            p4info.check(program)
            self.pipeline = make(program)
        except SwitchError as error:
            raise invalid(str(error)) from error
        self.packet_in = ControllerHeader(p4info.packet_in)
        self.packet_out = ControllerHeader(p4info.packet_out)
        stores = Stores(p4info, program)
        self._kinds: dict[str, EntityKind] = {
            "table_entry": TableEntries(stores, self.pipeline),
            "direct_counter_entry": DirectCounters(stores, self.pipeline),
            "counter_entry": Counters(p4info.counters, self.pipeline),
            "register_entry": Registers(p4info.registers, self.pipeline),
        }

    def reconcile(self, config: p4r.ForwardingPipelineConfig) -> bool:
        """Take over a config, with its cookie, that describes this same pipeline; whether it does."""
        _check_complete(config)
        same_program = config.p4_device_config == self.config.p4_device_config
        if same := same_program and config.p4info == self.config.p4info:
            self.config = config
        return same

    def write(self, request: p4r.WriteRequest) -> list[Refusal | None]:
        """Do a batch of updates in order, as its atomicity asks; a result for each update."""
        batch = Batch()
        results = [self._accept(update, batch) for update in request.updates]
        if request.atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR:
            if any(results):
                batch.roll_back()
                undone = Refusal(StatusCode.ABORTED, "not done, because another update of the batch failed")
                return [result or undone for result in results]
            if request.atomicity == p4r.WriteRequest.DATAPLANE_ATOMIC and not batch.is_one_step:
                batch.roll_back()
                raise unimplemented("DATAPLANE_ATOMIC is supported for batches of table entries only")
        batch.apply(self.pipeline)
        return results

    def read(self, request: p4r.ReadRequest) -> tuple[Iterator[p4r.ReadResponse], list[Refusal | None]]:
        """What a batch of queries selects, in messages of limited size, and a result for each query."""
        results: list[Refusal | None] = []
        answers: list[Iterator[p4r.Entity]] = []
        for entity in request.entities:
            try:
                kind, handler = self._handler(entity)
                answers.append(handler.read(getattr(entity, kind)))
                results.append(None)
            except Refusal as refusal:
                results.append(refusal)
        return _responses(chain.from_iterable(answers)), results

    def _accept(self, update: p4r.Update, batch: Batch) -> Refusal | None:
        try:
            kind, handler = self._handler(update.entity)
            if update.type not in (INSERT, MODIFY, DELETE):
                raise invalid(f"update type {update.type} is none of INSERT, MODIFY and DELETE")
            handler.write(update.type, getattr(update.entity, kind), batch)
        except Refusal as refusal:
            return refusal
        return None

    def _handler(self, entity: p4r.Entity) -> tuple[str, EntityKind]:
        kind = entity.WhichOneof("entity")
        if kind is None:
            raise invalid("the entity is not set")
        handler = self._kinds.get(kind)
        if handler is None:
            raise unimplemented(f"{kind} is not supported by softswitch")
        return kind, handler


def _check_complete(config: p4r.ForwardingPipelineConfig) -> None:
    if not config.HasField("p4info") or not config.p4_device_config:
        raise invalid("the pipeline config needs p4info and p4_device_config (BMv2 JSON)")


def _responses(entities: Iterator[p4r.Entity]) -> Iterator[p4r.ReadResponse]:
    while chunk := list(islice(entities, READ_CHUNK)):
        yield p4r.ReadResponse(entities=chunk)
