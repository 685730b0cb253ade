"""`python -c` without its start: each program is a fork of one process, which has loaded the machine code."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import hotline
from switch_harness.waiting import PATIENCE_S
from tests.harness.children import child

_MESSAGE_BYTES = 1 << 16
_READ_BYTES = 1 << 16


class ForkedProgram:
    """A program under way, with as much of `subprocess.Popen` as tests need."""

    def __init__(self, server: socket.socket, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self._server = server
        self.pid = pid
        self.returncode: int | None = None
        self._stdin, self._outputs = stdin, {"stdout": stdout, "stderr": stderr}

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def read_line(self) -> str:
        """Return the next line of the program's standard output."""
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._outputs["stdout"]], [], [], PATIENCE_S)
            byte = os.read(ready[0], 1) if ready else b""
            assert byte, f"expected a line, got {line!r}"
            line += byte
        return line.decode()

    def communicate(self, text: str = "") -> tuple[str, str]:
        """Send the program a text; return the rest of its standard output, and its errors, at its end."""
        os.write(self._stdin, text.encode())
        self._close_stdin()
        read = {descriptor: b"" for descriptor in self._outputs.values()}
        open_outputs, deadline = set(read), time.monotonic() + PATIENCE_S
        while open_outputs:
            ready, _, _ = select.select([*open_outputs], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"the program has not ended within {PATIENCE_S:g} s: {read}"
            for descriptor in ready:
                more = os.read(descriptor, _READ_BYTES)
                read[descriptor] += more
                open_outputs -= set() if more else {descriptor}
        self._wait()
        return read[self._outputs["stdout"]].decode(), read[self._outputs["stderr"]].decode()

    def end(self) -> None:
        """Kill the program if it has not ended."""
        if self.returncode is None:
            self.send_signal(signal.SIGKILL)
            self._wait()
        self._close_stdin()
        for descriptor in self._outputs.values():
            os.close(descriptor)

    def _wait(self) -> None:
        self.returncode = json.loads(self._server.recv(_MESSAGE_BYTES))

    def _close_stdin(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
        self._stdin = -1


class WarmPython:
    def __init__(self, server: socket.socket) -> None:
        self._server = server

    @contextmanager
    def started(self, code: str, variables: Mapping[str, str]) -> Iterator[ForkedProgram]:
        """Start `python -c CODE` with these environment variables, too; kill it at the end."""
        pipes = [os.pipe() for _ in range(3)]
        (program_in, stdin), (stdout, program_out), (stderr, program_err) = pipes
        given = [program_in, program_out, program_err]
        socket.send_fds(self._server, [json.dumps([code, dict(variables)]).encode()], given)
        for descriptor in given:
            os.close(descriptor)
        program = ForkedProgram(
            self._server, json.loads(self._server.recv(_MESSAGE_BYTES)), stdin, stdout, stderr
        )
        try:
            yield program
        finally:
            program.end()


@contextmanager
def warm_python(rendezvous: Path) -> Iterator[WarmPython]:
    """Start the process that programs are forks of; its worker joins the rendezvous, and leaves it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ExitStack() as stack, ours:
        with theirs:
            # Of `-c`, unlike of `-m`, an interrupt that nothing handles is the status.
            program = f"from tests.harness.warm_python import serve; serve({theirs.fileno()})"
            options: dict[str, Any] = {"pass_fds": [theirs.fileno()], "stdin": subprocess.DEVNULL}
            environment = {**os.environ, "HOTLINE_CONNECT": str(rendezvous)}
            stack.enter_context(child([sys.executable, "-c", program], env=environment, **options))
        yield WarmPython(ours)


def serve(descriptor: int) -> None:
    """Fork for each message; a fork returns from here when its program has ended."""
    with hotline.Worker({"rows": (1, 1)}, scale=1.0) as kv:  # load the machine code before the first fork
        out = np.zeros(1, np.float32)
        kv.wait(kv.push_pull(np.arange(1), out, out))
    gc.freeze()  # or each fork would search these objects for garbage at its end, and copy their memory
    with socket.socket(fileno=descriptor) as server:
        while True:
            message, given, _, _ = socket.recv_fds(server, _MESSAGE_BYTES, 3)
            if not message:
                return
            if (pid := os.fork()) == 0:
                break
            for each in given:
                os.close(each)
            server.send(json.dumps(pid).encode())
            _, status = os.waitpid(pid, 0)
            server.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())
    for standard, each in enumerate(given):
        os.dup2(each, standard)
        os.close(each)
    code, variables = json.loads(message)
    os.environ.update(variables)
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
