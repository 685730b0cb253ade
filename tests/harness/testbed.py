"""The real state machines of workers and PSs around a switch, with a lossy network.

Time is a number, and a `Random` decides what happens next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import numpy as np
from numpy.typing import NDArray

from controller.tables import CPU_PORT
from foundation.protocol import addressing, codec, control, frames
from foundation.protocol.codec import Caller, Keys, Values
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.hashing import lane_of, ps_of
from foundation.protocol.header import HOTLINE_PORT, PS_BITS, PS_CALLER_BASE, PS_MASK, PS_RPC_PORT, Header
from hosts.in_flight import InFlight
from hosts.keys import KeySpace
from hosts.ledger import Ledger, UnfinishedPush
from hosts.succession import PredecessorPush
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.hotset.worker.client import HotsetClient
from tests.harness.ending_client import EndingClient
from tests.harness.faulty_loop import MS, FaultyLoop
from tests.harness.switches import Attached, PipelineSwitch
from tests.harness.testnet import new_switch

JOB = 3
WORKERS = 2
SERVERS = 2
_US = 1_000
Frame = tuple[bool, int, bytes]
"""Whether it enters the switch, or has left it, the switch's port, and the octets."""


def _end(host: addressing.Endpoint, port: int) -> UdpEndpoint:
    return UdpEndpoint(host.mac, host.address, port)


class WorkerHost:
    def __init__(self, testbed: Testbed, worker: int, epoch: int) -> None:
        self._testbed = testbed
        self.worker = worker
        self.epoch = epoch
        self.end = _end(addressing.worker(worker), addressing.worker_udp_port(JOB))
        self.port = addressing.worker_port(worker)
        self.client = HotsetClient(
            Caller(JOB, worker, epoch), SERVERS, testbed.space, lambda: testbed.now, window=testbed.window
        )
        if testbed.switch.homes:
            self.client.set_homes(testbed.switch.homes)
        self.ledger = Ledger(JOB, epoch, testbed.space, testbed.space.size)
        self._is_pushing = False
        self.ending: EndingClient | None = None
        """Ends the push of a killed worker with this rank, in place of the client."""
        self.open_push: UnfinishedPush | None = None
        """The push of a killed worker, whose remainder this one pushes."""
        self._step = 0

    @property
    def active(self) -> HotsetClient | EndingClient:
        return self.ending or self.client

    def push(self, positions: NDArray[np.int64], deltas: Values) -> None:
        self._testbed.begun[self.worker][positions] += deltas
        self._step += 1
        self._is_pushing = True
        self.client.push(self._step, positions, deltas, self.ledger.open(positions, deltas))

    def pull(self, positions: NDArray[np.int64]) -> None:
        self._step += 1
        self.client.pull(self._step, positions)

    def push_remainder(self, positions: NDArray[np.int64], deltas: Values, push: UnfinishedPush) -> None:
        self.open_push = push
        self.client.push(0, positions, deltas, push.answered)

    def settle(self) -> None:
        if self.open_push is not None and self.active.idle:
            self.open_push.close()
            self.open_push = None
        if self._is_pushing and self.active.idle:
            self._is_pushing = False
            self.ledger.close()


class Testbed(FaultyLoop[Frame]):
    """`switch` with two workers, two PSs and a controller. `loss` and `doubling` are probabilities."""

    __test__ = False
    most_steps = 30_000

    def __init__(
        self,
        switch: PipelineSwitch,
        random: Random,
        *,
        parameters: int = 64,
        loss: float = 0.0,
        doubling: float = 0.0,
        proxy: bool = True,
        window: int = 64,
        sparse: Keys | None = None,
    ) -> None:
        super().__init__(random, loss=loss, doubling=doubling, reordering=1.0)
        self.switch = switch
        self.window = window
        self.now = 1_000 * MS
        self.space = KeySpace(parameters if sparse is None else len(sparse), sparse)
        self.slots: dict[int, int] = {}
        self.hot: set[int] = set()
        self.move: Control | None = None
        """The controller's move of some keys of one PS to the switch or from it."""
        self.killed: list[Ledger] = []
        self.begun = {worker: np.zeros(self.space.size, np.uint32) for worker in range(1, WORKERS + 1)}
        """Worker -> the sums of all pushes that its processes have begun."""
        self.without_successors: set[int] = set()
        """Workers of which a process was killed whose push nobody has ended."""
        self.statuses: Counter[Status] = Counter()
        self._commands = 0
        self._epochs = 10
        self._build(proxy)

    def _build(self, proxy: bool) -> None:
        self.switch.set_job(JOB, offload=True, proxy=proxy)
        self.servers: list[ParameterServer[UdpEndpoint]] = []
        for ps in range(SERVERS):
            port = addressing.server_port(WORKERS, ps + 1)
            host = addressing.server(ps + 1)
            service = _end(addressing.service(ps + 1), HOTLINE_PORT)
            self.switch.add_server(JOB, ps, Attached(_end(host, HOTLINE_PORT), port), service)
            own = Attached(_end(host, PS_RPC_PORT), port)
            self.switch.add_caller(JOB, PS_CALLER_BASE + ps, 5, 100 + ps, own, privileged=True)
            self.servers.append(
                ParameterServer(ps, SERVERS, self.space, {JOB: 5}, lambda: self.now, homes=self.switch.levels)
            )
        self.workers = [WorkerHost(self, worker, epoch=10) for worker in range(1, WORKERS + 1)]
        for worker in self.workers:
            self._admit(worker)

    def _admit(self, worker: WorkerHost) -> None:
        at = Attached(worker.end, worker.port)
        self.switch.add_caller(JOB, worker.worker, worker.epoch, worker.worker, at, privileged=False)

    # -- what may happen

    def begin(self, index: int) -> None:
        """Start a push (mostly) or a pull of random parameters if the worker is idle."""
        worker = self.workers[index]
        if not worker.active.idle:
            return
        worker.settle()
        size = self.random.randint(1, self.space.size)
        positions = np.array(sorted(self.random.sample(range(self.space.size), size)), dtype=np.int64)
        if self.random.random() < 0.7:
            deltas = np.array([self.random.getrandbits(32) for _ in positions], dtype=np.uint32)
            worker.push(positions, deltas)
        else:
            worker.pull(positions)

    def hint(self, index: int) -> None:
        """Replace a worker's hints by random ones, some of them wrong."""
        worker = self.workers[index]
        if worker.active.idle:
            keys = self.space.all()
            hinted = keys[np.array([self.random.random() < 0.5 for _ in keys])]
            worker.client.hint(hinted, 0 if self.switch.levels == 1 else self.random.randint(0, len(hinted)))

    def restart(self, index: int) -> None:
        """Kill a worker and restart it with a new epoch; its unanswered lanes become unknown."""
        old = self.workers[index]
        old.settle()
        self.without_successors.add(old.worker)
        self._renew(index)

    def succeed(self, index: int) -> None:
        """Kill a worker; its successor ends its push, and then has a new epoch."""
        old = self.workers[index]
        old.settle()
        sent = InFlight(old.client.state.in_flight, old.client.state.sent)
        old.open_push = old.open_push or old.ledger.unfinished_push
        # Perhaps the worker is itself a successor, which is killed before it has ended that push.
        old.ending = EndingClient(PredecessorPush(old.open_push, sent, self.space), self.now)

    def _end_succession(self, index: int, push: PredecessorPush) -> None:
        remainder = push.end()
        self._renew(index)
        if remainder is not None:
            self.workers[index].push_remainder(*remainder)

    def _renew(self, index: int) -> None:
        old = self.workers[index]
        self.killed.append(old.ledger)
        self.switch.remove_caller(JOB, old.worker, old.epoch)
        self._epochs += 1
        self.workers[index] = WorkerHost(self, old.worker, self._epochs)
        self._admit(self.workers[index])

    def start_move(self) -> None:
        """Begin to move some keys of one PS into the switch or out of it."""
        if self.move is not None:
            return
        ps = self.random.randrange(SERVERS)
        is_arriving = self.random.random() < 0.6
        level = self.random.randrange(self.switch.levels) if self.switch.levels > 1 else 0
        number = ps | level << PS_BITS
        first = [key for key in self.space.all().tolist() if ps_of(key, SERVERS) == ps]
        keys = [key for key in first if (key not in self.hot) == is_arriving]
        if not is_arriving:
            keys = [key for key in keys if self.switch.number_of(key, SERVERS) == number]
        keys = self.random.sample(keys, min(len(keys), self.random.randint(1, 20)))
        if not keys:
            return
        for key in keys:
            if is_arriving:
                self.slots[key] = self._free_slot(key)
                self.switch.level_of[key] = level
            self.switch.set_entry(JOB, key, "reserved" if is_arriving else "draining", self.slots[key])
        self._begin_move(Command.SEED if is_arriving else Command.COLLECT, number, keys)

    def _begin_move(self, command: Command, number: int, keys: list[int]) -> None:
        self._commands += 1
        self.move = Control(
            command, JOB, number, epoch=77, seq=self._commands, keys=np.array(keys, np.uint64)
        )
        self.command()

    def _free_slot(self, key: int) -> int:
        taken = {slot for other, slot in self.slots.items() if lane_of(other) == lane_of(key)}
        return min(set(range(len(taken) + 1)) - taken)

    def command(self) -> None:
        """Send the controller's command, possibly again."""
        if self.move is None:
            return
        server = 1 + (self.move.ps & PS_MASK)
        port = addressing.server_port(WORKERS, server)
        to = _end(addressing.server(server), HOTLINE_PORT)
        frame = UdpFrame(_end(addressing.controller(), HOTLINE_PORT), to, control.build(self.move))
        self.put((True, CPU_PORT, frames.packet_out_header(port) + frames.build(frame)))

    def deliver(self, index: int) -> None:
        if self.wire:
            self.now += 5 * _US
            super().deliver(index)
            self.transmit()

    def arrive(self, message: Frame) -> None:
        is_entering, port, frame = message
        if not is_entering:
            self._arrive(port, frame)
            return
        microseconds = self.now // _US
        for output in self.switch.process(port, frame, microseconds, microseconds + 1):
            self.put((False, output.port, output.frame))

    def pass_time(self, nanoseconds: int) -> None:
        super().pass_time(nanoseconds)
        self.transmit()

    def cores(self) -> list[HotsetClient | EndingClient | ParameterServer[UdpEndpoint]]:
        return [*(worker.active for worker in self.workers), *self.servers]

    # -- the network

    def transmit(self) -> None:
        for index, worker in enumerate(self.workers):
            if worker.ending is not None and worker.ending.is_done:
                self._end_succession(index, worker.ending.push)
        for worker in self.workers:
            for datagram, ps in iter(worker.active.transmit, None):
                self._send(worker.port, worker.end, _end(addressing.service(ps + 1), HOTLINE_PORT), datagram)
            worker.settle()
        for server in self.servers:
            host, port = addressing.server(server.ps + 1), addressing.server_port(WORKERS, server.ps + 1)
            service = _end(addressing.service(server.ps + 1), HOTLINE_PORT)
            for datagram in server.transmit():
                self._send(port, _end(host, PS_RPC_PORT), service, datagram)
            for answer, to in server.control_answers():
                self._send(port, _end(host, HOTLINE_PORT), to, answer)

    def _send(self, port: int, source: UdpEndpoint, to: UdpEndpoint, datagram: bytes | memoryview) -> None:
        self.put((True, port, frames.build(UdpFrame(source, to, bytes(datagram)))))

    def _arrive(self, port: int, frame: bytes) -> None:
        if port == CPU_PORT:
            self._answered(control.parse(frames.parse(frame[2:]).payload))
            return
        parsed = frames.parse(frame)
        if port <= WORKERS:
            self.workers[port - 1].active.receive(parsed.payload, self.now, self.now)
            return
        server = self.servers[port - WORKERS - 1]
        if parsed.destination.port == PS_RPC_PORT:
            server.receive_rpc_answer(parsed.payload, self.now)
            return
        out = server.handle(parsed.payload, self.now, self.now, parsed.source)
        if out is not None:
            host = addressing.server(server.ps + 1)
            self._send(port, _end(host, HOTLINE_PORT), parsed.source, bytes(out[1]))

    def _answered(self, answer: Control) -> None:
        move = self.move
        if move is None or answer.identity != move.identity:
            return
        self.statuses[answer.status] += 1
        for key in move.keys.tolist():
            if answer.command is Command.SEED:
                self.switch.set_entry(JOB, key, "hot", self.slots[key])
                self.hot.add(key)
            else:
                self.switch.set_entry(JOB, key, None, self.slots[key])
                self.hot.remove(key)
                del self.slots[key]
                self.switch.level_of.pop(key, None)
        self.move = None

    # -- the end

    def is_settled(self) -> bool:
        has_deadline = any(core.deadline() is not None for core in self.cores())
        return not (self.wire or self.move is not None or has_deadline)

    def wait(self) -> None:
        if self.move is not None:
            self.pass_time(100 * MS)
            self.command()
        else:
            due = min(due for core in self.cores() if (due := core.deadline()) is not None)
            self.pass_time(max(0, due - self.now))

    def quiesce(self) -> None:
        """Stop losing frames, and go on until nothing is outstanding."""
        self.loss = self.doubling = 0.0
        self.settle()

    def held(self) -> Values:
        """Return the value of each parameter, at a PS or in the switch."""
        total = np.zeros(self.space.size, dtype=np.uint32)
        for server in self.servers:
            held = server.stores[JOB].contents()
            total[self.space.positions(held.keys)] += held.values
        for position, key in enumerate(self.space.all().tolist()):
            if key in self.slots:
                total[position] += np.uint32(self.switch.register(key, self.slots[key]))
        return total

    def check(self) -> None:
        """Check the sums of pushes, up to a killed worker's unknown lanes, and that pulls return them."""
        rest = self.held()
        for worker in self.workers:
            sums = worker.ledger.sums()
            assert sums.lanes_unknown == 0
            rest -= sums.sent
        killed = [ledger.sums() for ledger in self.killed]
        for sums in killed:
            rest -= sums.sent
        for position, value in enumerate(rest.tolist()):
            possible = {0}
            for sums in killed:
                possible |= {(before + int(sums.unknown[position])) % 2**32 for before in possible}
            assert value in possible, f"parameter {position}: {value:#x} too much, explained are {possible}"
        if not self.without_successors:
            assert not any(sums.lanes_unknown for sums in killed), "a push is not ended"
            begun = sum(self.begun.values(), np.zeros(self.space.size, np.uint32))
            assert (self.held() == begun).all(), "a push is lost"
        everything = np.arange(self.space.size)
        for worker in self.workers:
            worker.pull(everything)
            self.transmit()
            self.quiesce()
            assert (worker.client.values == self.held()).all()


class SteppedTestbed(Testbed):
    """A testbed that delivers frames in order; tests inspect or remove them."""

    def __init__(self, switch: PipelineSwitch | None = None) -> None:
        super().__init__(switch or PipelineSwitch(new_switch()), Random(1), parameters=400)
        self.client: HotsetClient = self.workers[0].client
        self.requests: list[Header] = []

    def keys(self, ps: int, lanes: Iterable[int] = range(32)) -> list[int]:
        """Return keys of a PS, at most one in each of these lanes."""
        found: dict[int, int] = {}
        for key in range(self.space.size):
            if ps_of(key, SERVERS) == ps and lane_of(key) in lanes:
                found.setdefault(lane_of(key), key)
        return list(found.values())

    def load(self, *keys: int, state: str = "hot") -> None:
        """Move keys into the switch, or only reserve their entries."""
        for key in keys:
            self.slots[key] = self._free_slot(key)
            self.switch.set_entry(JOB, key, "reserved", self.slots[key])
        if state == "reserved":
            return
        for ps in range(SERVERS):
            first = [key for key in keys if ps_of(key, SERVERS) == ps]
            if first:
                self.move_all(Command.SEED, ps, first)

    def unload(self, *keys: int) -> None:
        """Move the keys of one PS back to it."""
        for key in keys:
            self.switch.set_entry(JOB, key, "draining", self.slots[key])
        self.move_all(Command.COLLECT, ps_of(keys[0], SERVERS), list(keys))

    def move_all(self, command: Command, ps: int, keys: list[int]) -> None:
        """Move keys while all other frames stand still."""
        wire, self.wire = self.wire, []
        self._begin_move(command, ps, keys)
        while self.move is not None or self.wire:
            self.deliver(0)
        self.wire = wire

    def hint(self, *keys: int) -> None:
        self.client.hint(np.array(keys, np.uint64))

    def push(self, *keys: int, value: int = 1) -> None:
        keys_array = np.array(sorted(keys))
        self.workers[0].push(keys_array, np.full(len(keys), value, np.uint32))
        self.transmit()

    def pull(self, *keys: int) -> None:
        self.workers[0].pull(np.array(sorted(keys)))
        self.transmit()

    def transmit(self) -> None:
        before = len(self.wire)
        super().transmit()
        new = [frame for _, port, frame in self.wire[before:] if port == self.workers[0].port]
        self.requests += [codec.parse(frames.parse(frame).payload).header for frame in new]

    def to_switch(self) -> None:
        """Let the switch process all frames that enter; its outputs stay under way."""
        for frame in [each for each in self.wire if each[0]]:
            self.deliver(self.wire.index(frame))

    def lose_outputs(self) -> list[bytes]:
        """Remove the frames that have left the switch, and return them."""
        outputs = [frame for is_entering, _, frame in self.wire if not is_entering]
        self.wire = [each for each in self.wire if each[0]]
        return outputs

    def finish(self) -> list[Header]:
        """Continue until all is answered; return the requests of this operation."""
        before, self.requests = self.requests, []
        self.quiesce()
        self.workers[0].settle()
        return before + self.requests

    def values(self, *keys: int) -> list[int]:
        held = self.held()
        return [int(held[key]) for key in keys]
