"""Tables, counters and registers of a switch by its P4Info, whichever program it runs.

The P4Info is the one that the switch returns. It is read as plain messages, because finsy refuses some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import grpc
from finsy.proto import p4i, p4r
from google.protobuf.message import Message

from controller.address import SwitchAddress, no_answer
from controller.errors import DeviceError, PipelineError

MAX_CELLS = 1 << 20
"""Maximum size of a register or counter array whose cells are read."""
_TIMEOUT_S = 60.0
_SERVICE = "/p4.v1.P4Runtime/"
_ANY_SIZE = (("grpc.max_receive_message_length", -1),)


@dataclass(frozen=True, slots=True)
class TableContents:
    name: str
    entries: int | None
    """Number of entries, without the default action. Here as below, None if they could not be read."""
    size: int


@dataclass(frozen=True, slots=True)
class CounterTotals:
    name: str
    cells: int | None
    """Size of the array, or number of entries of the table whose counter it is."""
    packets: int | None
    """Sum of the cells; None also for a counter of bytes alone."""
    bytes: int | None


@dataclass(frozen=True, slots=True)
class RegisterContents:
    name: str
    size: int
    nonzero: int | None
    """Number of cells with another value than 0."""


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    name: str
    """Name of the program in its P4Info, which may be empty."""
    version: str
    tables: tuple[TableContents, ...]
    counters: tuple[CounterTotals, ...]
    registers: tuple[RegisterContents, ...]
    unread: dict[str, str]
    """Name of a table, counter or register -> why it could not be read."""


class _Calls(NamedTuple):
    """The two calls of P4Runtime that are needed."""

    pipeline: Callable[..., p4r.GetForwardingPipelineConfigResponse]
    read: Callable[..., Iterable[p4r.ReadResponse]]


def read_program(switch: SwitchAddress) -> ProgramStatus:
    """Return what a switch holds; raise `DeviceError` if it does not answer, or runs no program."""
    with grpc.insecure_channel(switch.address, options=_ANY_SIZE) as channel:
        pipeline = channel.unary_unary(
            f"{_SERVICE}GetForwardingPipelineConfig",
            p4r.GetForwardingPipelineConfigRequest.SerializeToString,
            p4r.GetForwardingPipelineConfigResponse.FromString,
        )
        read = channel.unary_stream(
            f"{_SERVICE}Read", p4r.ReadRequest.SerializeToString, p4r.ReadResponse.FromString
        )
        return _ProgramReader(switch, _Calls(pipeline, read)).read()


class _ProgramReader:
    def __init__(self, switch: SwitchAddress, calls: _Calls) -> None:
        self._switch = switch
        self._calls = calls
        self._unread: dict[str, str] = {}

    def read(self) -> ProgramStatus:
        info = self._read_p4info()
        return ProgramStatus(
            info.pkg_info.name,
            info.pkg_info.version,
            tuple(self._table(table) for table in info.tables),
            (
                *(self._counter(counter) for counter in info.counters),
                *(self._direct_counter(counter) for counter in info.direct_counters),
            ),
            tuple(self._register(register) for register in info.registers),
            self._unread,
        )

    def _read_p4info(self) -> p4i.P4Info:
        kind = p4r.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE
        request = p4r.GetForwardingPipelineConfigRequest(device_id=self._switch.device_id, response_type=kind)
        try:
            config = self._calls.pipeline(request, timeout=_TIMEOUT_S).config
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                raise no_answer(self._switch.address) from error
            raise DeviceError(f"switch {self._switch.address}: {_reason(error)}") from error
        if not config.HasField("p4info"):
            raise PipelineError(f"switch {self._switch.address} has no pipeline")
        return config.p4info

    def _table(self, table: p4i.Table) -> TableContents:
        entry = p4r.TableEntry(table_id=table.preamble.id)
        entities = self._entities(table.preamble.name, p4r.Entity(table_entry=entry))
        return TableContents(table.preamble.name, None if entities is None else len(entities), table.size)

    def _counter(self, counter: p4i.Counter) -> CounterTotals:
        entry = p4r.CounterEntry(counter_id=counter.preamble.id)
        entities = self._entities(counter.preamble.name, p4r.Entity(counter_entry=entry), counter.size)
        values = None if entities is None else [entity.counter_entry.data for entity in entities]
        return _totals(counter.preamble.name, counter.size, counter.spec, values)

    def _direct_counter(self, counter: p4i.DirectCounter) -> CounterTotals:
        entry = p4r.DirectCounterEntry(table_entry=p4r.TableEntry(table_id=counter.direct_table_id))
        entities = self._entities(counter.preamble.name, p4r.Entity(direct_counter_entry=entry))
        values = None if entities is None else [entity.direct_counter_entry.data for entity in entities]
        return _totals(counter.preamble.name, None if values is None else len(values), counter.spec, values)

    def _register(self, register: p4i.Register) -> RegisterContents:
        entry = p4r.RegisterEntry(register_id=register.preamble.id)
        entities = self._entities(register.preamble.name, p4r.Entity(register_entry=entry), register.size)
        nonzero = (
            None if entities is None else sum(_is_nonzero(each.register_entry.data) for each in entities)
        )
        return RegisterContents(register.preamble.name, register.size, nonzero)

    def _entities(self, name: str, wanted: p4r.Entity, cells: int = 0) -> list[p4r.Entity] | None:
        """Return all entities of a kind; None, with a reason in `_unread`, if the switch refuses."""
        if cells > MAX_CELLS:
            self._unread[name] = f"it has {cells:,} cells, and at most {MAX_CELLS:,} are read"
            return None
        request = p4r.ReadRequest(device_id=self._switch.device_id, entities=[wanted])
        try:
            answers = self._calls.read(request, timeout=_TIMEOUT_S)
            return [entity for answer in answers for entity in answer.entities]
        except grpc.RpcError as error:
            self._unread[name] = _reason(error)
            return None


def _totals(
    name: str, cells: int | None, spec: p4i.CounterSpec, values: Sequence[p4r.CounterData] | None
) -> CounterTotals:
    packets = None if values is None else sum(value.packet_count for value in values)
    octets = None if values is None else sum(value.byte_count for value in values)
    return CounterTotals(
        name,
        cells,
        None if spec.unit == p4i.CounterSpec.BYTES else packets,
        None if spec.unit == p4i.CounterSpec.PACKETS else octets,
    )


def _is_nonzero(value: object) -> bool:
    """Return whether a cell, which may be a struct, has a bit that is set."""
    if isinstance(value, Message):
        return any(_is_nonzero(each) for _, each in value.ListFields())
    return any(value) if isinstance(value, bytes) else bool(value)


def _reason(error: grpc.RpcError) -> str:
    return f"{error.code().name}: {error.details()}"
