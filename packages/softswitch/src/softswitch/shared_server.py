"""`python -m softswitch.shared_server FD PATH PADDING`: import and compile once, and fork switches.

FD is a listening socket, PATH its path. A connection is one switch's: a `start_request` with file
descriptors, and then {"signal": NUMBER}. The answers are {"started": PID} and {"ended": STATUS}, or
{"refused": REASON}. A switch is killed if its connection ends first. PADDING is as long as arguments of forks
may be, which are shown in its place.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import struct
import sys
import traceback
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from nativekit.forked import MOUNT, NETWORK, end_with_parent, enter_namespace, show_arguments, thread_names
from softswitch.cache import compile_lock
from softswitch.shared import VARIABLE
from softswitch.shared.command import BACKLOG, PADDING, locked
from softswitch.shared.messages import receive, send
from softswitch.verbs import prepare, run_here

IDLE_S = 10.0
"""Time in s without a switch after which the shared process ends."""
_IMPORTED = ("softswitch.cli", "softswitch.bmv2.command", "softswitch.running", "softswitch.machine")
_KINDS = (NETWORK, MOUNT)
_NETWORK_OF_INIT = "/proc/1/ns/net"


@dataclass
class ForkedSwitch:
    """A connection, and the fork of which it is; before the start request there is none."""

    connection: socket.socket
    pid: int | None = None
    pidfd: int | None = None


class ForkingServer:
    def __init__(self, listener: socket.socket, path: str) -> None:
        self._listener, self._path = listener, path
        self._switches: dict[int, ForkedSwitch] = {}
        """Descriptor -> the switch, by its connection and by its process."""

    def serve(self) -> list[str] | None:
        """Fork switches until there has been none for `IDLE_S`; in a fork, return its arguments."""
        while True:
            poll = select.poll()
            for fd in (self._listener.fileno(), *self._switches):
                poll.register(fd, select.POLLIN)
            ready = [fd for fd, _ in poll.poll(None if self._switches else IDLE_S * 1000)]
            if not ready and self._has_closed():
                return None
            for fd in ready:
                if fd == self._listener.fileno():
                    self._accept()
                elif (switch := self._switches.get(fd)) is None:
                    pass  # it has ended in this round
                elif fd == switch.pidfd:
                    self._report_end(switch)
                elif (arguments := self._receive(switch)) is not None:
                    return arguments

    def _has_closed(self) -> bool:
        """Remove the socket, unless a command holds its lock, or has connected since."""
        with locked(self._path):
            if select.select([self._listener], [], [], 0)[0]:
                return False
            for name in (self._path, f"{self._path}.log"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)
            self._listener.close()
            return True

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _, uid, _ = struct.unpack("3i", credentials)
        if uid != os.getuid():
            connection.close()
            return
        self._switches[connection.fileno()] = ForkedSwitch(connection)

    def _receive(self, switch: ForkedSwitch) -> list[str] | None:
        """Start the switch, pass a signal on, or end it; in a fork, return its arguments."""
        received = receive(switch.connection)
        if received is None:
            self._end(switch)
            return None
        message, fds = received
        if "signal" in message:
            if switch.pid is not None:
                os.kill(switch.pid, message["signal"])
            return None
        return self._start(switch, message, fds)

    def _start(self, switch: ForkedSwitch, request: dict[str, Any], fds: list[int]) -> list[str] | None:
        own_pid = os.getpid()
        try:
            if len(threads := thread_names()) > 1:
                raise OSError(f"it has {len(threads)} threads: {', '.join(threads)}")
            switch.pid = os.fork()
        except OSError as error:
            self._answer(switch, refused=error.strerror or str(error))
            return None
        finally:
            if os.getpid() == own_pid:
                for fd in fds:
                    os.close(fd)
        if switch.pid:
            switch.pidfd = os.pidfd_open(switch.pid)
            self._switches[switch.pidfd] = switch
            return None
        try:
            become_switch(own_pid, request, fds)
        except OSError as error:
            self._answer(switch, refused=error.strerror or str(error))
            os._exit(1)
        except BaseException:  # it must not go on as a second server
            traceback.print_exc()
            os._exit(1)
        self._answer(switch, started=os.getpid())
        self._listener.close()
        for fd in self._switches:
            with contextlib.suppress(OSError):  # a connection, closed as a socket
                os.close(fd)
        arguments: list[str] = request["arguments"]
        return arguments

    def _report_end(self, switch: ForkedSwitch) -> None:
        assert switch.pid is not None
        _, status = os.waitpid(switch.pid, 0)
        switch.pid = None
        self._answer(switch, ended=os.waitstatus_to_exitcode(status))
        self._end(switch)

    def _answer(self, switch: ForkedSwitch, **message: object) -> None:
        with contextlib.suppress(OSError):  # its command has ended
            send(switch.connection, None, **message)

    def _end(self, switch: ForkedSwitch) -> None:
        if switch.pid is not None:
            os.kill(switch.pid, signal.SIGKILL)
            os.waitpid(switch.pid, 0)
        if switch.pidfd is not None:
            del self._switches[switch.pidfd]
            os.close(switch.pidfd)
        del self._switches[switch.connection.fileno()]
        switch.connection.close()


def become_switch(parent: int, request: dict[str, Any], fds: list[int]) -> None:
    """Take over what a command has sent; raises OSError."""
    end_with_parent(parent)
    os.setsid()
    for standard_fd, fd in enumerate(fds[:3]):
        os.dup2(fd, standard_fd)
    for fd, kind, name in zip(fds[3:], _KINDS, ("net", "mnt"), strict=True):
        if not os.path.sameopenfile(fd, own := os.open(f"/proc/self/ns/{name}", os.O_RDONLY)):
            enter_namespace(fd, kind)
        os.close(own)
    for fd in fds:
        os.close(fd)
    os.chdir(request["folder"])
    os.umask(request["umask"])
    os.sched_setaffinity(0, request["cpus"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.environ.pop(VARIABLE, None)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=stream.isatty() or stream is sys.stderr)  # type: ignore[union-attr]  # both are text streams
    show_arguments(["softswitch", *request["arguments"]])


def main(fd: int, path: str) -> list[str] | None:
    """Serve at a listening socket; in a fork, return the arguments of the switch that it is to be."""
    prepare()
    gc.disable()
    for module in _IMPORTED:
        import_module(module)
    from softswitch.ports.sockets import use_small_rings  # not before `prepare`: they import numba
    from softswitch.warm import is_cold, warm

    with compile_lock() if is_cold() else contextlib.nullcontext():
        warm()
    # Forks share the memory of what exists now, unless they write to it as the collector would.
    use_small_rings()
    gc.collect()
    gc.freeze()
    _leave_network_namespace()
    os.chdir("/")
    show_arguments(["softswitch: process that switches share", PADDING[:1]])
    listener = socket.socket(fileno=fd)
    listener.listen(BACKLOG)  # again, so that its credentials are this process's
    return ForkingServer(listener, path).serve()


def _leave_network_namespace() -> None:
    """Enter that of the machine: the namespace of the first switch would live as long as this process."""
    with contextlib.suppress(OSError):  # without privileges; then switches of other namespaces are refused
        namespace = os.open(_NETWORK_OF_INIT, os.O_RDONLY)
        try:
            enter_namespace(namespace, NETWORK)
        finally:
            os.close(namespace)


if __name__ == "__main__":
    arguments = main(int(sys.argv[1]), sys.argv[2])
    if arguments is not None:
        gc.enable()
        sys.argv[1:] = arguments
        run_here()
