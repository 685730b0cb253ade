"""`python -m hotline_agents.fork_server FD DESIGN PADDING`: import agents and their code, and fork them.

FD is a SOCK_SEQPACKET socket, of which `topologies.agent_launcher` has the other end. A request is a
`StartRequest` in JSON, with the file descriptors of the agent's standard streams and of its network
namespace, or {"kill": PID}. The answer has the request's number, and a pid or an error; the end of a process
is {"ended": PID, "code": CODE}. After the end of the socket, this process ends with its last agent. PADDING
is text as long as the arguments of agents, which are shown in its place.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module

from foundation.errors import HotlineError
from hosts.start_request import MAX_REQUEST_BYTES, StartRequest
from nativekit.forked import NETWORK, end_with_parent, enter_namespace, show_arguments, thread_names

_AGENTS = ("hotline_agents.worker.__main__", "hotline_agents.ps.__main__")
_MAX_FDS = 4  # standard streams and a network namespace


class ForkServerError(HotlineError): ...


class ForkServer:
    """The parent of the agents.

    A forked process has only the thread that forks, and what other threads have locked remains locked in it.
    So nothing may start threads but imports: Polars starts one that waits, and its pool only at the first
    query.
    """

    def __init__(self, connection: socket.socket, threads_of_imports: int) -> None:
        self._connection, self._threads_of_imports = connection, threads_of_imports
        self._pids: dict[int, int] = {}
        """Descriptor of a process (pidfd_open(2)) -> its id, for processes that have not been waited for."""

    def serve(self) -> StartRequest | None:
        """Start agents until the connection and all agents have ended; in an agent, return its request."""
        is_open = True
        while is_open or self._pids:
            poll = select.poll()
            for fd in (*([self._connection.fileno()] if is_open else []), *self._pids):
                poll.register(fd, select.POLLIN)
            for fd, _ in poll.poll():
                if fd in self._pids:
                    self._report_end(fd)
                elif (request := self._receive()) is None:
                    is_open = False
                elif (agent := self._execute(*request)) is not None:
                    return agent
        return None

    def _receive(self) -> tuple[bytes, list[int]] | None:
        try:
            message, fds, _, _ = socket.recv_fds(self._connection, MAX_REQUEST_BYTES, _MAX_FDS)
        except ConnectionError:
            return None
        return (message, fds) if message else None

    def _execute(self, message: bytes, fds: list[int]) -> StartRequest | None:
        values = json.loads(message)
        if "kill" in values:
            if values["kill"] in self._pids.values():
                os.kill(values["kill"], signal.SIGKILL)
            return None
        request = StartRequest(**values)
        try:
            return self._start(request, fds)
        except (HotlineError, OSError) as error:
            self._send(number=request.number, error=str(error))
            return None

    def _start(self, request: StartRequest, fds: list[int]) -> StartRequest | None:
        own_pid = os.getpid()
        try:
            if len(threads := thread_names()) > (limit := self._threads_of_imports):
                found = f"{len(threads)}: {', '.join(threads)}"
                raise ForkServerError(f"fork server: expected at most {limit} threads, found {found}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with several threads
                pid = os.fork()
            if pid:
                self._pids[os.pidfd_open(pid)] = pid
                self._send(number=request.number, pid=pid)
                return None
        finally:
            if os.getpid() == own_pid:
                for fd in fds:
                    os.close(fd)
        try:
            self._become_agent(own_pid, request, fds)
        except BaseException:  # it must not go on as a second server
            traceback.print_exc()
            os._exit(1)
        return request

    def _become_agent(self, parent: int, request: StartRequest, fds: list[int]) -> None:
        end_with_parent(parent)
        os.setsid()
        self._connection.close()
        for fd in self._pids:
            os.close(fd)
        for standard_fd, fd in enumerate(fds[:3]):
            os.dup2(fd, standard_fd)
        for namespace in fds[3:]:
            enter_namespace(namespace, NETWORK)
        for fd in fds:
            os.close(fd)
        show_arguments([sys.executable, "-m", request.module, *request.arguments])

    def _report_end(self, fd: int) -> None:
        pid = self._pids.pop(fd)
        os.close(fd)
        _, status = os.waitpid(pid, 0)
        self._send(ended=pid, code=os.waitstatus_to_exitcode(status))

    def _send(self, **message: object) -> None:
        with suppress(OSError):  # the other end is gone
            self._connection.send(json.dumps(message).encode())


def main(fd: int, design: str, not_inherited: Iterable[str] = ()) -> None:
    """Start agents, which do not inherit the environment variables `not_inherited`."""
    show_arguments([sys.executable, "-m", "hotline_agents.fork_server", str(fd), design])
    gc.disable()
    # Not above, since those that start this process import this module.
    from hotline_agents.warm import warm

    for module in _AGENTS:
        import_module(module)
    gc.freeze()  # what was imported stays: never search it
    gc.enable()
    threads_of_imports = len(thread_names())
    warm(design)
    # Only now have libraries read the variables: compilation, which `warm` may need, imports SciPy, whose
    # OpenBLAS starts threads unless OPENBLAS_NUM_THREADS forbids it.
    for name in not_inherited:
        del os.environ[name]
    # Agents share the memory of what exists now, unless they write to it as the collector would.
    gc.collect()
    gc.freeze()
    request = ForkServer(socket.socket(fileno=fd), threads_of_imports).serve()
    if request is not None:
        sys.argv = [request.module, *request.arguments]
        runpy.run_module(request.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
