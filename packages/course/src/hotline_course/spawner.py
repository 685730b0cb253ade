"""Starts the processes of submissions by one server that forks them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress

from hotline_course.errors import CannotCheck

_THREADS = {f"{name}_NUM_THREADS": "1" for name in ("MKL", "NUMBA", "OMP", "OPENBLAS")}


class Spawner:
    """A fork server that is started by the first `spawn`, and again if it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def spawn(self, requests: int, answers: int) -> None:
        """Start a child that reads from one pipe and writes to the other; raise `CannotCheck` on failure."""
        with self._lock:
            for _ in range(2):
                control = self._control or self._start()
                with suppress(OSError):
                    socket.send_fds(control, [b"+"], [requests, answers])
                    return
                self._stop()
        raise CannotCheck("the server of child processes has ended")

    def why_ended(self) -> str:
        """Return the last line that the server has written, once it has ended; "" while it lives."""
        with self._lock:
            if self._process is None or self._process.poll() is None:
                return ""
            assert self._process.stderr is not None
            lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
            self._stop()
            return lines[-1] if lines else "the server of child processes has ended"

    def _start(self) -> socket.socket:
        self._control, server_end = socket.socketpair()
        environment = {
            "PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **_THREADS,
            "PYTHONPATH": os.pathsep.join(os.path.abspath(each) for each in sys.path if each),
        }  # fmt: skip
        with server_end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hotline_course.fork_server", str(server_end.fileno())],
                env=environment, cwd="/", pass_fds=(server_end.fileno(),), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
        return self._control

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stderr is not None:
                self._process.stderr.close()
        self._control = self._process = None


SPAWNER = Spawner()
