"""The server to watch, in /proc: its processes, their CPU time, and the ports at which it serves."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from foundation.errors import HotlineError

_PROC = Path("/proc")
_TCP_FILES, _UDP_FILES = ("tcp", "tcp6"), ("udp", "udp6")  # in /proc/PID/net
_LISTEN = "0A"  # state of a listening socket of TCP
_SOCKET_LINK = "socket:["
_CPU_CLOCK = 2  # CPUCLOCK_SCHED: the clock of a process counts the runtime of all its threads
_ENDED = "ZX"  # states of processes: zombie, dead
MAX_PORT = 65_535
MAX_PID = 1 << 22  # of Linux, PID_MAX_LIMIT


class ProbeError(HotlineError):
    """A server that cannot be watched, or in which nothing was seen; the text says why."""


class ServedPort(NamedTuple):
    is_tcp: bool
    port: int

    def __str__(self) -> str:
        return f"{'TCP' if self.is_tcp else 'UDP'} port {self.port}"


class _BoundSocket(NamedTuple):
    served: ServedPort
    inode: str
    is_connected: bool


class WatchedProcess:
    """A process, and the CPU time that it has used since `WatchedProcess` was made, as far as it was read."""

    def __init__(self, pid: int, is_new: bool) -> None:
        self.pid = pid
        self._clock = ~pid << 3 | _CPU_CLOCK
        self.has_ended = False
        self.cpu_ns = 0
        self._start_ns = 0
        self.read_cpu()
        if not is_new:
            self._start_ns, self.cpu_ns = self.cpu_ns, 0

    def read_cpu(self) -> None:
        """Read the CPU time; if the process has ended, keep what was read last."""
        try:
            self.cpu_ns = time.clock_gettime_ns(self._clock) - self._start_ns
            # The state follows the name, which may have any characters.
            state = (_PROC / str(self.pid) / "stat").read_text().rpartition(")")[2].split()[0]
            self.has_ended = state in _ENDED
        except OSError:
            self.has_ended = True


class ServerProcesses:
    """A server's processes with their descendants. `added` has those that were found last."""

    def __init__(self, pids: tuple[int, ...]) -> None:
        self._by_pid: dict[int, WatchedProcess] = {}
        self.added: list[int] = []
        for pid in pids:
            self._add(pid, is_new=False)
        self._add_children(is_new=False)

    def refresh(self) -> None:
        """Read CPU times, and find new children."""
        self.added = []
        for process in self._by_pid.values():
            process.read_cpu()
        self._add_children(is_new=True)

    @property
    def pids(self) -> list[int]:
        return list(self._by_pid)

    @property
    def cpu_ns(self) -> int:
        return sum(process.cpu_ns for process in self._by_pid.values())

    @property
    def have_ended(self) -> bool:
        return all(process.has_ended for process in self._by_pid.values())

    def _add(self, pid: int, is_new: bool) -> None:
        self._by_pid[pid] = WatchedProcess(pid, is_new)
        self.added.append(pid)

    def _add_children(self, is_new: bool) -> None:
        parents = [pid for pid, process in self._by_pid.items() if not process.has_ended]
        while parents:
            children = [child for child in _children(parents.pop()) if child not in self._by_pid]
            for child in children:
                self._add(child, is_new)
            parents += children


def _children(pid: int) -> Iterator[int]:
    """Yield the processes that any thread of a process has started; none if it has ended."""
    with suppress(OSError):
        for thread in os.listdir(_PROC / str(pid) / "task"):
            text = (_PROC / str(pid) / "task" / thread / "children").read_text()
            yield from map(int, text.split())


def check_process(pid: int) -> None:
    # A thread has a folder in /proc, too, but its number is not that of a process.
    try:
        status = (_PROC / str(pid) / "status").read_text()
    except OSError:
        raise ProbeError(f"--pid {pid}: there is no such process") from None
    [process] = [line.split()[1] for line in status.splitlines() if line.startswith("Tgid:")]
    if int(process) != pid:
        raise ProbeError(f"--pid {pid}: expected a process, got a thread of process {process}")


def served_ports(pids: list[int], port: int | None = None) -> set[ServedPort]:
    """Return the ports at which processes serve, or this one if they do.

    At a port of TCP one of their sockets listens. At a port of UDP they have a socket; without `port`, one
    that is not connected to a peer.
    """
    found = set[ServedPort]()
    for pid in pids:
        inodes = _socket_inodes(pid)
        for socket in _bound_sockets(pid):
            if socket.inode in inodes and (
                not socket.is_connected if port is None else socket.served.port == port
            ):
                found.add(socket.served)
    return found


def processes_at(port: int) -> tuple[int, ...]:
    """Return the processes that serve at a port of this network namespace; raises ProbeError without one."""
    inodes = {socket.inode for socket in _bound_sockets(os.getpid()) if socket.served.port == port}
    pids = [int(name) for name in os.listdir(_PROC) if name.isdecimal()] if inodes else []
    serving = tuple(pid for pid in pids if inodes & _socket_inodes(pid))
    if not serving:
        raise ProbeError(
            f"--port {port}: no process listens there over TCP or has a UDP socket there, in this network "
            "namespace; in another one, give --pid"
        )
    return serving


def _socket_inodes(pid: int) -> set[str]:
    inodes = set()
    with suppress(OSError):  # the process has ended
        for descriptor in os.listdir(_PROC / str(pid) / "fd"):
            with suppress(OSError):  # the file was closed
                target = os.readlink(_PROC / str(pid) / "fd" / descriptor)
                if target.startswith(_SOCKET_LINK):
                    inodes.add(target.removeprefix(_SOCKET_LINK).rstrip("]"))
    return inodes


def _bound_sockets(pid: int) -> Iterator[_BoundSocket]:
    """Yield the listening sockets of TCP and all of UDP in a process's network namespace."""
    for name in (*_TCP_FILES, *_UDP_FILES):
        lines = []
        with suppress(OSError):  # the process has ended, or the kernel has no IPv6
            lines = (_PROC / str(pid) / "net" / name).read_text().splitlines()[1:]
        for line in lines:
            _, local, remote, state, *rest = line.split()
            is_tcp = name in _TCP_FILES
            if not is_tcp or state == _LISTEN:
                port, peer_port = (int(address.rpartition(":")[2], 16) for address in (local, remote))
                yield _BoundSocket(ServedPort(is_tcp, port), rest[5], peer_port != 0)
