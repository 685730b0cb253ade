"""`python -m hotline_paper.connections.server`: a PS with four ways to wait for requests."""

from __future__ import annotations

import os
import select
import socket
import time

from foundation.errors import HotlineError
from hosts.agent import Commands
from hosts.keys import KeySpace
from hosts.sockets import Address, open_udp
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.ps.compiled_loop import make_sources
from hotline_agents.ps.service_time import make_service
from hotline_agents.udp import BURST, make_udp
from hotline_paper.connections.process import Handlers, ProcessConfig, make_command
from hotline_paper.connections.waiting import COMMAND, LOOPS, WAYS, WaitSet, make_poll_fds


class ServerConfig(ProcessConfig):
    port: int


class ServerProcess:
    def __init__(self, config: ServerConfig, commands: Commands) -> None:
        self._config = config
        self._commands = commands
        self._core: ParameterServer[Address] = ParameterServer(
            ps=0, n_ps=1, space=KeySpace(1), epochs={config.job: config.epoch}, clock=time.monotonic_ns
        )
        self._udp = make_udp()
        self._service = make_service()
        self._sockets: list[socket.socket] = []
        self._epoll = select.epoll()
        self._wait_set: WaitSet | None = None
        self._loop = LOOPS["epoll"]
        self.warm_up()

    def listen(self, way: str, peers: list[tuple[str, int]]) -> dict[str, object]:
        if way not in WAYS:
            raise HotlineError(f"way {way!r}: expected one of {', '.join(WAYS)}")
        self.close()
        local_address = (self._config.address, self._config.port)
        if way == "shared":
            self._sockets.append(open_udp(local_address))
        else:
            for host, port in peers:
                sock = open_udp(local_address, shared=True)
                self._sockets.append(sock)
                sock.connect((host, port))
        self._wait_set = self._make_wait_set([each.fileno() for each in self._sockets], self._commands.fd)
        self._loop = LOOPS[way]
        return {"sockets": len(self._sockets)}

    def warm_up(self) -> None:
        """Compile all loops, or load their machine code, before callers wait for answers."""
        read_fd, write_fd = os.pipe()
        os.write(write_fd, b"\n")  # as a waiting command does, it makes each loop return at once
        wait_set = self._make_wait_set([], read_fd)
        for loop in LOOPS.values():
            loop(self._core.server.state, self._service, self._udp, wait_set)
        for fd in (read_fd, write_fd):
            os.close(fd)

    def _make_wait_set(self, sockets: list[int], command_fd: int) -> WaitSet:
        self._epoll.close()
        self._epoll = select.epoll()
        for fd in (*sockets, command_fd):
            self._epoll.register(fd, select.EPOLLIN)
        sources = make_sources(self._epoll.fileno())
        sources.state.commands = command_fd
        return WaitSet(make_poll_fds([*sockets, command_fd]), sources)

    def close(self) -> None:
        self._epoll.close()
        for each in self._sockets:
            each.close()
        self._sockets.clear()

    def stats(self) -> dict[str, object]:
        counters = self._core.server.counters[self._config.job]
        return {"cpu_s": time.process_time(), "rpcs": int(counters.rpcs)}

    def handlers(self) -> Handlers:
        return {"listen": self.listen, "stats": self.stats}

    def wait(self) -> None:
        if self._wait_set is None:
            select.select([self._commands.fd], [], [])
        else:
            while self._loop(self._core.server.state, self._service, self._udp, self._wait_set) != COMMAND:
                self._core.server.make_room(BURST)
                self._core.server.take_full_logs()
        self._commands.read()


if __name__ == "__main__":
    make_command("Serve empty RPCs.", ServerConfig, ServerProcess)()
