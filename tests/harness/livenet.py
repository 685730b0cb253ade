"""A P4Runtime server, parameter servers and workers in one process, without a network.

Everything runs on the test's event loop. Function calls deliver frames in order, optionally with losses.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import cache, wraps
from inspect import Signature, signature
from typing import Any, TypeVar

import numpy as np

from controller.controller import Controller
from controller.tables import CPU_PORT, JobRow, Route, ServerRow, WorkerRow
from foundation.designs import collect, hotset
from foundation.designs.registry import design as find_design
from foundation.protocol import addressing, control, frames
from foundation.protocol.codec import Caller
from foundation.protocol.control import Command
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.header import COLLECTOR_BASE, HOTLINE_PORT, PS_CALLER_BASE, PS_RPC_PORT, Op, unpack
from foundation.protocol.rows import ONE_VALUE, RowRanges
from hosts.keys import KeySpace
from hotline_agents.collect import CollectingServer
from hotline_agents.designs import agents_of
from hotline_agents.hotset.ps.parameter_server import OffloadingServer, ParameterServer
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.warm import warm_worker
from softswitch.compiled import CompiledPipeline
from softswitch.ir import Program
from softswitch.jit import MachineCode
from softswitch.p4runtime.service import P4RuntimeServer
from softswitch.pipeline import Output, Pipeline

JOB, KEYS = 3, 300
"""Job and parameters of the nets of `live`."""
EPOCH = 1
WORKERS, N_PS = 2, 2
_KEYS_AT_A_TIME = 12
_PACE = 0.005

T = TypeVar("T")


def _server(design: str, ps: int, space: KeySpace, jobs: Sequence[int]) -> OffloadingServer[UdpEndpoint]:
    make = CollectingServer[UdpEndpoint] if design == collect.NAME else ParameterServer[UdpEndpoint]
    return make(ps, N_PS, space, dict.fromkeys(jobs, EPOCH), time.monotonic_ns)


class PsHost:
    """A PS of some jobs, which can stop answering; `row` and `store` are of the first job."""

    def __init__(self, design: str, jobs: Sequence[int], ps: int, space: KeySpace) -> None:
        host, service = addressing.server(ps + 1), addressing.service(ps + 1)
        port = addressing.server_port(WORKERS, ps + 1)
        addresses = (host.mac, host.address, HOTLINE_PORT, port, service.mac, service.address, HOTLINE_PORT)
        self.rows = [ServerRow(job, ps, *addresses) for job in jobs]
        self.row = self.rows[0]
        self.mute_after: int | None = None
        """Number of SEEDs and COLLECTs after which this PS ignores commands."""
        self.muted = asyncio.Event()
        self._moves: set[tuple[int, int]] = set()
        self._core = _server(design, ps, space, jobs)
        self.stores: Mapping[int, Any] = self._core.stores  # of either design
        self.store: Any = self.stores[jobs[0]]

    def receive(self, frame: bytes) -> list[bytes]:
        source, destination, datagram = frames.parse(frame)
        now = time.monotonic_ns()
        if destination.port == PS_RPC_PORT:
            self._core.receive_rpc_answer(datagram, now)
        elif unpack(datagram).op != Op.CONTROL or self._hears(control.parse(datagram)):
            answer = self._core.handle(datagram, now, now, source)
            if answer is not None:
                return [self._frame(HOTLINE_PORT, source, answer[1]), *self._pending()]
        return self._pending()

    def wake(self) -> list[bytes]:
        now = time.monotonic_ns()
        self._core.wake(now)
        self._core.server._ops.wake(self._core.server.reference, now)
        return self._pending()

    def _hears(self, command: control.Control) -> bool:
        if self.mute_after is not None and len(self._moves) >= self.mute_after:
            self.muted.set()
            return False
        if command.command in (Command.SEED, Command.COLLECT):
            self._moves.add(command.identity)
        return True

    def _pending(self) -> list[bytes]:
        service = UdpEndpoint(self.row.service_mac, self.row.service_addr, HOTLINE_PORT)
        sent = [self._frame(PS_RPC_PORT, service, rpc) for rpc in self._core.transmit()]
        sent += [self._frame(HOTLINE_PORT, service, rpc) for rpc in self._collections()]
        return sent + [self._frame(HOTLINE_PORT, to, answer) for answer, to in self._core.control_answers()]

    def _collections(self) -> Iterator[bytes]:
        """Yield the RPCs of a collecting server's loop."""
        server = self._core.server
        while (slot := server._ops.transmit(server.reference, time.monotonic_ns())) >= 0:
            yield server.state.requests[slot].tobytes()[: server._ops.octets(server.reference, slot)]

    def _frame(self, port: int, destination: UdpEndpoint, datagram: bytes | bytearray | memoryview) -> bytes:
        source = UdpEndpoint(self.row.mac, self.row.addr, port)
        return frames.build(UdpFrame(source, destination, bytes(datagram)))


class _Load:
    """A worker that pushes to random keys while it runs, mostly to those in `favours`.

    A push adds the same number to all values of a row.
    """

    def __init__(self, job: int, worker: int, space: KeySpace) -> None:
        host = addressing.worker(worker)
        self.job = job
        row = job * WORKERS + worker
        self.row = WorkerRow(job, worker, EPOCH, row, host.mac, host.address, 20_000 + job, worker)
        self.sent: Counter[int] = Counter()
        """Sums by key."""
        self.updates: Counter[int] = Counter()
        """Numbers of pushes by key."""
        self.favours: Sequence[int] = range(space.size)
        self.operations = 0
        self.running = True
        self._random = np.random.default_rng(worker)
        self._space = space
        caller = Caller(job, worker, EPOCH)
        self._client = HotsetClient(caller, N_PS, space, time.monotonic_ns)

    async def run(
        self, inject: Callable[[int, bytes], None], operations: int | None = None, pace_s: float = _PACE
    ) -> None:
        """Push while `running`, or this many times, at most once in `pace_s`."""
        source = UdpEndpoint(self.row.mac, self.row.addr, self.row.udp_port)
        end = None if operations is None else self.operations + operations
        while (self.running and self.operations != end) or not self._client.idle:
            if self._client.idle:
                self._push()
            for datagram, ps in iter(self._client.transmit, None):
                service = addressing.service(ps + 1)
                destination = UdpEndpoint(service.mac, service.address, HOTLINE_PORT)
                inject(self.row.port, frames.build(UdpFrame(source, destination, bytes(datagram))))
            self._client.wake(time.monotonic_ns())
            await asyncio.sleep(pace_s)

    def receive(self, frame: bytes) -> list[bytes]:
        now = time.monotonic_ns()
        self._client.receive(frames.parse(frame).payload, now, now)
        return []

    def _push(self) -> None:
        favoured = self._random.choice(self.favours, size=_KEYS_AT_A_TIME - 1, replace=False)
        other = int(self._random.integers(self._space.size - len(favoured)))
        for position in np.sort(favoured).tolist():
            other += position <= other
        positions = np.append(favoured, other)
        deltas = self._random.integers(0, 1000, size=_KEYS_AT_A_TIME, dtype=np.uint32)
        self.sent.update(dict(zip(positions.tolist(), deltas.tolist(), strict=True)))
        self.updates.update(positions.tolist())
        self.operations += 1
        values = deltas.repeat(self._space.dims_at(positions))
        self._client.push(0, positions, values, np.zeros(self._space.size + 1, dtype=np.bool_))


@cache
def compile_agents(design: str) -> None:
    """Compile the agents before a test waits for an answer: it takes half a minute on a busy machine."""
    warm_worker()
    space = KeySpace(1)
    server = _server(design, 0, space, [1])
    server.handle(b"", 0, 0, UdpEndpoint("", "", 0))
    server.stores[1].values(server.stores[1].locate(space.all()))
    server.stores[1].contents()
    agents_of(find_design(design)).warm_server(server.server.state)
    reference, ops = server.server.reference, server.server._ops
    ops.wake(reference, 0)
    ops.transmit(reference, 0)
    ops.octets(reference, 0)


_code_of: dict[int, tuple[Program, MachineCode]] = {}  # by the id of a program, which is kept with it


def _make_pipeline(program: Program) -> CompiledPipeline:
    """Make a program's machine code once: to find it among those on disk takes 50 ms of each net."""
    if id(program) not in _code_of:
        _code_of[id(program)] = program, MachineCode(program)
    return CompiledPipeline(program, _code_of[id(program)][1])


class LiveNet:
    """`async with LiveNet(job, keys) as net`: PSs own keys 0..keys-1, the switch has no pipeline yet."""

    def __init__(
        self, job: int, keys: int, *, others: Sequence[int] = (), loss: float = 0.0,
        design: str = hotset.NAME, ranges: RowRanges = ONE_VALUE,
    ) -> None:  # fmt: skip
        compile_agents(design)
        self.design = design
        self.jobs = (job, *others)
        self.n_ps = N_PS
        self.cpu_socket, self._switch_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notice_socket, self._notice_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.pipeline: Pipeline | None = None
        space = KeySpace(keys, None, ranges)
        self._ranges = ranges
        self.servers = [PsHost(design, self.jobs, ps, space) for ps in range(N_PS)]
        self.loads = [_Load(each, worker, space) for each in self.jobs for worker in range(1, WORKERS + 1)]
        self._receivers: dict[int, Callable[[bytes], list[bytes]]] = {
            **{server.row.port: server.receive for server in self.servers},
            **{load.row.port: self._receive_at_worker for load in self.loads},
        }
        self._loss = loss
        self._random = random.Random(0)
        self._p4runtime = P4RuntimeServer[CompiledPipeline](1, self, _make_pipeline)
        self.address = ""

    async def __aenter__(self) -> LiveNet:
        port = await self._p4runtime.start("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        asyncio.get_running_loop().add_reader(self._switch_end.fileno(), self._packet_out)
        self._timers = asyncio.ensure_future(self._keep_time())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._timers.cancel()
        asyncio.get_running_loop().remove_reader(self._switch_end.fileno())
        await self.switch_off()
        for end in (self.cpu_socket, self._switch_end, self.notice_socket, self._notice_end):
            end.close()

    async def switch_off(self) -> None:
        await self._p4runtime.stop()

    async def set_up(self, *, offload: bool = True) -> None:
        rows = [row for server in self.servers for row in server.rows]
        async with Controller(self.address, design=self.design) as controller:
            await controller.commit_pipeline()
            await controller.install(
                *(JobRow(job, offload, proxy=True, ranges=self._ranges) for job in self.jobs),
                *rows,
                *(load.row for load in self.loads),
                *(Route(load.row.mac, load.row.port) for load in self.loads[:WORKERS]),
                *(self._own_caller(row, PS_CALLER_BASE, PS_RPC_PORT) for row in rows),
            )
            if self.design == collect.NAME:
                await controller.install(
                    *(self._own_caller(row, COLLECTOR_BASE, HOTLINE_PORT) for row in rows)
                )

    def favour(self, keys: Sequence[int], job: int | None = None) -> None:
        """Let the workers of all jobs, or of one, push mostly to these keys."""
        for load in self.loads:
            if job in (None, load.job):
                load.favours = keys

    def mute_servers(self, after: int | None) -> None:
        """Let all servers ignore commands after so many SEEDs and COLLECTs; None: they obey again."""
        for server in self.servers:
            server.muted.clear()
            server.mute_after = after

    async def work(self, operations: int, job: int | None = None) -> None:
        """Let each worker of all jobs, or of one, do so many operations."""
        loads = [load for load in self.loads if job in (None, load.job)]
        await asyncio.gather(*(load.run(self.inject, operations) for load in loads))

    async def work_while(self, action: Coroutine[Any, Any, T], pace_s: float = _PACE) -> T:
        """Run an action while each worker pushes at most once in `pace_s`; then let pushes end."""
        working = [asyncio.ensure_future(load.run(self.inject, pace_s=pace_s)) for load in self.loads]
        try:
            return await action
        finally:
            for load in self.loads:
                load.running = False
            await asyncio.gather(*working)

    def now(self) -> int:
        return 0

    def start(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def stop(self) -> None:
        """Do nothing: see `softswitch.p4runtime.pipelines.Ports`."""

    def inject(self, port: int, frame: bytes) -> None:
        """Process a frame and all that follow from it; each may be lost before and behind the switch."""
        arrivals = deque([(port, frame)])
        while arrivals:
            port, frame = arrivals.popleft()
            if self._is_lost():
                continue
            for output in self._process(port, frame):
                if output.port == CPU_PORT:
                    self._switch_end.send(output.frame)
                elif output.port in self._receivers and not self._is_lost():
                    replies = self._receivers[output.port](output.frame)
                    arrivals.extend((output.port, reply) for reply in replies)

    def _process(self, port: int, frame: bytes) -> list[Output]:
        return [] if self.pipeline is None else self.pipeline.process(port, frame, 0, 0)

    def _receive_at_worker(self, frame: bytes) -> list[bytes]:
        _, destination, _ = frames.parse(frame)
        worker = (destination.address, destination.port)
        [load] = [load for load in self.loads if (load.row.addr, load.row.udp_port) == worker]
        return load.receive(frame)

    async def _keep_time(self) -> None:
        while True:
            await asyncio.sleep(_PACE)
            for server in self.servers:
                for frame in server.wake():
                    self.inject(server.row.port, frame)

    def _is_lost(self) -> bool:
        return self._random.random() < self._loss

    def _packet_out(self) -> None:
        self.inject(CPU_PORT, self._switch_end.recv(65536))

    @staticmethod
    def _own_caller(row: ServerRow, first: int, udp_port: int) -> WorkerRow:
        cells = 100 * row.job + row.ps + (50 if first == COLLECTOR_BASE else 0)
        return WorkerRow(row.job, first + row.ps, EPOCH, cells, row.mac, row.addr, udp_port, row.port, 1)


def live(
    *,
    offload: bool = True,
    others: Sequence[int] = (),
    favours: Sequence[int] = range(KEYS),
    ranges: RowRanges = ONE_VALUE,
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """Decorate a coroutine that is a test on a net that is set up.

    Its arguments `loss` and `design` are the net's, too.
    """

    def decorate(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        async def run(fixtures: Mapping[str, Any]) -> None:
            loss, design = fixtures.get("loss", 0.0), fixtures.get("design", hotset.NAME)
            async with LiveNet(JOB, KEYS, others=others, loss=loss, design=design, ranges=ranges) as net:
                await net.set_up(offload=offload)
                net.favour(favours)
                await scenario(net, **fixtures)

        @wraps(scenario)
        def test(**fixtures: Any) -> None:
            asyncio.run(run(fixtures))

        _, *fixtures = signature(scenario).parameters.values()
        vars(test)["__signature__"] = Signature(fixtures)  # which pytest reads
        return test

    return decorate
