"""A worker's connection to the rendezvous: requests, answers, commands, and notices of lost processes."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from foundation.concurrency import InterruptibleCondition
from foundation.errors import HotlineError
from hotline_scripts.lines import Message, encode_line
from topologies.script_command import SOCKET_VARIABLE

log = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 5.0


class NotConnected(HotlineError):
    """No rendezvous listens at the socket, or it refuses the worker."""


class ClusterLost(HotlineError):
    """A worker, a server, the switch or the rendezvous has ended, so training cannot go on."""


class Connection:
    """A connection with a reader thread, which calls `on_lost` when training cannot go on."""

    def __init__(self, path: Path, on_lost: Callable[[ClusterLost], None] = lambda error: None) -> None:
        self._path = path
        self._on_lost = on_lost
        self._socket = _connect(path)
        self._condition = InterruptibleCondition()
        self._answers: dict[int, Message | None] = {}
        """The answer to each request that is waited for; None until it comes."""
        self._last_id = 0
        self._error: ClusterLost | None = None
        self._is_closed = False
        self.commands: SimpleQueue[Message | None] = SimpleQueue()
        """Commands from the rendezvous during a run; None ends their listener."""
        self._reader = threading.Thread(target=self._read, name="hotline-connection", daemon=True)
        self._reader.start()

    def ask(self, command: str, timeout_s: float | None = None, **values: object) -> Message:
        """Send a request and return its answer.

        Raises `NotConnected` if the request is refused, and `ClusterLost` if a process has ended or no answer
        comes within `timeout_s`. Ctrl-C ends the wait. Then, as after a timeout, the request is withdrawn.
        """
        with self._condition:
            self._last_id += 1
            request_id = self._last_id
            self._answers[request_id] = None
            try:
                self._send({"id": request_id, "cmd": command, **values})
                while (answer := self._answers[request_id]) is None:
                    if self._error is not None:
                        raise self._error
                    if not self._condition.wait(timeout_s):
                        raise ClusterLost(f"no answer to {command!r} from {self._path} in {timeout_s:.0f} s")
            except BaseException:
                with suppress(ClusterLost):
                    self._send({"cmd": "cancel", "request": request_id})
                raise
            finally:
                del self._answers[request_id]
        if "error" in answer:
            raise (ClusterLost if answer.get("gone") else NotConnected)(answer["error"])
        return answer

    def send(self, command: str, **values: object) -> None:
        with self._condition:
            self._send({"cmd": command, **values})

    def close(self) -> None:
        self._is_closed = True
        with suppress(OSError):  # the other side has closed it
            self._socket.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def abandon(self) -> None:
        """Release the socket in a forked process, where the connection still is the parent's."""
        release(self._socket)

    def _send(self, message: Message) -> None:
        # The caller holds `_condition`.
        if self._error is not None:
            raise self._error
        line = encode_line(message)
        try:
            self._socket.sendall(line)
        except OSError:
            raise self._rendezvous_error() from None

    def _read(self) -> None:
        # Whatever ends this thread, requests under way must not wait for ever.
        try:
            with suppress(OSError, ValueError), self._socket, self._socket.makefile("rb") as lines:
                for line in lines:
                    self._dispatch(json.loads(line))
        finally:
            self._fail(self._rendezvous_error())

    def _dispatch(self, message: Message) -> None:
        if "id" in message:
            with self._condition:
                if message["id"] in self._answers:  # and not withdrawn
                    self._answers[message["id"]] = message
                    self._condition.notify_all()
        elif "command" in message:
            self.commands.put(message)
        elif "note" in message:
            log.warning("%s", message["note"])
        elif "error" in message:
            log.error("%s", message["error"])
        elif "gone" in message:
            self._fail(ClusterLost(message["gone"]))

    def _rendezvous_error(self) -> ClusterLost:
        return ClusterLost(
            f"the rendezvous at {self._path} has ended, with the servers and the trained values; "
            "`sudo ./hotline up` starts it again"
        )

    def _fail(self, error: ClusterLost) -> None:
        with self._condition:
            if self._error is not None:
                return
            self._error = error
            self._condition.notify_all()
        if not self._is_closed:
            self._on_lost(error)


def release(sock: socket.socket) -> None:
    """Close this process's file descriptor of a socket that another process uses."""
    with suppress(OSError):  # it has been closed
        os.close(sock.detach())


def _connect(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(_CONNECT_TIMEOUT_S)
        sock.connect(str(path))
        sock.settimeout(None)
    except (OSError, ValueError) as error:  # `ValueError`: a name that no file can have
        sock.close()
        reason = getattr(error, "strerror", None) or error
        raise NotConnected(
            f"no rendezvous listens at {path} ({reason}): run `sudo ./hotline up`, "
            f"or name its socket by connect= or {SOCKET_VARIABLE}"
        ) from None
    return sock
