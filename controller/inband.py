"""Idempotent calls by packet-out and packet-in, repeated until answered: to a PS, and to read registers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

import numpy as np
from typing_extensions import Self

from controller.client import SwitchClient
from controller.errors import MoveRefused, NoAnswer
from controller.tables import Server
from foundation.concurrency import gather_or_cancel
from foundation.errors import MalformedDatagram
from foundation.protocol import addressing, codec, control, frames
from foundation.protocol.codec import Keys, Message, Values
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
    unpack,
)
from foundation.protocol.packing import pack_hashed

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 10.0
_FIRST_TIMEOUT_S = 0.1
_MAX_TIMEOUT_S = 0.4
_MAX_READS = 8
_UP_HINT = " Under `hotline up`, servers run only while workers do: start a script first"

K = TypeVar("K")
T = TypeVar("T")


class InBand:
    """One caller of servers and registers, with its own epoch; use it in `async with InBand(switch)`."""

    def __init__(self, switch: SwitchClient, *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self.epoch = switch.new_epoch()
        self._switch = switch
        self._timeout_s = timeout_s
        self._commands: dict[tuple[int, int, int], asyncio.Future[Control]] = {}
        self._reads: dict[int, asyncio.Future[Message]] = {}
        self._free: dict[Server, asyncio.Queue[int]] = {}
        host = addressing.controller()
        self._source = UdpEndpoint(host.mac, host.address, HOTLINE_PORT)

    async def __aenter__(self) -> Self:
        self._receiver = asyncio.ensure_future(self._receive())
        # Let the receiver begin to listen.
        await asyncio.sleep(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._receiver.cancel()
        with suppress(asyncio.CancelledError):
            await self._receiver

    async def check(self, servers: Sequence[Server], keys: Sequence[int]) -> None:
        """Raise `NoAnswer` unless the PS of every key answers, `MoveRefused` unless it has the key."""
        owners = ps_ids_of(np.array(keys, dtype=np.uint64), len(servers)).tolist()
        shares: dict[int, list[int]] = {}
        for ps, key in zip(owners, keys, strict=True):
            shares.setdefault(ps, []).append(key)
        size = control.MAX_VALUES_KEYS
        await gather_or_cancel(
            self._check(servers[ps], share[start : start + size])
            for ps, share in shares.items()
            for start in range(0, len(share), size)
        )

    async def move(self, command: Command, server: Server, keys: Sequence[int]) -> None:
        status = (await self._command(command, server, keys)).status
        if status is not Status.OK:
            raise MoveRefused(
                f"PS {server.ps} at {server.addr} answered {command.name} of the keys {keys[0]}, ... "
                f"with {status.name}; load again to finish"
            )

    async def renew(self, server: Server, epoch: int) -> None:
        await self._command(Command.RENEW, server, [epoch])

    async def execute(self, command: Command, server: Server, epoch: int | None = None) -> None:
        await self._command(command, server, [] if epoch is None else [epoch])

    async def busiest(self, server: Server, limit: int) -> tuple[Keys, Values]:
        """Return keys [n] and updates since the last call: `NO_KEY` with the total, then the busiest."""
        pages: list[tuple[Keys, Values]] = []
        while not pages or len(pages[-1][0]) == control.MAX_VALUES_KEYS:
            arguments = [len(pages) * control.MAX_VALUES_KEYS, limit]
            answer = await self._command(Command.BUSIEST, server, arguments)
            assert answer.values is not None
            pages.append((answer.keys, answer.values))
        return np.concatenate([keys for keys, _ in pages]), np.concatenate([counts for _, counts in pages])

    async def read(self, servers: Sequence[Server], keys: Sequence[int]) -> dict[int, int]:
        """Return int32 values of `keys` in the switch, whose `workers` must have the caller as privileged."""
        if not keys:
            return {}
        array = np.array(keys, dtype=np.uint64)
        packing = pack_hashed(ps_ids_of(array, len(servers)), lanes_of(array))
        by_lane = np.append(array, np.uint64(NO_KEY))[packing.position]
        rpcs = zip(packing.ps.tolist(), packing.count.tolist(), packing.live.tolist(), by_lane, strict=True)
        free = _free_seqs(_MAX_READS, WINDOW)
        answers = await gather_or_cancel(
            self._read(servers[ps], live, lanes[:count], free) for ps, count, live, lanes in rpcs
        )
        found: dict[int, int] = {}
        for positions, answer in zip(packing.position.tolist(), answers, strict=True):
            assert answer.values is not None
            values = answer.values.view(np.int32).tolist()
            for lane in range(LANES):
                if answer.header.served >> lane & 1:
                    found[keys[positions[lane]]] = values[lane]
        return found

    async def _check(self, server: Server, keys: Sequence[int]) -> None:
        if (await self._command(Command.VALUES, server, keys)).status is not Status.OK:
            raise MoveRefused(
                f"PS {server.ps} at {server.addr} does not have all of the keys {keys[0]}, ...: not all "
                f"are parameters of job {server.job}; nothing was changed"
            )

    async def _read(self, server: Server, live: int, keys: Keys, free: asyncio.Queue[int]) -> Message:
        """Pull keys [count], each in its lane; 1 bits of `live` mark the lanes in use."""
        seq = await free.get()
        header = Header(
            op=Op.PULL,
            flags=KEYS,
            job=server.job,
            worker=CONTROLLER_CALLER,
            epoch=self.epoch,
            ps=server.ps,
            count=len(keys),
            seq=seq,
            live=live,
        )
        service = UdpEndpoint(server.service_mac, server.service_addr, server.service_port)
        frame = frames.build(UdpFrame(self._source, service, codec.build(Message(header, keys))))
        answer = await self._call(self._reads, seq, frame, None, "the switch", "a register read")
        free.put_nowait(seq + WINDOW)
        return answer

    async def _command(self, command: Command, server: Server, keys: Sequence[int]) -> Control:
        free = self._free.setdefault(server, _free_seqs(control.SLOTS, 0))
        seq = await free.get()
        request = Control(command, server.job, server.ps, self.epoch, seq, np.array(keys, dtype=np.uint64))
        endpoint = UdpEndpoint(server.mac, server.addr, server.udp_port)
        frame = frames.build(UdpFrame(self._source, endpoint, control.build(request)))
        who = f"PS {server.ps} at {server.addr}"
        answer = await self._call(
            self._commands,
            (server.job, server.ps, seq),
            frame,
            server.port,
            who,
            command.name,
            _UP_HINT,
        )
        free.put_nowait(seq + control.SLOTS)
        return answer

    async def _call(
        self,
        waiting: dict[K, asyncio.Future[T]],
        call: K,
        frame: bytes,
        port: int | None,
        who: str,
        what: str,
        hint: str = "",
    ) -> T:
        """Send a frame repeatedly until `waiting[call]` has the answer; raise `NoAnswer` if none comes."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        waiting[call] = answer
        end = loop.time() + self._timeout_s
        timeout_s = _FIRST_TIMEOUT_S
        try:
            while loop.time() < end:
                await self._switch.send(frame, port)
                await asyncio.wait([answer], timeout=min(timeout_s, end - loop.time()))
                if answer.done():
                    return answer.result()
                timeout_s = min(2 * timeout_s, _MAX_TIMEOUT_S)
        finally:
            del waiting[call]
        raise NoAnswer(
            f"{who} did not answer {what} within {self._timeout_s:g} s; is it running, and of wire "
            f"version {VERSION}?" + hint
        )

    async def _receive(self) -> None:
        async for frame in self._switch.packets():
            try:
                datagram = frames.parse(frame).payload
                header = unpack(datagram)
                if header.epoch != self.epoch or not header.flags & RESPONSE:
                    log.debug("packet-in that is no answer to this controller: %s", header)
                elif header.op == Op.CONTROL:
                    _answer(self._commands, (header.job, header.ps, header.seq), control.parse(datagram))
                else:
                    _answer(self._reads, header.seq, codec.parse(datagram))
            except MalformedDatagram as error:
                log.debug("packet-in that is no RPC: %s", error)


def _free_seqs(slots: int, first: int) -> asyncio.Queue[int]:
    free: asyncio.Queue[int] = asyncio.Queue()
    for slot in range(slots):
        free.put_nowait(first + slot)
    return free


def _answer(waiting: dict[K, asyncio.Future[T]], call: K, answer: T) -> None:
    future = waiting.get(call)
    if future is not None and not future.done():
        future.set_result(answer)
