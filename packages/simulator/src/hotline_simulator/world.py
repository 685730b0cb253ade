"""Build the arrays (`World`) of a simulated network for a design, its hosts and its switch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from analysis.record import Staleness
from experiment.run_config import EPOCH
from foundation.designs.interface import Arm, Design
from foundation.logs.rpc_row import RpcRow
from foundation.protocol import addressing, frames
from foundation.protocol.codec import Caller, Keys, Values
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.header import WINDOW
from foundation.protocol.leaf_spine import ServerHomes
from foundation.protocol.rpc import PUSH
from hosts.replay import ReplayLog
from hosts.replay_words import UNDO_WORDS
from hotline_agents.designs import agents_of, configure_server
from hotline_agents.interface import NEVER
from hotline_agents.udp import BURST
from hotline_agents.worker.client import BaseClient, ClientState
from hotline_simulator.cabling import cabling_of
from hotline_simulator.costs import (
    HostCosts,
    Network,
    costs_of,
    outages_of,
    pass_times_of,
    shapes_of,
    switch_times_of,
)
from hotline_simulator.leaf_spine_switches import Switches
from hotline_simulator.loop import MARGIN, wake_agent
from hotline_simulator.state import (
    FRAME_BYTES,
    FRAME_OFFSET,
    HEAD_BYTES,
    OUTAGE_BEGINS,
    SimulatedAgent,
    SimulatedCore,
    World,
    WorldHeader,
    write_world,
)
from hotline_simulator.system import SimulatedSystem
from nativekit.llvm import Compiled
from nativekit.plain import plain
from nativekit.records import (
    CACHE_LINE_BYTES,
    Records,
    as_records,
    one_record,
    records,
    sparse_zeros,
    with_arrays,
)
from nativekit.reference import pinned_ref, row
from softswitch.compiled import OUT_CAPACITY
from softswitch.network.arrays import extend, with_frames
from softswitch.network.events import push_event as compiled_push_event
from softswitch.network.state import (
    ABSENT,
    MAX_DEFERRED,
    Deferred,
    FrameState,
    ScheduledEvent,
    SwitchState,
)
from softswitch.queues.state import make_queues

push_event = plain(compiled_push_event)
INBOX_FRAMES = 1024  # maximum frames that wait for an agent: about 0.5 MB of socket buffer


class VirtualClient(BaseClient):
    """A mixin for clients whose state is a row of a world's arrays, none of which may be replaced.

    The fields of its header that drivers read at each operation are arrays, which Python reads ten times
    faster than a record.
    """

    _answered: NDArray[np.bool_] = np.zeros(0, np.bool_)
    """The caller's `answered` of the latest push, until its values are copied; then empty."""
    is_operating = False
    """Whether an operation has begun whose end the driver has not seen."""

    def adopt(self, state: ClientState) -> None:
        super().adopt(state)
        self._row_reference: ClientState | None = None
        header = np.asarray(state.header)
        self._pending, self._op, self._unreplayed = header["pending"], header["op"], header["unreplayed"]
        self._n_issued, self._issue_limit = header["n_issued"], header["issue_limit"]
        self._n_calls, self._due = header["n_calls"], header["due"]

    @property
    def reference(self) -> ClientState:
        # The arrays are the same until the next `adopt`, so one reference serves all operations.
        if self._row_reference is None:
            self._row_reference = super().reference
        return self._row_reference

    @property
    def idle(self) -> bool:
        return not self._pending.item()

    @property
    def has_unreplayed(self) -> bool:
        return bool(self._unreplayed.item())

    @property
    def rpcs_of_operation(self) -> int:
        return int(self._n_calls.item())

    def wake(self, now: int) -> None:
        if now >= self._due.item():
            super().wake(now)

    def _check_numbers(self) -> None:
        if self._n_issued.item() >= self._issue_limit.item():
            super()._check_numbers()

    def push(
        self, iteration: int, positions: NDArray[np.integer], deltas: Values, answered: NDArray[np.bool_]
    ) -> None:
        self._answered = answered
        self.state.answered[: len(positions)] = False
        super().push(iteration, positions, deltas, self.state.answered)

    @property
    def is_push(self) -> bool:
        return bool(self._op.item() == PUSH)

    def copy_answered_flags(self) -> None:
        if len(self._answered):
            self._answered[:] = self.state.answered[: len(self._answered)]
            self._answered = self._answered[:0]

    def take_records(self, new_log: Records[RpcRow] | None = None) -> Records[RpcRow]:
        # The log is a row of the world's arrays and cannot be replaced by `new_log`.
        snapshot = self.records.copy()
        self._header.rows = 0
        return snapshot


class SimulatedNetwork:
    def __init__(self, system: SimulatedSystem, switch: Switches) -> None:
        design, arm, network, hosts = system.design, system.arm, system.network, system.hosts
        workers, servers, space = system.workers, system.servers, system.space
        self.arm, self._topology = arm, system.topology
        self._key_ranges = space.key_ranges
        arms = (arm, *system.neighbours)
        self.loop_ns = 0  # elapsed real time in the compiled event loop
        agents = agents_of(design)
        self.clients = [
            _virtual_client(agents.client)(
                Caller(each.job, number, EPOCH), servers, space, lambda: self.now, system.window,
                max_keys=system.largest_batch,
                log=_replay_log(system) if system.has_replay_logs else None,
            )
            for each in arms for number in range(1, workers + 1)
        ]  # fmt: skip
        if system.topology is not None:
            for k, client in enumerate(self.clients):
                client.set_homes(system.topology.home_indexes)
                client.set_home_index(system.topology.home_index_of(k % workers + 1))
        heads = _heads(design, arms, workers, servers)
        homes = 1 if system.topology is None else system.topology.homes_of_server
        of_homes = {} if homes == 1 else {"homes": homes}  # most designs allow one
        server_states = [
            agents.server(ps, servers, space, [each.job], system.journal_bytes, system.tables, **of_homes)
            for each in arms
            for ps in range(servers)
        ]
        # From here on, of all jobs together.
        workers, servers = workers * len(arms), servers * len(arms)
        hosts_count = workers + servers
        # Keep references: the world has only their addresses.
        self._switch, self._output_buffer = switch, np.zeros(OUT_CAPACITY, np.uint8)
        cabling = cabling_of(network, hosts, arm.name, workers, servers, system.topology)
        queues = make_queues(shapes_of(network, len(cabling.links)))
        # First capacity for frames and events; `make_room` doubles it if necessary.
        max_frames = 4 * WINDOW * workers + 4 * MARGIN
        world_header = _make_header(arm, workers, servers, network, switch, self._output_buffer, system.seed)
        world_header.uplinks = cabling.uplinks
        world = World(
            header=world_header,
            heap=records(max_frames + 8 * hosts_count + 4 * MARGIN, ScheduledEvent),
            frames=records(0, FrameState),
            octets=np.zeros((0, 0), np.uint8),
            free=np.zeros(0, np.int64),
            links=cabling.links,
            interfaces=cabling.interfaces,
            ports=cabling.ports,
            switches=_make_switches(system, switch, len(cabling.ports)),
            queues=queues,
            queued=np.zeros(len(queues.slots), np.int64),
            ready=np.zeros(len(cabling.links), np.int64),
            deferred=records(MAX_DEFERRED, Deferred),
            outages=outages_of(network, workers),
            agents=_make_agents(workers, servers, hosts),
            inbox=np.zeros((hosts_count, INBOX_FRAMES), np.int64),
            cores=_make_cores(workers, servers, hosts),
            run_queues=np.zeros(
                (_number_of_cores(workers, servers, hosts), _power_of_two(hosts_count)), np.int64
            ),
            burst=np.zeros(BURST, np.int64),
            heads=heads,
            costs=costs_of(hosts, arm.name),
            workers=_stack_states([client.state for client in self.clients]),
            servers=_stack_states(server_states),
        )
        self.world = with_frames(world, max_frames)
        self.pinned_ref = pinned_ref(self.world, write_world)
        # Columns of the world as arrays, which Python reads ten times faster than its records.
        header, agents_array = np.asarray(self.world.header), np.asarray(self.world.agents)
        self._now = header["now"].reshape(-1)
        self._agent = header["agent"].reshape(-1)
        self._woke_idle_core = agents_array["woke_idle_core"]
        for k, outage in enumerate(self.world.outages):
            push_event(self.world, int(outage.begin_ns), OUTAGE_BEGINS, k, ABSENT)
        for w, client in enumerate(self.clients):
            client.adopt(row_of(self.world.workers, w))
        self.servers = [row_of(self.world.servers, p) for p in range(servers)]
        for server in self.servers:
            configure_server(design, server, system.settings)
        self.stores = [
            # Servers are numbered job by job.
            agents.store(server, arms[p * len(arms) // servers].job, system.has_replay_logs)
            for p, server in enumerate(self.servers)
        ]
        self._connection_records: list[list[NDArray[np.void]]] = [[] for _ in self.servers]

    @property
    def now(self) -> int:
        return int(self._now[0])

    @property
    def event_agent(self) -> int:
        """The agent for which the event loop has returned."""
        return int(self._agent[0])

    def woke_idle_core(self, agent: int) -> bool:
        return bool(self._woke_idle_core[agent])

    def load_hot_set(self, keys: Keys) -> None:
        """Put keys into the switch with value 0, without using simulated time; call this before any event."""
        self._switch.load(self.arm.job, keys.tolist(), self._key_ranges)
        by_number = [keys] if self._topology is None else self._topology.keys_by_number(keys)
        upper = 0 if self._topology is None else self._topology.count_at_spines(len(keys))
        for store in self.stores:
            self._switch.state_ops.release_to_switch(store, by_number)
        for client in self.clients:
            client.hint(keys, upper)
        self._wake_servers()

    def staleness(self) -> Staleness | None:
        """Return the ages of the copies that servers have replaced; None if none has published any."""
        ages = [store_ages._asdict() for store in self.stores if (store_ages := store.copy_ages())]
        return Staleness.of(ages) if ages else None

    def hold(self) -> None:
        """Suspend the servers' own exchange with the switch until `publish`."""
        if (hold := self._switch.state_ops.hold) is not None:
            for store in self.stores:
                hold(store)

    def publish(self) -> None:
        for store in self.stores:
            self._switch.state_ops.publish(store, self.now)
        self._wake_servers()

    def _wake_servers(self) -> None:
        # If all keys are in the switch, a server may never be woken by a frame.
        for p, server in enumerate(self.servers):
            if server.header.due <= self.now:
                wake_agent(self.pinned_ref, len(self.clients) + p)

    def worker_used_ns(self) -> list[int]:
        times: list[int] = self.world.agents.used_ns[: len(self.clients)].tolist()
        return times

    def server_used_ns(self) -> int:
        return int(self.world.agents.used_ns[len(self.clients) :].sum())

    def count_of_servers(self, counter: str) -> int:
        """Return the sum of a counter of all servers, a field of `SimulatedAgent`."""
        return int(self.world.agents[counter][len(self.clients) :].sum())

    def queued_ns(self) -> dict[str, int]:
        """Return how long each agent was ready to run but had no core, ns."""
        workers = [f"worker-{number}" for number in range(1, len(self.clients) + 1)]
        names = [*workers, *(f"ps-{number}" for number in range(len(self.servers)))]
        return dict(zip(names, self.world.agents.queued_ns.tolist(), strict=True))

    def retransmissions(self) -> list[int]:
        counts: list[int] = self.world.workers.header.retransmissions.tolist()
        return counts

    def collect_connection_records(self, p: int) -> None:
        server = self.servers[p]
        self._connection_records[p].append(
            np.array(server.connection_records[: server.header.n_connection_records])
        )
        server.header.n_connection_records = 0

    def drain_log(self, a: int) -> None:
        """Discard the log rows of a worker, or keep those of a server for `pop_connection_records`."""
        if a < len(self.clients):
            self.clients[a].take_records()
        else:
            self.collect_connection_records(a - len(self.clients))

    def pop_connection_records(self, p: int) -> list[NDArray[np.void]]:
        popped, self._connection_records[p] = self._connection_records[p], []
        return popped

    def make_room(self) -> None:
        world = with_frames(self.world, 2 * len(self.world.frames))
        self.world = with_arrays(world, heap=extend(world.heap, 2 * len(world.heap), ScheduledEvent))
        self.pinned_ref = pinned_ref(self.world, write_world)


def _replay_log(system: SimulatedSystem) -> ReplayLog:
    homes: ServerHomes = () if system.topology is None else system.topology.home_indexes
    words = np.zeros((len(homes) or 1) * system.space.n_values + UNDO_WORDS, np.int64)
    return ReplayLog.in_memory(words, system.space, system.largest_batch, homes)


row_of = cast(Compiled, row).plain


@cache
def _virtual_client(
    client: type[BaseClient],
) -> Any:  # a new class of each design
    return type(f"Virtual{client.__name__}", (VirtualClient, client), {})


def _stack(arrays: Sequence[Any]) -> Any:  # arrays or records of any type
    """Stack arrays, or records, of one kind along a new first axis; shorter ones are padded with zeros."""
    first = arrays[0]
    shape = tuple(np.max([each.shape for each in arrays], axis=0).astype(int)) if first.shape else ()
    stacked = sparse_zeros((len(arrays), *shape), first.dtype)
    for k, each in enumerate(arrays):
        # Pages of zeros take no memory until they are written.
        if not first.shape or np.frombuffer(each, np.uint8).any():
            index: tuple[int | slice, ...] = (k, *(slice(size) for size in each.shape))
            stacked[index] = each
    return as_records(stacked) if first.dtype.names else stacked


def _stack_states(states: Sequence[Any]) -> Any:  # the state class of any design
    def stack_field(columns: Sequence[Any]) -> Any:  # arrays, or tuples of them
        if hasattr(columns[0], "_fields"):
            return _stack_states(columns)
        return _stack(columns) if columns[0].flags.writeable else columns[0]

    return type(states[0])(*map(stack_field, zip(*states, strict=True)))


def _make_header(
    arm: Arm,
    workers: int,
    servers: int,
    network: Network,
    switch: Switches,
    out: NDArray[np.uint8],
    seed: int,
) -> WorldHeader:
    header = one_record(WorldHeader)
    header.workers, header.servers, header.random = workers, servers, np.uint64(seed)
    header.workers_per_rack, header.connections = network.rack or 0, 1 if arm.settings.proxies else workers
    header.out, header.out_bytes = out.ctypes.data, len(out)
    header.traced, header.frame_offset = ABSENT, FRAME_OFFSET
    # A packet of the traffic manager takes the room of its record.
    header.frame_room = FRAME_BYTES + switch.pipelines[0].queue_record_bytes
    header.frame_stride = -(-(FRAME_OFFSET + header.frame_room) // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
    return header


def _make_switches(system: SimulatedSystem, switch: Switches, number: int) -> Records[SwitchState]:
    switches = records(number, SwitchState)
    for state, pipeline in zip(switches, switch.pipelines, strict=False):  # those of racks have no program
        state.process, state.state = pipeline.process_address, pipeline.state_address
        state.latency, state.gap_ps = switch_times_of(system.network)
        state.reflect_ns = pass_times_of(system.hosts, system.arm.name).answered
    return switches


def _make_agents(workers: int, servers: int, hosts: HostCosts) -> Records[SimulatedAgent]:
    agents = records(workers + servers, SimulatedAgent)
    agents.alarm = agents.driver_due = NEVER
    worker_cores = hosts.worker_cores or workers
    agents.core[:workers] = np.arange(workers) % worker_cores
    agents.core[workers:] = worker_cores + np.arange(servers) % (hosts.server_cores or servers)
    agents.slowdown = np.repeat((1.0, 1 / hosts.server_share), (workers, servers))
    return agents


def _number_of_cores(workers: int, servers: int, hosts: HostCosts) -> int:
    return (hosts.worker_cores or workers) + (hosts.server_cores or servers)


def _make_cores(workers: int, servers: int, hosts: HostCosts) -> Records[SimulatedCore]:
    cores = records(_number_of_cores(workers, servers, hosts), SimulatedCore)
    cores.running = ABSENT
    return cores


def _power_of_two(minimum: int) -> int:
    return 1 << (minimum - 1).bit_length()


def _heads(design: Design, arms: Sequence[Arm], workers: int, servers: int) -> NDArray[np.uint8]:
    """Return heads of frames [agents, peers, bytes]: of agents workers come first, of peers servers."""
    heads_by_job = [
        _heads_of_job(design, arm, job_index, workers, servers) for job_index, arm in enumerate(arms)
    ]
    return np.concatenate(
        [*(heads[:workers] for heads in heads_by_job), *(heads[workers:] for heads in heads_by_job)]
    )


def _heads_of_job(design: Design, arm: Arm, job_index: int, workers: int, servers: int) -> NDArray[np.uint8]:
    worker_endpoints = [
        UdpEndpoint(host.mac, host.address, addressing.worker_udp_port(arm.job))
        for host in (addressing.worker(job_index * workers + number) for number in range(1, workers + 1))
    ]
    numbers = range(job_index * servers + 1, (job_index + 1) * servers + 1)
    server_endpoints, service_endpoints = (
        [UdpEndpoint(host.mac, host.address, design.udp_port) for host in map(host_of, numbers)]
        for host_of in (addressing.server, addressing.service if design.has_services else addressing.server)
    )
    placeholder = worker_endpoints[0]
    sources = _octets(
        [frames.build(UdpFrame(each, placeholder, b"")) for each in worker_endpoints + server_endpoints]
    )
    peers = _octets(
        [frames.build(UdpFrame(placeholder, each, b"")) for each in service_endpoints + worker_endpoints]
    )
    heads = np.repeat(sources[:, np.newaxis], len(peers), axis=1)
    for field in frames.DESTINATION:
        heads[:, :, field] = peers[np.newaxis, :, field]
    return heads


def _octets(built_frames: Sequence[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(built_frames), np.uint8).reshape(len(built_frames), HEAD_BYTES)
