"""One P4Runtime connection to a switch, through finsy: pipeline, typed rows and packets."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

import finsy as fy
import grpc
from finsy import p4client
from finsy.gnmiclient import GNMIClientError
from finsy.p4schema import P4BitsType, P4Register
from finsy.proto import p4i
from typing_extensions import Self

from controller.address import (
    CONNECT_TIMEOUT_S,
    DEFAULT_ADDRESS,
    DEFAULT_DEVICE_ID,
    accepts_connections,
    check_address,
    no_answer,
)
from controller.errors import (
    DeviceError,
    DigestError,
    NotPrimary,
    OtherPipeline,
    PipelineError,
    RegisterError,
    SetupFailed,
)
from controller.schemas import find_wire_version, schema_of, shared_schemas
from controller.tables import RowEncoder, TableRow, Update
from foundation.concurrency import gather_or_cancel, in_thread
from foundation.designs.registry import DEFAULT, known_names
from foundation.designs.registry import design as find_design
from foundation.limits import BeginWait, WaitLimit, WallClockLimit, wait_within
from foundation.protocol.header import VERSION
from foundation.text import pluralize

BATCH = 1024
"""Maximum number of updates in one Write: about 60 kB, far below gRPC's limit of 4 MB."""
ENTRIES_IN_READ = 32_768
"""Maximum number of entries in the tables of a Read, whose answer has about 2 MB; a larger one is alone."""
_CELLS_IN_READ = 16_384  # of counters: about 500 kB
_MAX_REGISTER_IN_READ = 65_536  # cells of a register that one Read returns
_SWITCH_START_TIMEOUT_S = 60.0
_CALL_TIMEOUT_S = 60.0
_SEND_TIMEOUT_S = 5.0
_ELECTION_ID = 10  # first attempt; a client that is not primary then outbids the highest id
_EXCLUSIVE_ELECTION_ID = 1 << 127
"""Flag of an election id that other clients must not outbid; the other bits are its owner's process id."""
_MAX_ELECTIONS = 5
_MAX_SHOWN_CHARACTERS = 120  # of the list of tables in an error
_PACKET_QUEUE_LENGTH = 4096

# finsy gives every RPC 10 s and has no option for it. Here the limits of `SwitchClient` end an RPC.
p4client._DEFAULT_RPC_TIMEOUT = None  # type: ignore[assignment]  # gRPC takes None for no deadline

CounterCell: TypeAlias = tuple[str, int]
"""Alias of a counter array, and index of a cell."""
T = TypeVar("T")
R = TypeVar("R", bound=TableRow)
E = TypeVar("E", fy.P4TableEntry, fy.P4CounterEntry, fy.P4RegisterEntry, fy.P4DigestEntry)


class SwitchClient:
    """`async with SwitchClient(address) as switch`: a connection, as primary unless `primary` is False.

    It outbids the present primary, which becomes primary again afterwards. Other clients do not outbid an
    `exclusive` one: they get `NotPrimary`. `limits` begin waits for the switch, by default by the clock; who
    has started the switch's process knows more. Raises `DeviceError` at once for a malformed address.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        device_id: int = DEFAULT_DEVICE_ID,
        primary: bool = True,
        exclusive: bool = False,
        design: str = DEFAULT,
        limits: BeginWait = WallClockLimit,
    ) -> None:
        check_address(address)
        self.address = address
        self._design = find_design(design)
        self._device_id = device_id
        self._primary, self._limits = primary, limits
        # The switch that a run starts listens before it has loaded or compiled its code.
        self._connect_timeout_s = _SWITCH_START_TIMEOUT_S if exclusive else CONNECT_TIMEOUT_S
        self._first_election_id = _EXCLUSIVE_ELECTION_ID + os.getpid() if exclusive else _ELECTION_ID
        self._connection: fy.Switch | None = None
        self._send_lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        self._connection = await self._connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._disconnect()

    async def commit_pipeline(self) -> bool:
        """Commit the design's pipeline; return False, without a change, if the switch runs it already."""
        if self._switch.p4info.has_p4info(schema_of(self._design).p4info):
            return False
        await self._disconnect()
        # finsy commits both when it becomes primary.
        self._connection = await self._connect(
            schema_of(self._design).p4info, self._design.program, timeout_s=_CALL_TIMEOUT_S
        )
        return True

    def check_pipeline(self) -> None:
        if not self._switch.p4info.exists:
            raise PipelineError(
                f"switch {self.address} has no pipeline: under `hotline up` it gets one within seconds, also "
                "after the last worker has left; otherwise it was restarted and has lost its tables and "
                "registers, or was never set up: start the testbed again"
            )
        if not self._switch.p4info.has_p4info(schema_of(self._design).p4info):
            schema = self._switch.p4info
            for known_name in known_names():
                known_design = find_design(known_name)
                if schema.has_p4info(schema_of(known_design).p4info):
                    if known_design.controlled_as == self._design.name:
                        self._design = known_design  # a variant, which this controller can handle, too
                        return
                    raise OtherPipeline(
                        f"switch {self.address} runs the design {known_name}, expected {self._design.name}; "
                        "nothing was changed"
                    )
            wire_version = find_wire_version(schema, self._design)
            if wire_version not in (None, str(VERSION)):
                raise PipelineError(
                    f"switch {self.address} runs a program of wire version {wire_version}, expected version "
                    f"{VERSION}: it would drop all RPCs of agents of this version; nothing was changed; "
                    "start switch, agents and controller from the same version of Hotline"
                )
            tables = ", ".join(table.alias for table in self._switch.p4info.tables)
            raise OtherPipeline(
                f"switch {self.address} runs another pipeline than {self._design.program.name}, with "
                f"the tables {tables[:_MAX_SHOWN_CHARACTERS] or 'none'}; nothing was changed"
            )

    async def read(self, kind: type[R]) -> list[R]:
        rows: list[R] = []
        with self._translate_errors("read"):
            for tables in self._tables_by_read([kind.CONTROL + table for table in kind.TABLES]):
                entries = await self._await_rpc(
                    self._read_entities(list(map(fy.P4TableEntry, tables))), "read", _CALL_TIMEOUT_S
                )
                rows += [kind.from_entry(entry) for entry in entries if kind.describes(entry)]
        return rows

    def _tables_by_read(self, tables: Sequence[str]) -> list[list[str]]:
        """Return tables in as few groups as their sizes allow, each for one Read."""
        groups: list[list[str]] = []
        room = 0
        for table in tables:
            size = schema_of(self._design).tables[table].size
            if size > room:
                groups.append([])
                room = ENTRIES_IN_READ
            groups[-1].append(table)
            room -= size
        return groups

    def table_size(self, kind: type[TableRow]) -> int:
        """Return the number of entries for which a table of the program was compiled."""
        return schema_of(self._design).tables[kind.CONTROL + kind.TABLES[0]].size

    async def read_counters(self, names: Sequence[str]) -> dict[str, list[int]]:
        """Return all cells of counter arrays, by the arrays' aliases."""
        counts = await self._read_counts([fy.P4CounterEntry(name) for name in names])
        cells: dict[str, list[int]] = {name: [] for name in names}
        for (name, _), count in sorted(counts.items()):
            cells[name].append(count)
        return cells

    async def read_counter_cells(self, cells: Sequence[CounterCell]) -> list[int]:
        counts: dict[CounterCell, int] = {}
        for start in range(0, len(cells), _CELLS_IN_READ):
            batch = cells[start : start + _CELLS_IN_READ]
            counts |= await self._read_counts([fy.P4CounterEntry(name, index=index) for name, index in batch])
        return [counts[cell] for cell in cells]

    async def read_register(self, name: str, first: int = 0, count: int | None = None) -> list[int]:
        """Return `count` cells of a register array, from cell `first` on; by default all after it.

        `name` is that of the p4info, `HotlineIngress.aggregate.sums`, or its end if that is unique, `sums`.
        Raises `RegisterError` without such cells, and `DeviceError` for a target that reads no registers.
        """
        register = self._find_register(name)
        stop = register.size if count is None else first + count
        if not 0 <= first <= stop <= register.size:
            raise RegisterError(
                f"register {register.name}: expected cells from 0 to {register.size - 1}, "
                f"got {first} to {stop - 1}"
            )
        # An entry without an index stands for all cells, in one request, which must end within its limit.
        filters = (
            [fy.P4RegisterEntry(register.alias)]
            if (first, stop) == (0, register.size) and register.size <= _MAX_REGISTER_IN_READ
            else [fy.P4RegisterEntry(register.alias, index=index) for index in range(first, stop)]
        )
        cells: dict[int, int] = {}
        with self._translate_errors("read"):
            for start in range(0, len(filters), BATCH):
                entries = await self._await_rpc(
                    self._read_entities(filters[start : start + BATCH]), "read", _CALL_TIMEOUT_S
                )
                cells.update((entry.index or 0, cast(int, entry.data)) for entry in entries)
        return [cells[index] for index in range(first, stop)]

    async def digests(self, name: str) -> AsyncIterator[dict[str, int]]:
        """Subscribe to a digest of the design's program, and yield each by the names of its fields.

        `name` is that of the p4info, which is the struct's. The switch sends digests to its primary only.
        Raises `DigestError` without such a digest, and `DeviceError` if the switch does not answer.
        """
        known_digests = schema_of(self._design).digests
        if (digest := known_digests.get(name)) is None:
            names = ", ".join(each.name for each in known_digests) or "none"
            raise DigestError(f"{self._design.program.name}: expected a digest ({names}), got {name!r}")
        lists = self._switch.read_digests(digest.alias)
        next_list = asyncio.ensure_future(anext(lists))  # which opens the queue, before the switch sends
        entry = fy.P4DigestEntry(digest.alias, max_list_size=1)
        try:
            with self._translate_errors("read"):
                configured = await self._read_entities([fy.P4DigestEntry()])
            if digest.alias not in [each.digest_id for each in configured]:
                await self._write_digests([+entry])
            while True:
                digest_list = await next_list
                next_list = asyncio.ensure_future(anext(lists))
                await self._write_digests([digest_list.ack()])
                for values in digest_list:
                    yield cast("dict[str, int]", values)
        finally:
            next_list.cancel()

    async def _write_digests(self, entities: Sequence[fy.P4DigestEntry | fy.P4DigestListAck]) -> None:
        with self._translate_errors("digest"):
            await self._await_rpc(self._switch.write(entities), "digest", _CALL_TIMEOUT_S)

    def _find_register(self, name: str) -> P4Register:
        registers = {register.name: register for register in schema_of(self._design).registers}
        by_end = [register for each, register in registers.items() if each.endswith(f".{name}")]
        register = registers.get(name) or (by_end[0] if len(by_end) == 1 else None)
        if register is None:
            names = ", ".join(registers) or "none"
            raise RegisterError(f"{self._design.program.name}: expected a register ({names}), got {name!r}")
        if not isinstance(register.type_spec, P4BitsType):
            raise RegisterError(f"register {register.name}: expected cells of a bit<W> or int<W>")
        return register

    async def write(self, updates: Sequence[Update]) -> None:
        """Apply updates of different entries, in any order, `BATCH` per Write."""
        # Concurrently: the switch works on one batch while the next is encoded.
        encoder = RowEncoder(schema_of(self._design).p4info)
        await gather_or_cancel(
            self._write_batch(encoder, updates[start : start + BATCH])
            for start in range(0, len(updates), BATCH)
        )

    def new_epoch(self) -> int:
        """Return a random epoch, which no other caller has; a PS that orders controllers issues another."""
        return secrets.randbits(32)

    async def send(self, frame: bytes, egress_port: int | None) -> None:
        """Send a packet-out to a port; None has the program process it as if from the CPU port."""
        # gRPC allows one write on a stream at a time.
        async with self._send_lock:
            # If the stream has just ended, finsy opens another and waits for a switch.
            await self._await_rpc(self._send(frame, egress_port), "packet-out", _SEND_TIMEOUT_S)

    async def packets(self) -> AsyncIterator[bytes]:
        async for packet in self._switch.read_packets(queue_size=_PACKET_QUEUE_LENGTH):
            yield packet.payload

    @property
    def _switch(self) -> fy.Switch:
        if self._connection is None:
            raise RuntimeError("the connection is not open")
        return self._connection

    async def _send(self, frame: bytes, egress_port: int | None) -> None:
        with self._translate_errors("packet-out"):
            if not self._switch.is_primary:
                raise self._not_primary_error()
            packet = fy.P4PacketOut(
                frame, egress_port=egress_port or 0, submit_to_ingress=int(egress_port is None), _pad=0
            )
            await self._switch.write([packet])

    async def _write_batch(self, encoder: RowEncoder, batch: Sequence[Update]) -> None:
        with self._translate_errors("write"):
            try:
                encoded_updates = [encoder.update(update) for update in batch]
                await self._await_rpc(self._switch.write(encoded_updates), "write", _CALL_TIMEOUT_S)
            except fy.P4ClientError as error:
                if not error.details:
                    raise
                index, detail = next(iter(error.details.items()))
                updates = pluralize(len(batch), "update")
                raise DeviceError(
                    f"switch {self.address} refused {len(error.details)} of {updates}, first: "
                    f"{batch[index].change.name.lower()} of {batch[index].row}: "
                    f"{detail.canonical_code.name}: {detail.message}"
                ) from error

    async def _read_counts(self, filters: list[fy.P4CounterEntry]) -> dict[CounterCell, int]:
        with self._translate_errors("read"):
            cells = await self._await_rpc(self._read_entities(filters), "read", _CALL_TIMEOUT_S)
        return {(cell.counter_id, cell.index or 0): cell.packet_count for cell in cells}

    async def _read_entities(self, filters: list[E]) -> list[E]:
        # finsy's overloads have no yield, so mypy takes this generator for a coroutine.
        return [entity async for entity in cast("AsyncIterator[E]", self._switch.read(filters))]

    async def _await_rpc(self, rpc: Coroutine[object, object, T], operation: str, timeout_s: float) -> T:
        """Return an RPC's result; raise `DeviceError` if the connection ends, or the limit is exceeded."""
        call = asyncio.ensure_future(rpc)
        call.add_done_callback(_retrieve_exception)
        limit = self._limits(timeout_s, f"{operation} of switch {self.address}")
        try:
            if not await wait_within(limit, call):
                raise await self._silence_error(operation, limit)
        finally:
            if not call.done():
                call.cancel()
                await asyncio.wait([call])
        if call.cancelled():
            raise self._closed_error()
        try:
            return call.result()
        except AssertionError as error:
            # finsy raises AssertionError in calls after it has closed the connection.
            if self._switch.is_up:
                raise
            raise self._closed_error() from error

    async def _connect(
        self, p4info: p4i.P4Info | None = None, p4blob: Path | None = None, timeout_s: float | None = None
    ) -> fy.Switch:
        election_id = self._first_election_id
        timeout_s = self._connect_timeout_s if timeout_s is None else timeout_s
        for _ in range(_MAX_ELECTIONS):
            options = fy.SwitchOptions(
                # A file would be parsed again, for 0.1 s; `P4Schema`, which gets it, takes a message, too.
                p4info=cast("Path | None", p4info),
                p4blob=p4blob,
                device_id=self._device_id,
                initial_election_id=election_id,
            )
            with shared_schemas():
                switch = fy.Switch("hotline", self.address, options)
            await self._enter_switch(
                switch, timeout_s, "connection" if p4blob is None else "commit of the pipeline"
            )
            if switch.is_primary or not self._primary:
                return switch
            # Read before the exit, at which finsy forgets it.
            highest_id = switch.primary_id
            await switch.__aexit__(None, None, None)
            if highest_id >= _EXCLUSIVE_ELECTION_ID:
                raise NotPrimary(
                    f"switch {self.address}: a run (process {highest_id - _EXCLUSIVE_ELECTION_ID}) is "
                    "setting it up, loading it or reading it out; try again when it has done so"
                )
            election_id = highest_id + 1
        raise NotPrimary(f"switch {self.address}: another controller keeps taking the primary role")

    async def _enter_switch(self, switch: fy.Switch, timeout_s: float, operation: str) -> None:
        limit = self._limits(timeout_s, f"{operation} of switch {self.address}")
        with shared_schemas():  # the tasks of the connection have this context, too
            enter_task = asyncio.ensure_future(switch.__aenter__())
        try:
            is_done = await wait_within(limit, enter_task)
        finally:
            enter_task.cancel()
            await asyncio.wait([enter_task])
        if not is_done:
            raise await self._silence_error(operation, limit)
        if enter_task.cancelled():
            # finsy could not set up the connection: it has logged the reason and cancelled the task.
            raise SetupFailed(f"switch {self.address}: {operation} failed")
        try:
            enter_task.result()
        except (fy.P4ClientError, GNMIClientError) as error:
            raise self._device_error(operation, error) from error

    async def _disconnect(self) -> None:
        switch, self._connection = self._connection, None
        if switch is not None:
            await switch.__aexit__(None, None, None)

    @contextmanager
    def _translate_errors(self, operation: str) -> Iterator[None]:
        if not self._switch.is_up:
            raise self._closed_error()
        try:
            yield
        except fy.P4ClientError as error:
            raise self._device_error(operation, error) from error
        except grpc.aio.UsageError as error:
            raise self._closed_error() from error

    def _device_error(self, operation: str, error: fy.P4ClientError | GNMIClientError) -> DeviceError:
        if error.code == fy.GRPCStatusCode.UNAVAILABLE:
            return no_answer(self.address)
        if error.code == fy.GRPCStatusCode.PERMISSION_DENIED:
            return self._not_primary_error()
        return DeviceError(f"switch {self.address}: {operation} failed: {error.code.name}: {error.message}")

    async def _silence_error(self, operation: str, limit: WaitLimit) -> DeviceError:
        """Return an error that says what is known of a switch without an answer."""
        is_listening = await in_thread(accepts_connections, self.address)
        state = (
            "it accepts connections, and may be compiling a program"
            if is_listening
            else "nothing accepts connections there"
        )
        return DeviceError(
            f"switch {self.address}: no answer to the {operation} {limit.describe()}; {state}; "
            f"the load of this machine is {os.getloadavg()[0]:.1f}"
        )

    def _closed_error(self) -> DeviceError:
        return DeviceError(f"switch {self.address} has closed the connection")

    def _not_primary_error(self) -> NotPrimary:
        return NotPrimary(f"another controller has become primary of switch {self.address}")


def _retrieve_exception(call: asyncio.Future[T]) -> None:
    """Retrieve a call's exception, which asyncio would log if the caller has ended before the call."""
    if not call.cancelled():
        call.exception()
