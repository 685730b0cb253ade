"""`python -m hosts.scapy.server_process --config FILE`: a parameter server of Scapy, commanded by JSON lines.

It has the commands, files and logs of a compiled server's process. `ScapyServerSockets` has the loop.
"""

from __future__ import annotations

import gc
import heapq
import logging
import resource
import selectors
import socket
import sys
import time
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path

import click
import numpy as np
from scapy.packet import Packet

from foundation.designs.registry import design
from foundation.errors import DataError, HotlineError
from foundation.logs import collector
from foundation.logs.parts import save_arrays
from hosts.agent import (
    Commands,
    execute,
    load_config,
    prepare_process,
    print_json,
    run_queue_ns,
    write_when_there_is_room,
)
from hosts.agent_config import AgentConfigError, ServerCost
from hosts.ps_config import PsConfig
from hosts.scapy import refusal
from hosts.scapy.logs import ServerLog
from hosts.scapy.packets import (
    HOTLINE_PORT,
    PS_RPC_PORT,
    RESPONSE,
    Address,
    Hotline,
    Op,
    datagram_of,
    destination_of,
    packet_of,
    source_of,
    stamp,
)
from hosts.scapy.server import ScapyServer
from hosts.sockets import Receiver, clock_offset, open_connected_udp, open_udp, send

log = logging.getLogger(__name__)
clock = time.monotonic_ns
_NS_PER_S = 1e9
_MAX_WAIT_S = 1.0


class ServiceTime:
    """An emulated service time: an answer is held until a server with these costs would have sent it."""

    def __init__(self, cost: ServerCost) -> None:
        self._cost = cost
        self._free_at = [0] * cost.cores  # when each core is free, in ns
        self._held: list[tuple[int, int, bytes, Address]] = []  # heap: when due, order, datagram, destination
        self._order = count()

    @property
    def is_emulated(self) -> bool:
        return bool(self._cost.ns_per_rpc or self._cost.ns_per_lane)

    def hold(self, datagram: bytes, destination: Address, arrival: int, read: int, lanes: int) -> int:
        """Hold an answer while a core works on it, and stamp it; return that time in ns."""
        core = self._free_at.index(min(self._free_at))
        start, ns = max(read, self._free_at[core]), self._cost.ns_per_rpc + lanes * self._cost.ns_per_lane
        self._free_at[core] = start + ns
        answer = stamp(datagram, ns, start - arrival)
        heapq.heappush(self._held, (start + ns, next(self._order), answer, destination))
        return ns

    def due(self) -> int | None:
        return self._held[0][0] if self._held else None

    def take_due(self, now: int) -> list[tuple[bytes, Address]]:
        answers = []
        while self._held and self._held[0][0] <= now:
            answers.append(heapq.heappop(self._held)[2:])
        return answers


class ScapyServerSockets:
    """The sockets of a server; workers at `connected` addresses have one each (Pan et al. §3)."""

    def __init__(
        self,
        server: ScapyServer,
        own_address: Address,
        service: Address,
        connected: Collection[tuple[str, int]],
        cost: ServerCost,
    ) -> None:
        self._server, self._address = server, own_address
        self._service_time = ServiceTime(cost)
        self._selector = selectors.DefaultSelector()
        self._unconnected_workers = set(connected)
        self._data_socket = self._add(open_udp(own_address, shared=True), own_address)
        own_rpcs = Address(own_address.ip, PS_RPC_PORT)
        self._rpc_socket = self._add(open_udp(own_rpcs, source_port=service.port), own_rpcs)

    def _add(self, sock: socket.socket, local: Address) -> socket.socket:
        receiver = Receiver(sock)
        self._selector.register(sock, selectors.EVENT_READ, lambda: self._receive(receiver, local))
        return sock

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()

    def run_until_command(self, commands: Commands) -> None:
        self._selector.register(commands.fd, selectors.EVENT_READ, commands.read)
        try:
            while not self._run_once(commands):
                pass
        finally:
            self._selector.unregister(commands.fd)

    def _run_once(self, commands: Commands) -> bool:
        """Wait for datagrams, and handle them; return whether a command has come."""
        dues = [due for due in (self._server.deadline(), self._service_time.due()) if due is not None]
        timeout_s = max(min(dues) - clock(), 0) / _NS_PER_S if dues else _MAX_WAIT_S
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            key.data()
        self._send(self._server.wake(clock()))
        for datagram, destination in self._service_time.take_due(clock()):
            send(self._data_socket, datagram, destination)
        return any(key.fd == commands.fd for key, _ in ready)

    def _receive(self, receiver: Receiver, local: Address) -> None:
        while (received := receiver.receive()) is not None:
            cpu_start_ns = time.thread_time_ns()
            packet = packet_of(received.datagram, Address(*received.source), local)
            packet.time = received.arrival
            for answer in self._server.handle(packet, received.read):
                if answer[Hotline].op == Op.CONTROL or not answer[Hotline].flags & RESPONSE:
                    self._send([answer])
                else:
                    self._answer(packet, answer, received.arrival, received.read, cpu_start_ns)

    def _answer(self, request: Packet, answer: Packet, arrival: int, read: int, cpu_start_ns: int) -> None:
        """Stamp the answer to a worker with the two times of the request here, and send it."""
        rpc, source = request[Hotline], source_of(request)
        counters, datagram = self._server.counters[rpc.job], datagram_of(answer)
        if self._service_time.is_emulated:
            lanes = (rpc.live & ~rpc.served).bit_count()
            ns = self._service_time.hold(datagram, source, arrival, read, lanes)
            counters.proc_wall_ns += ns
            counters.proc_cpu_ns += ns
        else:
            ns = clock() - read
            send(self._data_socket, stamp(datagram, ns, read - arrival), source)
            counters.proc_wall_ns += ns
            counters.proc_cpu_ns += time.thread_time_ns() - cpu_start_ns
        if source in self._unconnected_workers:
            self._unconnected_workers.remove(source)
            if (sock := open_connected_udp(self._address, source)) is not None:
                self._add(sock, self._address)

    def _send(self, packets: Sequence[Packet]) -> None:
        """Send answers to the controller, and RPCs to the switch."""
        for packet in packets:
            is_own_rpc = source_of(packet).port == PS_RPC_PORT
            sock = self._rpc_socket if is_own_rpc else self._data_socket
            send(sock, datagram_of(packet), destination_of(packet))


class ScapyServerProcess:
    def __init__(self, config: PsConfig) -> None:
        reason = refusal(
            config.codec, config.design, has_optimiser=bool(config.tables),
            has_recovery=config.durable is not None or config.recovery.replay_log,
        )  # fmt: skip
        if reason is not None:
            raise AgentConfigError(reason)
        self._config = config
        space = config.key_space()
        keys: Container[int] = range(space.size) if space.sparse is None else set(space.sparse.tolist())
        self._all_keys: list[int] = space.all().tolist()
        own_address = Address(config.address, HOTLINE_PORT)
        service = Address(config.service.address, config.service.port)
        epochs = {job.job: job.epoch for job in config.jobs}
        self.server = ScapyServer(
            config.ps, config.n_ps, keys, epochs, own_address, service, space.key_ranges, len(config.workers),
            design(config.design).combination,
        )  # fmt: skip
        self.sockets = ScapyServerSockets(
            self.server, own_address, service, config.connected_workers, config.server
        )
        self._log = ServerLog(config.log_dir, config.ps, clock_offset())
        self._updates_sent = 0
        self.done = False

    def handlers(self) -> dict[str, Callable[..., dict[str, object]]]:
        return {"stats": self.stats, "dump": self.dump, "flush": self.flush, "quit": self.quit}

    def stats(self) -> dict[str, object]:
        return {
            "cpu_s": time.process_time(),
            "runqueue_ns": run_queue_ns(),
            "bursts": 0,
            "waits": resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw,
            "malformed": self.server.malformed,
            "misdirected": self.server.misdirected,
            "copies": {},
            "durability": {"commits": 0, "commit_ns": 0, "delayed": 0, "delay_ns": 0},
            "jobs": {job: asdict(counters) for job, counters in self.server.counters.items()},
        }

    def dump(self, file: str) -> dict[str, object]:
        """Write all parameters of this PS's share to an .npz file, for each job."""
        columns: dict[str, np.ndarray] = {}
        for job in self.server.counters:
            rows = self.server.contents(job, self._all_keys)
            keys, held, owned, updates = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [])
            values = [value for row in held for value in row]
            columns[f"job{job}_keys"] = np.array(keys, np.uint64)
            columns[f"job{job}_values"] = columns[f"job{job}_sums"] = np.array(values, np.uint32)
            columns[f"job{job}_owned"] = np.array(owned, np.bool_)
            columns[f"job{job}_updates"] = np.array(updates, np.uint32)
        write_when_there_is_room(lambda: save_arrays(Path(file), columns))
        return {}

    def flush(self) -> dict[str, object]:
        """Write the logs so far; return the number of dropped rows."""
        self._log.write_connections(self.server.connections)
        self.server.connections.clear()
        rows = [
            (job, key, n) for job, store in self.server.stores.items() for key, n in store.updates.items()
        ]
        updates = sum(n for *_, n in rows)
        if updates != self._updates_sent:
            if not self._send_to_collector(rows):
                self._log.write_updates(rows)
            self._updates_sent = updates
        return {"dropped_rows": 0}

    def _send_to_collector(self, rows: Sequence[tuple[int, int, int]]) -> bool:
        if self._config.collector is None:
            return False
        table = np.zeros(len(rows), collector.ROW)
        for name, column in zip(("job", "key", "updates"), zip(*rows, strict=True), strict=True):
            table[name] = column
        table["ps"] = self._config.ps
        try:
            collector.send(table, self._config.collector)
        except DataError as error:
            log.warning("%s; the update counts of PS %d go to its own log", error, self._config.ps)
            return False
        return True

    def quit(self) -> dict[str, object]:
        self.done = True
        return {}


def serve(process: ScapyServerProcess, commands: Commands) -> None:
    try:
        while not (process.done or commands.closed):
            line = commands.next()
            if line is None:
                process.sockets.run_until_command(commands)
            else:
                execute(line, process.handlers())
    finally:
        process.flush()
        process.sockets.close()


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), required=True)
def main(path: Path) -> None:
    """Run a parameter server; commands come as JSON lines on standard input."""
    try:
        config = load_config(path, PsConfig)
        process = ScapyServerProcess(config)
        prepare_process(config.cpu)
        gc.enable()  # which is disabled for compiled agents: layers of a packet refer to each other
        print_json(ready=True)
        serve(process, Commands(sys.stdin.fileno()))
    except (HotlineError, OSError) as error:
        print_json(error=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
