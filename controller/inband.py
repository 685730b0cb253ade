"""Idempotent calls to servers and reads of registers, by packet-out and packet-in, until answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import numpy as np
from typing_extensions import Self

from controller.client import SwitchClient
from controller.errors import MoveRefused, NoAnswer, NotPrimary, UnknownKey
from controller.tables import ServerRow
from foundation.concurrency import gather_or_cancel
from foundation.errors import MalformedDatagram
from foundation.limits import BeginWait, WallClockLimit
from foundation.protocol import addressing, codec, control, frames
from foundation.protocol.codec import MAX_U32, Keys, Message, Values
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.hashing import lanes_of, ps_ids_of
from foundation.protocol.header import (
    CONTROLLER_CALLER,
    HOTLINE_PORT,
    KEYS,
    LANES,
    NO_KEY,
    RESPONSE,
    VERSION,
    WINDOW,
    Header,
    Op,
    lanes_of_dim,
    unpack,
)
from foundation.protocol.register_packing import pack_hashed
from foundation.protocol.rows import ONE_VALUE, RowRanges, dims_in

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 10.0
_FIRST_TIMEOUT_S = 0.1
_MAX_TIMEOUT_S = 0.4
_MAX_CONCURRENT_READS = 8
_UP_HINT = " Under `hotline up`, servers run only while workers do: start a script first"

K = TypeVar("K")
T = TypeVar("T")


class Servers:
    """The servers of a job whose hot sets are in this switch, by number, of `n_ps` servers in the network."""

    def __init__(self, rows: Mapping[int, ServerRow], n_ps: int) -> None:
        self._rows, self.n_ps = rows, n_ps

    @staticmethod
    def of_one_switch(rows: Sequence[ServerRow]) -> Servers:
        """Return servers that all have their hot sets in this switch, in the order of their numbers."""
        return Servers(dict(enumerate(rows)), len(rows))

    def __iter__(self) -> Iterator[ServerRow]:
        return (self._rows[ps] for ps in sorted(self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, ps: int) -> ServerRow:
        if ps not in self._rows:
            own = ", ".join(map(str, sorted(self._rows)))
            raise UnknownKey(
                f"PS {ps}: expected keys of the parameter servers whose hot sets are in this switch ({own})"
            )
        return self._rows[ps]


class InBand:
    """A caller of servers and registers; use it in `async with InBand(switch)`.

    `epoch` is its epoch as a caller of registers, and of each server that has issued no other to it. Commands
    raise `NotPrimary` if their server has had a command of a later controller.
    """

    def __init__(
        self,
        switch: SwitchClient,
        *,
        timeout_s: float = ANSWER_TIMEOUT_S,
        limits: BeginWait = WallClockLimit,
    ) -> None:
        self.epoch = switch.new_epoch()
        self._epochs: dict[ServerRow, int] = {}  # of the servers that have accepted a command, or issued one
        self._switch = switch
        self._timeout_s, self._limits = timeout_s, limits
        self._pending_commands: dict[tuple[int, int, int, int], asyncio.Future[Control]] = {}
        self._pending_reads: dict[int, asyncio.Future[Message]] = {}
        self._free_seqs_by_server: dict[ServerRow, asyncio.Queue[int]] = {}
        host = addressing.controller()
        self._source = UdpEndpoint(host.mac, host.address, HOTLINE_PORT)

    async def __aenter__(self) -> Self:
        self._receiver = asyncio.ensure_future(self._receive())
        # Let the receiver begin to listen.
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._receiver.cancel()
        with suppress(asyncio.CancelledError):
            await self._receiver

    async def check(self, servers: Servers, keys: Sequence[int], ranges: RowRanges = ONE_VALUE) -> None:
        """Raise `NoAnswer` unless the PS of every key answers, `MoveRefused` unless it has the key's row.

        `ranges` has the dims of the rows.
        """
        key_array = np.array(keys, dtype=np.uint64)
        ps_ids, dims = ps_ids_of(key_array, servers.n_ps).tolist(), dims_in(ranges, key_array).tolist()
        groups: dict[tuple[int, int], list[int]] = {}
        for ps, dim, key in zip(ps_ids, dims, keys, strict=True):
            groups.setdefault((ps, dim), []).append(key)
        await gather_or_cancel(
            self._check_keys(servers[ps], group[start : start + control.max_values_keys(dim)], dim)
            for (ps, dim), group in groups.items()
            for start in range(0, len(group), control.max_values_keys(dim))
        )

    async def move(self, command: Command, server: ServerRow, keys: Sequence[int]) -> None:
        status = (await self._command(command, server, keys)).status
        if status is not Status.OK:
            raise MoveRefused(
                f"PS {server.server_id} at {server.addr} answered {command.name} of the keys {keys[0]}, ... "
                f"with {status.name}; load again to finish"
            )

    async def execute(self, command: Command, server: ServerRow, epoch: int | None = None) -> None:
        await self._command(command, server, [] if epoch is None else [epoch])

    async def busiest(self, server: ServerRow, limit: int) -> tuple[Keys, Values]:
        """Return keys [n] and their updates since the last call; the first key, `NO_KEY`, has the total."""
        pages: list[tuple[Keys, Values]] = []
        while not pages or len(pages[-1][0]) == control.MAX_VALUES_KEYS:
            arguments = [len(pages) * control.MAX_VALUES_KEYS, limit]
            answer = await self._command(Command.BUSIEST, server, arguments)
            assert answer.values is not None
            pages.append((answer.keys, answer.values))
        return np.concatenate([keys for keys, _ in pages]), np.concatenate([counts for _, counts in pages])

    async def read(self, servers: Servers, rows: Sequence[tuple[int, int]]) -> dict[int, tuple[int, ...]]:
        """Return the switch's int32 values by key, of the rows with these keys and dims.

        Its table `workers` must have this caller's row.
        """
        keys_by_dim: dict[int, list[int]] = {}
        for key, dim in rows:
            keys_by_dim.setdefault(dim, []).append(key)
        values_by_key: dict[int, tuple[int, ...]] = {}
        # In turn 0 of a slot, the switch drops requests as stale.
        free_seqs = _free_seqs(_MAX_CONCURRENT_READS, first_seq=WINDOW)
        for dim, keys in keys_by_dim.items():
            values_by_key |= await self._read_rows(servers, keys, dim, free_seqs)
        return values_by_key

    async def _read_rows(
        self, servers: Servers, keys: Sequence[int], dim: int, free_seqs: asyncio.Queue[int]
    ) -> dict[int, tuple[int, ...]]:
        key_array = np.array(keys, dtype=np.uint64)
        packing = pack_hashed(ps_ids_of(key_array, servers.n_ps), lanes_of(key_array, lanes_of_dim(dim)))
        # A lane without a key has position len(keys), where NO_KEY is appended.
        keys_by_lane = np.append(key_array, np.uint64(NO_KEY))[packing.position]
        rpcs = zip(
            packing.ps.tolist(), packing.count.tolist(), packing.live.tolist(), keys_by_lane, strict=True
        )
        answers = await gather_or_cancel(
            self._read(servers[ps], live, lanes[:count], dim, free_seqs) for ps, count, live, lanes in rpcs
        )
        values_by_key: dict[int, tuple[int, ...]] = {}
        for positions, answer in zip(packing.position.tolist(), answers, strict=True):
            assert answer.values is not None
            values = answer.values.view(np.int32).reshape(-1, dim).tolist()
            for lane in range(LANES):
                if answer.header.served >> lane & 1:
                    values_by_key[keys[positions[lane]]] = tuple(values[lane])
        return values_by_key

    async def _check_keys(self, server: ServerRow, keys: Sequence[int], dim: int) -> None:
        if (await self._command(Command.VALUES, server, keys, dim)).status is not Status.OK:
            of_dim = "" if dim == 1 else f" with rows of {dim} values"
            raise MoveRefused(
                f"PS {server.server_id} at {server.addr} does not have all of the keys {keys[0]}, ...: not "
                f"all are parameters of job {server.job}{of_dim}, or another switch has some, which has "
                "to give them back first; nothing was changed"
            )

    async def _read(
        self, server: ServerRow, live: int, keys: Keys, dim: int, free_seqs: asyncio.Queue[int]
    ) -> Message:
        """Pull keys [count], each in its lane; 1 bits of `live` mark the lanes in use."""
        seq = await free_seqs.get()
        header = Header(
            op=Op.PULL,
            flags=KEYS,
            job=server.job,
            worker=CONTROLLER_CALLER,  # privileged in the table `workers`
            epoch=self.epoch,
            ps=server.ps,
            count=len(keys),
            dim=dim,
            seq=seq,
            live=live,
        )
        service = UdpEndpoint(server.service_mac, server.service_addr, server.service_port)
        frame = frames.build(UdpFrame(self._source, service, codec.build(Message(header, keys))))
        answer = await self._call(
            self._pending_reads,
            seq,
            frame,
            egress_port=None,
            callee="the switch",
            operation="a register read",
        )
        free_seqs.put_nowait(seq + WINDOW)  # the same slot in its next turn
        return answer

    async def _command(
        self, command: Command, server: ServerRow, keys: Sequence[int], dim: int = 1
    ) -> Control:
        free_seqs = self._free_seqs_by_server.setdefault(server, _free_seqs(control.SLOTS, first_seq=0))
        seq = await free_seqs.get()
        if seq > MAX_U32:
            raise NoAnswer(
                f"PS {server.server_id} at {server.addr}: this controller has no sequence number of 32 bits "
                f"left for {command.name}; another connection has new ones"
            )
        key_array = np.array(keys, dtype=np.uint64)
        request = Control(command, server.job, server.ps, self.epoch, seq, key_array, dim=dim)
        answer = await self._send_command(server, request)
        free_seqs.put_nowait(seq + control.SLOTS)  # the same slot in its next turn
        return answer

    async def _send_command(self, server: ServerRow, request: Control) -> Control:
        """Return the answer to a command, which is sent again if the server issues an epoch."""
        while True:
            request = replace(request, epoch=self._epochs.get(server, self.epoch))
            endpoint = UdpEndpoint(server.mac, server.addr, server.udp_port)
            answer = await self._call(
                self._pending_commands,
                (server.job, server.ps, *request.identity),
                frames.build(UdpFrame(self._source, endpoint, control.build(request))),
                egress_port=server.port,
                callee=f"PS {server.server_id} at {server.addr}",
                operation=request.command.name,
                hint=_UP_HINT,
            )
            is_stale = answer.status is Status.STALE
            epoch = self._epochs.setdefault(server, int(answer.keys[0]) if is_stale else request.epoch)
            if not is_stale:
                return answer
            if epoch == request.epoch:
                raise NotPrimary(
                    f"PS {server.server_id} at {server.addr}: another controller has sent commands of job "
                    f"{server.job} since, so this controller's {request.command.name} was refused; try again"
                )

    async def _call(
        self,
        pending: dict[K, asyncio.Future[T]],
        call_id: K,
        frame: bytes,
        egress_port: int | None,
        callee: str,
        operation: str,
        hint: str = "",
    ) -> T:
        """Send a frame repeatedly until `pending[call_id]` has the answer; raise `NoAnswer` if none comes."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        pending[call_id] = answer
        limit = self._limits(self._timeout_s, f"answer of {callee} to {operation}")
        timeout_s = _FIRST_TIMEOUT_S
        try:
            while not await limit.is_exceeded():
                await self._switch.send(frame, egress_port)
                await asyncio.wait([answer], timeout=min(timeout_s, limit.look_s))
                if answer.done():
                    return answer.result()
                timeout_s = min(2 * timeout_s, _MAX_TIMEOUT_S)
        finally:
            del pending[call_id]
        raise NoAnswer(
            f"{callee} did not answer {operation} {limit.describe()}; is it running, and of wire "
            f"version {VERSION}?" + hint
        )

    async def _receive(self) -> None:
        async for frame in self._switch.packets():
            try:
                datagram = frames.parse(frame).payload
                header = unpack(datagram)
                epochs = {self.epoch, *self._epochs.values()} if header.op == Op.CONTROL else {self.epoch}
                if header.epoch not in epochs or not header.flags & RESPONSE:
                    log.debug("ignored packet-in that does not answer this controller: %s", header)
                elif header.op == Op.CONTROL:
                    answer = control.parse(datagram)
                    call_id = (answer.job, answer.ps, *answer.identity)
                    _set_answer(self._pending_commands, call_id, answer)
                else:
                    _set_answer(self._pending_reads, header.seq, codec.parse(datagram))
            except MalformedDatagram as error:
                log.debug("ignored packet-in that is not an RPC: %s", error)


def _free_seqs(slots: int, first_seq: int) -> asyncio.Queue[int]:
    seqs: asyncio.Queue[int] = asyncio.Queue()
    for slot in range(slots):
        seqs.put_nowait(first_seq + slot)
    return seqs


def _set_answer(pending: dict[K, asyncio.Future[T]], call_id: K, answer: T) -> None:
    future = pending.get(call_id)
    if future is not None and not future.done():
        future.set_result(answer)
