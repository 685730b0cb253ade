"""A worker's line to whom holds workers together: requests and their answers, and news of what is gone."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from hotline.kv.errors import Gone, NotUp
from topologies.rendezvous import DEFAULT_SOCKET, SOCKET_VARIABLE

Message = dict[str, Any]
_CONNECT_S = 5.0


def place_of(connect: str | os.PathLike[str] | None = None) -> Path:
    """Path of the socket: what is given, or HOTLINE_CONNECT, or where `hotline up` puts it."""
    return Path(connect or os.environ.get(SOCKET_VARIABLE) or DEFAULT_SOCKET)


class Connection:
    """A thread of its own reads; `on_gone` is called on it when training cannot go on."""

    def __init__(self, place: Path, on_gone: Callable[[Gone], None] = lambda gone: None) -> None:
        self._place = place
        self._on_gone = on_gone
        self._socket = _connected(place)
        self._answered = threading.Condition()
        self._answers: dict[int, Message] = {}
        self._asked = 0
        self._gone: Gone | None = None
        self._is_closed = False
        self.orders: SimpleQueue[Message | None] = SimpleQueue()
        """What a run has the worker do, and None at the end."""
        self._reading = threading.Thread(target=self._read, name="hotline-news", daemon=True)
        self._reading.start()

    def ask(self, command: str, **values: object) -> Message:
        """Send a request and wait for its answer; raises `NotUp` where it is refused, and `Gone`.

        Ctrl-C ends the wait.
        """
        with self._answered:
            self._asked += 1
            number = self._asked
            self._send({"id": number, "cmd": command, **values})
            while number not in self._answers:
                if self._gone is not None:
                    raise self._gone
                self._answered.wait()
            answer = self._answers.pop(number)
        if "error" in answer:
            raise (Gone if answer.get("gone") else NotUp)(answer["error"])
        return answer

    def tell(self, command: str, **values: object) -> None:
        """Send what nobody answers."""
        with self._answered:
            self._send({"cmd": command, **values})

    def close(self) -> None:
        """End the line."""
        self._is_closed = True
        with suppress(OSError):  # the other side has ended it
            self._socket.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._reading:
            self._reading.join()

    def _send(self, message: Message) -> None:
        if self._gone is not None:
            raise self._gone
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            raise self._lost() from None

    def _read(self) -> None:
        with suppress(OSError, ValueError), self._socket, self._socket.makefile("rb") as lines:
            for line in lines:
                self._take(json.loads(line))
        self._end(self._lost())

    def _take(self, message: Message) -> None:
        if "id" in message:
            with self._answered:
                self._answers[message["id"]] = message
                self._answered.notify_all()
        elif "order" in message:
            self.orders.put(message)
        elif "gone" in message:
            self._end(Gone(message["gone"]))

    def _lost(self) -> Gone:
        return Gone(
            f"what held the workers together at {self._place} has ended, with servers and what was trained; "
            "`sudo ./hotline up` starts it again"
        )

    def _end(self, gone: Gone) -> None:
        with self._answered:
            if self._gone is not None:
                return
            self._gone = gone
            self._answered.notify_all()
        if not self._is_closed:
            self._on_gone(gone)


def _connected(place: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(_CONNECT_S)
        sock.connect(str(place))
        sock.settimeout(None)
    except OSError as error:
        sock.close()
        raise NotUp(
            f"nobody waits for workers at {place} ({error.strerror or error}): run `sudo ./hotline up`, "
            f"or name its socket by connect= or {SOCKET_VARIABLE}"
        ) from None
    return sock
