"""A PS's sockets: the data port, a connected one for each worker where asked for, and its own RPCs'.

The compiled loop answers workers; what it leaves to Python is rare: commands, the controller, new workers.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import NamedTuple

from foundation.designs.interface import NEVER, Design
from foundation.protocol.header import HOTLINE_PORT, PS_RPC_PORT, VERSION
from hosts.agent import Commands, SignalPipe
from hosts.designs import AGENTS
from hosts.errors import DurabilityPaused
from hosts.ps import serve as serving
from hosts.ps.core import Core
from hosts.ps.durable import Durable
from hosts.ps.serve import (
    COMMAND,
    FOR_CONTROL,
    FOREIGN,
    MARKED,
    NEWCOMER,
    OWN,
    QUIET,
    ROOM,
    SIGNAL,
    make_sources,
)
from hosts.ps.server import job_of
from hosts.ps.service import Service
from hosts.sockets import Address, Receiver, open_udp, send
from hosts.udp import BURST, address_of, datagram_of, make_udp

log = logging.getLogger(__name__)

_FULL_DISK_S = 0.1
"""Between two attempts to write to a disk that is full."""


class CodecHooks(NamedTuple):
    """How a PS speaks."""

    serve: Callable[..., int] = serving.serve
    """The loop, or its plain twin."""
    outward: Callable[[bytes], bytes] = bytes
    """What becomes of a datagram of its own RPCs before it is sent."""
    inward: Callable[[bytes], bytes] = bytes
    """And of one that has come for them."""


def codec_hooks(codec: str, design: Design) -> CodecHooks:
    """With the codec "fast" the compiled loop, with "scapy" its plain twin behind Scapy."""
    if codec == "scapy":
        from hosts.scapy_udp import behind_scapy

        wire = AGENTS.of(design).wire
        return CodecHooks(behind_scapy(serving.serve, design), wire.outward, wire.inward)
    return CodecHooks()


class Sockets:
    """The PS's sockets. Jobs in `connected` get one connected socket for each worker's 5-tuple ([DDL] §3).

    `on_room` is called when a part of the connection log has become full. With `durable` what changes the PS
    is kept there before anybody is answered. It sends of itself to `peers`.
    """

    def __init__(
        self,
        core: Core[Address],
        address: str,
        service: Address,
        connected: Collection[int],
        offset: int,
        service_time: Service,
        on_room: Callable[[], None] = lambda: None,
        codec_hooks: CodecHooks | None = None,
        durable: Durable | None = None,
        peers: Sequence[Address] = (),
    ) -> None:
        self._core = core
        self._durable = durable
        self._is_paused = False
        self._service = service
        self._connected = connected
        self._local = (address, HOTLINE_PORT)
        self._codec_hooks = codec_hooks or CodecHooks()
        self._service_time = service_time
        self._on_room = on_room
        self._udp = make_udp(offset)
        self._poll = select.epoll()
        self._sources = make_sources(self._poll.fileno(), peers)
        self.peers: set[Address] = set()
        self._foreign: set[tuple[int, Address]] = set()
        """Workers that have a socket of their own."""
        self._open: list[socket.socket] = []
        self._data = self._add(open_udp(self._local, shared=True))
        self._own = self._add(open_udp((address, PS_RPC_PORT)))
        self._receiver = Receiver(self._own, offset)
        self._signals = SignalPipe()
        self._poll.register(self._signals.fd, select.EPOLLIN)
        state = self._sources.state
        state.own, state.port, state.signals = self._own.fileno(), self._data.fileno(), self._signals.fd
        # Compiles, or loads what was, before anybody waits for an answer.
        self._call(0)

    def durability(self) -> dict[str, int]:
        """What it costs to be durable; all 0 where the PS is not.

        Commits and how long they took, ns; the datagrams that waited for one, and how long all of them did.
        """
        kept, state = self._durable, self._sources.state
        commits, ns = (0, 0) if kept is None else (kept.commits, kept.commit_ns)
        return dict(commits=commits, commit_ns=ns, delayed=int(state.delayed), delay_ns=int(state.delay_ns))

    def close(self) -> None:
        """Close all sockets."""
        self._poll.close()
        self._signals.close()
        for sock in self._open:
            sock.close()

    def _add(self, sock: socket.socket) -> socket.socket:
        self._open.append(sock)
        self._poll.register(sock.fileno(), select.EPOLLIN)
        return sock

    def run_until_command(self, commands: Commands) -> None:
        """Serve until something has been read from standard input."""
        self._sources.state.commands = commands.fd
        self._poll.register(commands.fd, select.EPOLLIN)
        try:
            while self._turn() != COMMAND:
                pass
            commands.read()
        finally:
            self._poll.unregister(commands.fd)

    def _turn(self) -> int:
        """Answer workers until Python is needed, and do what it is needed for; returns why it was."""
        if self._is_paused and not self._keep():
            return self._wait_for_room()
        core = self._core
        due = core.deadline()
        reason = self._call(NEVER if due is None else due)
        if reason == ROOM:
            core.server.make_room(BURST)
            self._on_room()
        elif reason == SIGNAL:
            self._signals.drain()
        elif reason == OWN:
            # As many as there is room for notes of; of others the next turn hears.
            for received in islice(iter(self._receiver.receive, None), BURST):
                core.receive_own(self._codec_hooks.inward(received.datagram), received.read)
        elif reason == MARKED:
            self._look_at_marked()
        if due is not None:
            core.wake(time.monotonic_ns())
        if self._keep():
            self._own_traffic()
        return reason

    def _keep(self) -> bool:
        """Keep what has been noted, before anything is sent; False where the disk is full."""
        durable, server = self._durable, self._core.server
        if durable is None:
            return True
        try:
            if server.state.header.noted:
                durable.append(server.notes)
                server.forget_notes()
            if durable.wants_checkpoint and self._core.is_idle:
                durable.checkpoint(self._core.checkpoint())
        except DurabilityPaused as error:
            if not self._is_paused:
                log.warning("%s: nothing is answered until there is room", error)
            self._is_paused = True
            return False
        self._is_paused = False
        return True

    def _wait_for_room(self) -> int:
        """Let a moment pass, for whoever makes room; commands are heard."""
        commands = int(self._sources.state.commands)
        ready, _, _ = select.select([commands], [], [], _FULL_DISK_S)
        return COMMAND if ready else QUIET

    def _call(self, until: int) -> int:
        return self._codec_hooks.serve(
            self._core.server.state, self._service_time, self._udp, self._sources, until
        )

    def _look_at_marked(self) -> None:
        for k in range(self._sources.state.taken):
            mark = self._sources.marks[k]
            if mark == FOR_CONTROL:
                self._core.command(datagram_of(self._udp, k), address_of(self._udp, k))
            elif mark == NEWCOMER:
                self._connect(job_of(datagram_of(self._udp, k)), address_of(self._udp, k))
            elif mark == FOREIGN:
                self._tell_of_version(datagram_of(self._udp, k)[0], address_of(self._udp, k))

    def _tell_of_version(self, version: int, peer: Address) -> None:
        if (version, peer) not in self._foreign:
            self._foreign.add((version, peer))
            log.error(
                "%s:%s speaks version %d of the wire and this server version %d: it is not answered; "
                "start both from one Hotline", *peer, version, VERSION,
            )  # fmt: skip

    def _connect(self, job: int, peer: Address) -> None:
        """Give a worker its own socket; what is queued at the shared one is still read there."""
        if job in self._connected and peer not in self.peers:
            self.peers.add(peer)
            self._add(open_udp(self._local, shared=True)).connect(peer)

    def _own_traffic(self) -> None:
        """Send register RPCs, and answers to the controller."""
        for datagram in self._core.transmit():
            send(self._own, self._codec_hooks.outward(bytes(datagram)), self._service)
        for answer, controller in self._core.control_answers():
            send(self._data, answer, controller)
