"""A switch's command as seen by who starts it: it forwards signals to the fork, and ends with it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

from softswitch.shared.messages import NAMESPACES, receive, send, start_request
from softswitch.shared.place import socket_path

PADDING = "-" * 400
"""Argument of the shared process that makes room for the arguments of its forks."""
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_ENDING: dict[int, int] = {signal.SIGINT: 0, signal.SIGTERM: 0, signal.SIGHUP: -signal.SIGHUP}
"""Signal -> status of a switch that it ends while it compiles."""
_NOTICE_S = 2.0
BACKLOG = 128


def run(arguments: Sequence[str]) -> int | None:
    """Run a switch as a fork of the shared process; return its exit status, negative for a signal.

    Return None if it was not started: this process can then be the switch itself.
    """
    with contextlib.ExitStack() as stack:
        wakeups = stack.enter_context(_signal_numbers())
        try:
            connection = stack.enter_context(_connect(socket_path()))
            namespaces = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in NAMESPACES]
            for fd in namespaces:
                stack.callback(os.close, fd)
            send(connection, [0, 1, 2, *namespaces], **start_request(list(arguments)))
        except OSError as error:
            _say_why_not(error.strerror or str(error))
            return None
        return _wait(connection, wakeups)


def _wait(connection: socket.socket, wakeups: socket.socket) -> int | None:
    """Forward signals until the fork has ended; one that comes before it has started ends the command."""
    is_started = is_noted = False
    poll = select.poll()
    for each in (connection, wakeups):
        poll.register(each, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll(_NOTICE_S * 1000 if not is_started and not is_noted else None)}
        if not ready and not is_noted:
            is_noted = True
            print(
                "softswitch: waiting for the process that switches share, which imports or compiles",
                file=sys.stderr, flush=True,
            )  # fmt: skip
        if wakeups.fileno() in ready:
            for number in wakeups.recv(64):
                if not is_started and number in _ENDING:
                    return _ENDING[number]
                with contextlib.suppress(OSError):  # the end of the connection says more
                    send(connection, signal=number)
        if connection.fileno() in ready:
            if (received := receive(connection)) is None:
                if is_started:
                    sys.exit("softswitch: error: the process that switches share has ended, with this switch")
                _say_why_not("it has ended")
                return None
            message, _ = received
            if "refused" in message:
                _say_why_not(message["refused"])
                return None
            if "ended" in message:
                return int(message["ended"])
            is_started = True


def _say_why_not(reason: str) -> None:
    print(f"softswitch: this switch shares no process with others: {reason}", file=sys.stderr, flush=True)


def end_as(status: int) -> None:
    """End this process as the fork has ended: with its exit status, or by its signal."""
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


@contextlib.contextmanager
def _signal_numbers() -> Iterator[socket.socket]:
    """Yield a socket to which the numbers of signals are written, as bytes, instead of their effect."""

    def handle(number: int, frame: FrameType | None) -> None: ...

    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)
        previous_fd = signal.set_wakeup_fd(writer.fileno())
        previous = {number: signal.signal(number, handle) for number in _FORWARDED}
        try:
            yield reader
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(previous_fd)


def _connect(path: str) -> socket.socket:
    """Connect to the shared process, which is started if there is none; raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        if not _is_connected(connection, path):
            with locked(path):
                if not _is_connected(connection, path):
                    _start(path)
                    connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_connected(connection: socket.socket, path: str) -> bool:
    try:
        connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    return True


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock of a socket: only its holder makes or removes the socket."""
    with open(f"{path}.lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start(path: str) -> None:
    """Start the shared process, which takes connections from now on and answers once it is ready."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(BACKLOG)
        listener.set_inheritable(True)
        arguments = ["-m", "softswitch.shared_server", str(listener.fileno()), path, PADDING]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        # Not by subprocess, which would be a third of a command's memory.
        os.posix_spawn(
            sys.executable,
            [sys.executable, *arguments],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, f"{path}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
