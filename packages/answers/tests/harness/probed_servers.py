"""`python probed_servers.py KIND...`: small servers of several kinds, which print their ports and serve.

Each takes requests of `REQUEST` bytes and answers with `ANSWER` bytes. It imports nothing of this project.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import selectors
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable

REQUEST, ANSWER = 100, 300
PIECE = 10  # bytes of a small read
BURN_S = 0.002  # CPU time of a request at the server `burn`
SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES = 33, 1 << 20  # the socket module lacks the former
Serve = Callable[[socket.socket], None]


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes children that have ended
    ports = []
    for kind in sys.argv[1:]:
        family, protocol, serve = KINDS[kind]
        server = socket.socket(family, protocol)
        server.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        server.bind(("::" if family == socket.AF_INET6 else "127.0.0.1", 0))
        if protocol == socket.SOCK_STREAM:
            server.listen()
        ports.append(server.getsockname()[1])
        threading.Thread(target=serve, args=(server,)).start()
    print(*ports, flush=True)


# ---- TCP


def each_connection(serve: Serve) -> Serve:
    def accept(server: socket.socket) -> None:
        while True:
            threading.Thread(target=serve, args=(server.accept()[0],)).start()

    return accept


def receive(connection: socket.socket, size: int = REQUEST, most: int = REQUEST) -> bool:
    """Read so many bytes, `most` at a time; return whether they came."""
    while size:
        read = connection.recv(min(size, most))
        if not read:
            return False
        size -= len(read)
    return True


def plain(connection: socket.socket) -> None:
    while receive(connection):
        connection.sendall(bytes(ANSWER))


def small_reads(connection: socket.socket) -> None:
    while receive(connection, most=PIECE):
        connection.sendall(bytes(ANSWER))


def burn(connection: socket.socket) -> None:
    while receive(connection):
        end = time.thread_time() + BURN_S
        while time.thread_time() < end:
            pass
        connection.sendall(bytes(ANSWER))


def peek_first(connection: socket.socket) -> None:
    while connection.recv(1, socket.MSG_PEEK) and receive(connection):
        connection.sendall(bytes(ANSWER))


def send_file(connection: socket.socket) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(ANSWER))
        file.flush()
        while receive(connection):
            sent = 0
            while sent < ANSWER:
                sent += os.sendfile(connection.fileno(), file.fileno(), sent, ANSWER - sent)


def forked(server: socket.socket) -> None:
    """Serve each connection in a process."""
    while True:
        connection, _ = server.accept()
        if os.fork() == 0:
            plain(connection)
            os._exit(0)
        connection.close()


def event_loop(server: socket.socket) -> None:
    """Serve all connections in one thread."""
    selector = selectors.DefaultSelector()
    selector.register(server, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            ready = key.fileobj
            assert isinstance(ready, socket.socket)
            if ready is server:
                selector.register(server.accept()[0], selectors.EVENT_READ)
            elif receive(ready):
                ready.sendall(bytes(ANSWER))
            else:
                selector.unregister(ready)


# ---- io_uring: <linux/io_uring.h>

_SETUP, _ENTER, _GETEVENTS = 425, 426, 1
_SEND, _RECEIVE = 26, 27
_SQ_RING, _CQ_RING, _SQES = 0, 0x8000000, 0x10000000
_SQE = struct.Struct("<BBHiQQIIQ")  # the first 40 of 64 bytes


class Ring:
    """A ring of one entry."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        parameters = ctypes.create_string_buffer(120)
        self._fd = self._libc.syscall(_SETUP, 1, parameters)
        assert self._fd >= 0, os.strerror(ctypes.get_errno())
        # head, tail, mask, entries, ... and after them the array, or the completions
        self._submitted, self._completed = (struct.unpack_from("<8I", parameters, at) for at in (40, 80))
        self._sq, self._cq, self._entries = (
            mmap.mmap(self._fd, 4096, mmap.MAP_SHARED, offset=offset)
            for offset in (_SQ_RING, _CQ_RING, _SQES)
        )

    def call(self, operation: int, fd: int, buffer: ctypes.Array[ctypes.c_char], size: int) -> int:
        entry = _SQE.pack(operation, 0, 0, fd, 0, ctypes.addressof(buffer), size, 0, 0)
        self._entries[: len(entry)] = entry
        tail_offset, head_offset = self._submitted[1], self._completed[0]
        (tail,) = struct.unpack_from("<I", self._sq, tail_offset)
        struct.pack_into("<I", self._sq, self._submitted[6], 0)  # the array names the entry
        struct.pack_into("<I", self._sq, tail_offset, tail + 1)
        assert self._libc.syscall(_ENTER, self._fd, 1, 1, _GETEVENTS, None, 0) == 1
        (head,) = struct.unpack_from("<I", self._cq, head_offset)
        place = self._completed[5] + 16 * (head & struct.unpack_from("<I", self._cq, self._completed[2])[0])
        _, result, _ = struct.unpack_from("<QiI", self._cq, place)
        struct.pack_into("<I", self._cq, head_offset, head + 1)
        return int(result)


def io_uring(connection: socket.socket) -> None:
    ring, buffer = Ring(), ctypes.create_string_buffer(ANSWER)
    while ring.call(_RECEIVE, connection.fileno(), buffer, REQUEST) == REQUEST:
        assert ring.call(_SEND, connection.fileno(), buffer, ANSWER) == ANSWER


# ---- UDP


def datagrams(server: socket.socket) -> None:
    while True:
        _, client = server.recvfrom(2 * REQUEST)
        server.sendto(bytes(ANSWER), client)


def connected(server: socket.socket) -> None:
    """Serve the first client alone."""
    _, client = server.recvfrom(2 * REQUEST)
    server.connect(client)
    server.send(bytes(ANSWER))
    while True:
        server.recv(2 * REQUEST)
        server.send(bytes(ANSWER))


def messages(server: socket.socket) -> None:
    while True:
        *_, client = server.recvmsg(2 * REQUEST)
        server.sendmsg([bytes(ANSWER)], [], 0, client)


def in_pairs(server: socket.socket) -> None:
    """Read two datagrams before answering them."""
    while True:
        clients = [server.recvfrom(2 * REQUEST)[1] for _ in range(2)]
        for client in clients:
            server.sendto(bytes(ANSWER), client)


V4, V6 = socket.AF_INET, socket.AF_INET6
TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM
KINDS: dict[str, tuple[socket.AddressFamily, socket.SocketKind, Serve]] = {
    "threads": (V4, TCP, each_connection(plain)),
    "IPv6": (V6, TCP, each_connection(plain)),
    "small reads": (V4, TCP, each_connection(small_reads)),
    "burn": (V4, TCP, each_connection(burn)),
    "peek": (V4, TCP, each_connection(peek_first)),
    "sendfile": (V4, TCP, each_connection(send_file)),
    "event loop": (V4, TCP, event_loop),
    "io_uring": (V4, TCP, each_connection(io_uring)),
    "forks": (V4, TCP, forked),
    "datagrams": (V4, UDP, datagrams),
    "datagrams, IPv6": (V6, UDP, datagrams),
    "messages": (V4, UDP, messages),
    "connected": (V4, UDP, connected),
    "in pairs": (V4, UDP, in_pairs),
}

if __name__ == "__main__":
    main()
