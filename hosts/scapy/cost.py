"""Measure the CPU time of an RPC at a worker and a server of Scapy, without sockets and without a switch."""

from __future__ import annotations

import time

from hosts.rpc_cost import RpcCost
from hosts.scapy.packets import LANES, Address, datagram_of, packet_of
from hosts.scapy.server import ScapyServer
from hosts.scapy.worker import ScapyWorker

_JOB, _EPOCH = 0, 0
_WORKER, _SERVER = Address("10.0.1.1", 20_000), Address("10.0.2.1", 5001)


def measure_scapy_cost(window: int, rpcs: int) -> RpcCost:
    """Return the mean cost of a full RPC, of pulls and pushes alike, from keys to bytes and back."""
    keys = range(LANES * rpcs // 2)
    worker = ScapyWorker(_JOB, 1, _EPOCH, _WORKER, [_SERVER], window)
    server = ScapyServer(0, 1, keys, {_JOB: _EPOCH}, _SERVER, _SERVER)
    worker_s = server_s = 0.0
    for is_push in (False, True):
        begin = time.thread_time()
        packets = worker.push(1, dict.fromkeys(keys, (1,)), set(), 0) if is_push else worker.pull(1, keys, 0)
        requests = [datagram_of(packet) for packet in packets]
        worker_s += time.thread_time() - begin
        while requests:
            begin = time.thread_time()
            answers = [
                datagram_of(answer)
                for request in requests
                for answer in server.handle(packet_of(request, _WORKER, _SERVER), 0)
            ]
            middle = time.thread_time()
            requests = [
                datagram_of(packet)
                for answer in answers
                for packet in worker.handle(packet_of(answer, _SERVER, _WORKER), 0)
            ]
            server_s += middle - begin
            worker_s += time.thread_time() - middle
    return RpcCost(worker_us=worker_s / rpcs * 1e6, server_us=server_s / rpcs * 1e6)
