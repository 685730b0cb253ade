"""The arrays of a simulated network, and the real objects around them that Python works with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from experiment.config import EPOCH
from foundation.designs.interface import NEVER, Arm, Design
from foundation.logs.columns import Row
from foundation.protocol import addressing, frames
from foundation.protocol.codec import Caller, Values
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import PUSH
from hosts.designs import AGENTS
from hosts.keys import KeySpace
from hosts.udp import BURST
from hosts.worker.client import BaseClient
from hosts.worker.replay import ReplayLog
from nativekit.llvm import Compiled
from nativekit.plain import plain
from nativekit.records import Records, one, records, zeros
from nativekit.reference import pinned_ref, row
from simulator.compile import write_world
from simulator.costs import (
    Hosts,
    Network,
    costs_of,
    links_of,
    outages_of,
    shapes_of,
    switch_times_of,
    uplinks_of,
)
from simulator.events import put_event as compiled_put_event
from simulator.loop import MARGIN
from simulator.simulated_switch import SimulatedSwitch
from simulator.state import (
    ASIDE,
    FRAME,
    HEAD_BYTES,
    NOBODY,
    SPELL_BEGINS,
    Agent,
    Core,
    Event,
    Frame,
    World,
    WorldHeader,
)
from softswitch.compiled import OUT_CAPACITY
from softswitch.memory.output import HEAD_BYTES as RECORD_HEAD_BYTES
from softswitch.queues import make_queues
from softswitch.v1model import PORT_NUMBERS

put_event = plain(compiled_put_event)
INBOX = 1024
"""Frames that wait for an agent at most: some 0.5 MB of socket buffer."""


class VirtualClient(BaseClient):
    """A worker's calls that are rows of a world's arrays, none of which may be replaced by another array.

    It is mixed into the client of a design.
    """

    _books: NDArray[np.bool_] = np.zeros(0, np.bool_)
    """What is to be told of the latest push."""

    def push(
        self,
        iteration: int,
        positions: NDArray[np.integer],
        deltas: Values,
        answered: NDArray[np.bool_],
    ) -> None:
        """Start to add; `answered` is written by `settle`."""
        self._books = answered
        self.state.answered[: len(positions)] = False
        super().push(iteration, positions, deltas, self.state.answered)

    @property
    def pushes(self) -> bool:
        """Whether its operation is a push."""
        return bool(self._header.op == PUSH)

    def settle(self) -> None:
        """Tell the latest push what of it has been answered."""
        if len(self._books):
            self._books[:] = self.state.answered[: len(self._books)]
            self._books = self._books[:0]

    def take_records(self, fresh: Records[Row] | None = None) -> Records[Row]:
        """A copy of the answered RPCs so far, which the log forgets."""
        taken = self.records.copy()
        self._header.rows = 0
        return taken


class Simulated:
    """One arm's network: a world, its workers' clients and its servers' parameters."""

    def __init__(
        self, design: Design, arm: Arm, switch: SimulatedSwitch, space: KeySpace, largest: int, workers: int,
        servers: int, network: Network, hosts: Hosts, seed: int, journal_bytes: int = 0, keeps: bool = False,
        window: int = WINDOW,
    ) -> None:  # fmt: skip
        self.arm = arm
        self.loop_ns = 0
        """Real time that the event loop has taken."""
        agents = AGENTS.of(design)
        self.clients = [
            _virtual(agents.client)(
                Caller(arm.job, number, EPOCH), servers, space, lambda: self.now, window, largest=largest,
                log=ReplayLog.in_memory(np.zeros((2, space.size), np.uint32), largest) if keeps else None,
            )
            for number in range(1, workers + 1)
        ]  # fmt: skip
        n = workers + servers
        # The world has their addresses only.
        self._switch, self._out = switch, np.zeros(OUT_CAPACITY, np.uint8)
        ports = _ports(workers, servers, network.rack or 1)
        queues = make_queues(shapes_of(network, workers, servers))
        frames_at_once = 4 * WINDOW * workers + 4 * MARGIN
        self.world = World(
            me=_header(arm, workers, servers, network, switch, self._out, seed),
            heap=records(frames_at_once + 8 * n + 4 * MARGIN, Event),
            frames=frames_for(frames_at_once),
            free=np.arange(frames_at_once)[::-1].copy(),
            up=links_of(network, n),
            down=links_of(network, n),
            racks_up=uplinks_of(network, workers),
            racks_down=uplinks_of(network, workers),
            ports=ports,
            at_port=_at_port(ports),
            spells=outages_of(network, workers),
            port_queues=queues,
            waiting=np.zeros((len(queues.slots), _record_bytes(switch)), np.uint8),
            aside=np.zeros((ASIDE, 2), np.int64),
            agents=_agents(workers, servers, hosts),
            inbox=np.zeros((n, INBOX), np.int64),
            cores=_cores(workers, servers, hosts),
            queues=np.zeros((_number_of_cores(workers, servers, hosts), _power_of_two(n)), np.int64),
            burst=np.zeros(BURST, np.int64),
            heads=_heads(design, arm, workers, servers),
            costs=costs_of(hosts),
            calls=_stacked_tuples([client.state for client in self.clients]),
            servers=_stacked_tuples(
                [agents.server(ps, servers, space, [arm.job], journal_bytes) for ps in range(servers)]
            ),
        )
        self.pinned_ref = pinned_ref(self.world, write_world)
        """The world, for entry points."""
        self.world.me.free = frames_at_once
        for k, spell in enumerate(self.world.spells):
            put_event(self.world, int(spell.begins), SPELL_BEGINS, k, NOBODY)
        for w, client in enumerate(self.clients):
            client.adopt(row_of(self.world.calls, w))
        self.servers = [row_of(self.world.servers, p) for p in range(servers)]
        self.stores = [agents.store(server, arm.job, keeps) for server in self.servers]
        self._contacts: list[list[NDArray[np.void]]] = [[] for _ in self.servers]

    @property
    def now(self) -> int:
        """Virtual time, ns."""
        return int(self.world.me.now)

    def worker_used_ns(self) -> list[int]:
        """Time that each worker has had its core, ns."""
        used: list[int] = self.world.agents.used_ns[: len(self.clients)].tolist()
        return used

    def server_used_ns(self) -> int:
        """Time that the servers have had their cores, ns."""
        return int(self.world.agents.used_ns[len(self.clients) :].sum())

    def queued_ns(self) -> dict[str, int]:
        """How long each agent was ready and had no core, ns."""
        workers = [f"worker-{number}" for number in range(1, len(self.clients) + 1)]
        names = [*workers, *(f"ps-{number}" for number in range(len(self.servers)))]
        return dict(zip(names, self.world.agents.queued_ns.tolist(), strict=True))

    def retransmissions(self) -> list[int]:
        """Of each worker, so far."""
        again: list[int] = self.world.calls.header.retransmissions.tolist()
        return again

    def take_contacts(self, p: int) -> None:
        """Empty the connection log of server `p`."""
        server = self.servers[p]
        self._contacts[p].append(np.array(server.contacts[: server.header.contacts]))
        server.header.contacts = 0

    def taken_contacts(self, p: int) -> list[NDArray[np.void]]:
        """What has been taken of it since the last call."""
        taken, self._contacts[p] = self._contacts[p], []
        return taken

    def make_room(self) -> None:
        """Twice as many frames and events."""
        world, n = self.world, len(self.world.frames)
        frames, heap = frames_for(2 * n), records(2 * len(world.heap), Event)
        frames[:n], heap[: len(world.heap)] = world.frames, world.heap
        known = int(world.me.free)
        free = np.zeros(2 * n, np.int64)
        free[:known], free[known : known + n] = world.free[:known], np.arange(n, 2 * n)
        world.me.free += n
        self.world = world._replace(frames=frames, heap=heap, free=free)
        self.pinned_ref = pinned_ref(self.world, write_world)


row_of = cast(Compiled, row).plain
"""The state of one worker, or server, in the arrays of a world."""


@cache
def _virtual(client: type[BaseClient]) -> Any:  # a class of the design's, with `VirtualClient` mixed in
    """The client of a design, for a world."""
    return type(f"Virtual{client.__name__}", (VirtualClient, client), {})


def _stacked(arrays: Sequence[Any]) -> Any:  # arrays or records, of whatever type
    """Arrays, or records, of one kind as one with an axis in front; shorter ones end in zeros."""
    first = arrays[0]
    shape = tuple(np.max([each.shape for each in arrays], axis=0).astype(int)) if first.shape else ()
    stacked: NDArray[Any] = zeros((len(arrays), *shape), first.dtype)
    for k, each in enumerate(arrays):
        # Zeros take no memory before something is written there.
        if not first.shape or np.frombuffer(each, np.uint8).any():
            at: tuple[int | slice, ...] = (k, *(slice(size) for size in each.shape))
            stacked[at] = each
    return stacked.view(np.recarray) if first.dtype.names else stacked


def _stacked_tuples(tuples: Sequence[Any]) -> Any:  # states of a design's own class
    """Tuples of one class as one; what is only read is that of the first."""

    def stacked(columns: Sequence[Any]) -> Any:  # arrays, or tuples of them
        if hasattr(columns[0], "_fields"):
            return _stacked_tuples(columns)
        return _stacked(columns) if columns[0].flags.writeable else columns[0]

    return type(tuples[0])(*map(stacked, zip(*tuples, strict=True)))


def _header(
    arm: Arm,
    workers: int,
    servers: int,
    network: Network,
    switch: SimulatedSwitch,
    out: NDArray[np.uint8],
    seed: int,
) -> WorldHeader:
    me = one(WorldHeader)
    me.workers, me.servers, me.random = workers, servers, np.uint64(seed)
    me.rack, me.connections = network.rack or 0, 1 if arm.settings.proxies else workers
    me.process, me.memory = switch.pipeline.process_address, switch.pipeline.state_address
    me.out, me.out_bytes = out.ctypes.data, len(out)
    me.switch_latency, me.switch_ps = switch_times_of(network)
    return me


def frames_for(n: int) -> Records[Frame]:
    """Return n frames that nobody has."""
    made: Records[Frame] = records(n, FRAME)
    return made


def _ports(workers: int, servers: int, rack: int) -> NDArray[np.int64]:
    return np.array(
        [addressing.worker_port(number, rack) for number in range(1, workers + 1)]
        + [addressing.server_port(workers, number, rack) for number in range(1, servers + 1)]
    )


def _record_bytes(switch: SimulatedSwitch) -> int:
    """Of a packet that waits, in whole words."""
    return RECORD_HEAD_BYTES + (switch.pipeline.waiting_bytes + FRAME.itemsize + 7) // 8 * 8


def _at_port(ports: NDArray[np.int64]) -> NDArray[np.int64]:
    at = np.full(PORT_NUMBERS, NOBODY)
    at[ports[::-1]] = np.arange(len(ports))[::-1]
    return at


def _agents(workers: int, servers: int, hosts: Hosts) -> Records[Agent]:
    agents = records(workers + servers, Agent)
    agents.alarm = agents.until = NEVER
    of_workers = hosts.worker_cores or workers
    agents.core[:workers] = np.arange(workers) % of_workers
    agents.core[workers:] = of_workers + np.arange(servers) % (hosts.server_cores or servers)
    return agents


def _number_of_cores(workers: int, servers: int, hosts: Hosts) -> int:
    return (hosts.worker_cores or workers) + (hosts.server_cores or servers)


def _cores(workers: int, servers: int, hosts: Hosts) -> Records[Core]:
    cores = records(_number_of_cores(workers, servers, hosts), Core)
    cores.running = NOBODY
    return cores


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _heads(design: Design, arm: Arm, workers: int, servers: int) -> NDArray[np.uint8]:
    """Heads of frames of each agent, workers first, to each peer, servers first."""
    of_workers = [
        UdpEndpoint(host.mac, host.address, addressing.worker_udp_port(arm.job))
        for host in map(addressing.worker, range(1, workers + 1))
    ]
    of_servers, reached = (
        [UdpEndpoint(host.mac, host.address, design.udp_port) for host in map(place, range(1, servers + 1))]
        for place in (addressing.server, addressing.service if design.has_services else addressing.server)
    )
    nobody = of_workers[0]
    sources = _octets([frames.build(UdpFrame(each, nobody, b"")) for each in of_workers + of_servers])
    peers = _octets([frames.build(UdpFrame(nobody, each, b"")) for each in reached + of_workers])
    heads = np.repeat(sources[:, np.newaxis], len(peers), axis=1)
    for field in frames.DESTINATION:
        heads[:, :, field] = peers[np.newaxis, :, field]
    return heads


def _octets(built: Sequence[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(built), np.uint8).reshape(len(built), HEAD_BYTES)
