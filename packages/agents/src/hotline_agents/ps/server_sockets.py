"""The sockets of a PS: its compiled loop answers workers; Python handles commands and new workers."""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Callable, Collection, Sequence
from itertools import islice

from foundation.compiled import pinned
from foundation.protocol.header import HOTLINE_PORT, PS_RPC_PORT, VERSION
from hosts.agent import Commands, SignalPipe
from hosts.sockets import Address, Receiver, open_connected_udp, open_udp, send
from hotline_agents.interface import NEVER
from hotline_agents.ps import compiled_loop
from hotline_agents.ps.compiled_loop import (
    COMMAND,
    FOR_CONTROL,
    FOREIGN,
    HAS_MARKS,
    NEEDS_ROOM,
    NEW_CALLER,
    OWN_ANSWER,
    SIGNAL,
    TIMED_OUT,
    make_sources,
)
from hotline_agents.ps.durable import DurabilityPaused, DurableFile
from hotline_agents.ps.server_core import ServerCore
from hotline_agents.ps.service_time import Service
from hotline_agents.udp import BURST, address_of, datagram_of, make_udp

log = logging.getLogger(__name__)

_FULL_DISK_RETRY_S = 0.1  # interval in s between two attempts to write to a full disk


class ServerSockets:
    """The sockets of a PS. Workers at `connected` addresses get a connected socket each (Pan et al. §3).

    `on_full_log` is called when a part of the connection log is full. With `durable`, changes of the PS are
    persisted there before they are acknowledged. Datagrams that answer no request go to `peers`.
    """

    def __init__(
        self,
        core: ServerCore[Address],
        address: str,
        service: Address,
        connected: Collection[Address],
        service_time: Service,
        on_full_log: Callable[[], None] = lambda: None,
        serve: Callable[..., int] = compiled_loop.serve,
        durable: DurableFile | None = None,
        peers: Sequence[Address] = (),
        port: int = HOTLINE_PORT,
    ) -> None:
        self._core = core
        self._durable = durable
        self._is_paused = False
        self._service_address = service
        self._local_address = (address, port)
        self._service_time = service_time
        self._on_full_log = on_full_log
        self._serve = serve
        self._udp = make_udp()
        self._poll = select.epoll()
        self._sources = make_sources(self._poll.fileno(), peers)
        self._references = pinned(service_time), pinned(self._udp), pinned(self._sources)
        self._unconnected_workers = set(connected)
        self._reported_versions: set[tuple[int, Address]] = set()
        self._open_sockets: list[socket.socket] = []
        self._data_socket = self._add_socket(open_udp(self._local_address, shared=True))
        self._own_socket = self._add_socket(open_udp((address, PS_RPC_PORT), source_port=service[1]))
        self._receiver = Receiver(self._own_socket)
        self._signals = SignalPipe()
        self._poll.register(self._signals.fd, select.EPOLLIN)
        state = self._sources.state
        state.own_socket, state.data_socket = self._own_socket.fileno(), self._data_socket.fileno()
        state.signals = self._signals.fd
        # Compile the loop, or load it from the cache, before the first request.
        self._run_loop(deadline_ns=0)

    @property
    def bursts(self) -> int:
        """Number of bursts of datagrams that the server has read so far."""
        return int(self._sources.state.n_bursts)

    def durability(self) -> dict[str, int]:
        """Return number and total duration (ns) of commits, and of the delays of datagrams by commits."""
        durable, state = self._durable, self._sources.state
        commits, ns = (0, 0) if durable is None else (durable.commits, durable.commit_ns)
        return dict(commits=commits, commit_ns=ns, delayed=int(state.n_delayed), delay_ns=int(state.delay_ns))

    def close(self) -> None:
        self._poll.close()
        self._signals.close()
        for sock in self._open_sockets:
            sock.close()

    def _add_socket(self, sock: socket.socket) -> socket.socket:
        self._open_sockets.append(sock)
        self._poll.register(sock.fileno(), select.EPOLLIN)
        return sock

    def run_until_command(self, commands: Commands) -> None:
        self._sources.state.commands = commands.fd
        self._poll.register(commands.fd, select.EPOLLIN)
        try:
            while self._serve_once() != COMMAND:
                pass
            commands.read()
        finally:
            self._poll.unregister(commands.fd)

    def _serve_once(self) -> int:
        if self._is_paused and not self._persist():
            return self._wait_for_disk_space()
        core = self._core
        due = core.deadline()
        reason = self._run_loop(NEVER if due is None else due)
        if reason == NEEDS_ROOM:
            core.server.make_room(BURST)
            self._on_full_log()
        elif reason == SIGNAL:
            self._signals.drain()
        elif reason == OWN_ANSWER:
            # There is room for the notes of one burst; the next call reads the remaining datagrams.
            for received in islice(iter(self._receiver.receive, None), BURST):
                core.receive_rpc_answer(received.datagram, received.read)
        elif reason == HAS_MARKS:
            self._handle_marked_datagrams()
        if due is not None:
            core.wake(time.monotonic_ns())
        if self._persist():
            self._send_own_datagrams()
        return reason

    def _persist(self) -> bool:
        """Persist the journal before anything is sent; return False if the disk is full."""
        durable, server = self._durable, self._core.server
        if durable is None:
            return True
        try:
            if server.state.header.journal_length:
                durable.append(server.notes)
                server.forget_notes()
            if durable.needs_checkpoint and self._core.is_idle:
                durable.checkpoint(self._core.checkpoint())
        except DurabilityPaused as error:
            if not self._is_paused:
                log.warning("%s: no request is answered until there is disk space", error)
            self._is_paused = True
            return False
        self._is_paused = False
        return True

    def _wait_for_disk_space(self) -> int:
        commands = int(self._sources.state.commands)
        ready, _, _ = select.select([commands], [], [], _FULL_DISK_RETRY_S)
        return COMMAND if ready else TIMED_OUT

    def _run_loop(self, deadline_ns: int) -> int:
        return self._serve(self._core.server.reference, *self._references, deadline_ns)

    def _handle_marked_datagrams(self) -> None:
        for k in range(self._sources.state.n_received):
            mark = self._sources.marks[k]
            if mark == FOR_CONTROL:
                self._core.command(datagram_of(self._udp, k), address_of(self._udp, k))
            elif mark == NEW_CALLER:
                self._connect_worker(address_of(self._udp, k))
            elif mark == FOREIGN:
                version = datagram_of(self._udp, k)[0]  # the first byte in every version of the wire
                self._report_version(version, address_of(self._udp, k))

    def _report_version(self, version: int, peer: Address) -> None:
        if (version, peer) not in self._reported_versions:
            self._reported_versions.add((version, peer))
            log.error(
                "%s:%s speaks version %d of the wire and this server version %d: it is not answered; "
                "start both from the same version of Hotline", *peer, version, VERSION,
            )  # fmt: skip

    def _connect_worker(self, peer: Address) -> None:
        """Open a connected socket for a worker that has none and is to have one.

        Datagrams already at the shared socket are read there; it also serves all other addresses.
        """
        if peer in self._unconnected_workers:
            self._unconnected_workers.remove(peer)
            if (sock := open_connected_udp(self._local_address, peer)) is not None:
                self._add_socket(sock)

    def _send_own_datagrams(self) -> None:
        for datagram in self._core.transmit():
            send(self._own_socket, datagram, self._service_address)
        for answer, controller in self._core.control_answers():
            send(self._data_socket, answer, controller)
