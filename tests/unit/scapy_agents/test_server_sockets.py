"""The sockets of a server of Scapy."""

from __future__ import annotations

import os
import socket
from contextlib import closing

from foundation.protocol.addressing import worker_udp_port
from foundation.protocol.header import HOTLINE_PORT, Op
from hosts.agent import Commands
from hosts.agent_config import ServerCost
from hosts.scapy.packets import Address
from hosts.scapy.server import ScapyServer
from hosts.scapy.server_process import ScapyServerSockets
from switch_harness.waiting import PATIENCE_S
from tests.harness.wire import rpc

NET = f"127.87.{os.getpid() % 250}"
"""Addresses of this process; other processes run tests at the same time."""
OWN, SERVICE = Address(f"{NET}.201", HOTLINE_PORT), Address(f"{NET}.202", HOTLINE_PORT)
WORKER = (f"{NET}.1", worker_udp_port(1))


def test_only_a_worker_of_the_run_gets_a_connected_socket() -> None:
    server = ScapyServer(0, 1, range(10), {1: 1}, OWN, SERVICE)
    sockets = ScapyServerSockets(server, OWN, SERVICE, [WORKER], ServerCost())
    input_fd, output_fd = os.pipe()
    commands = Commands(input_fd)

    def call(address: tuple[str, int], turn: int) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(address)
            sock.settimeout(PATIENCE_S)
            sock.sendto(rpc(Op.EMPTY, job=1, worker=1, epoch=1, seq=64 * turn), OWN)
            sockets._run_once(commands)
            assert sock.recv(2048)

    with closing(sockets):
        before = len(os.listdir("/proc/self/fd"))
        for turn in range(1, 20):
            call((f"{NET}.2", 0), turn)  # from a new port each time
        assert len(os.listdir("/proc/self/fd")) == before
        for turn in (20, 21):
            call(WORKER, turn)
        assert len(os.listdir("/proc/self/fd")) == before + 1
    os.close(input_fd)
    os.close(output_fd)
