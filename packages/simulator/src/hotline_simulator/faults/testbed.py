"""The simulated testbed that fault schedules are played on, which is reset before each schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from controller.network_rows import rows_of_switch
from controller.tables import Change, InitialRow, JobRow, Update
from experiment.design_parts import initial_rows
from foundation.designs.interface import Arm
from foundation.designs.registry import design
from foundation.protocol.addressing import CPU_PORT
from foundation.protocol.codec import Caller
from foundation.protocol.header import LANES
from foundation.protocol.leaf_spine import SPINE, LeafSpine, ServerHomes
from foundation.protocol.rows import ONE_VALUE, RowRanges
from hosts.keys import KeySpace
from hosts.ledger import UnfinishedPush
from hosts.replay import ReplayLog, SwitchNumbers
from hosts.succession import Remainder
from hotline_simulator.config import SimulationConfig
from hotline_simulator.cores import make_ready
from hotline_simulator.costs import HostCosts, set_frame_faults
from hotline_simulator.faults.operations import (
    IN_OPERATION,
    KEYS,
    REPLAYING,
    abandon_operation,
    complete_push,
    continue_push,
    make_operations,
    run_operations,
)
from hotline_simulator.faults.schedule import SERVERS, WORKERS, FaultSchedule
from hotline_simulator.faults.servers import RestartableServer, ServerHost
from hotline_simulator.faults.succession import Killed, SuccessorHost
from hotline_simulator.faults.switch import RestartableSwitch
from hotline_simulator.leaf_spine_switches import LeafSpineSwitches
from hotline_simulator.loop import wake_agent
from hotline_simulator.simulated_switch import CompiledConfig
from hotline_simulator.snapshot import WorldSnapshot
from hotline_simulator.state import World, entry_point
from hotline_simulator.switch_state import Entry
from hotline_simulator.system import SimulatedSystem
from hotline_simulator.world import SimulatedNetwork, row_of
from nativekit.compile import int64
from nativekit.records import Records
from nativekit.reference import as_ref, pinned_ref
from softswitch.network.arrays import frame_octets
from softswitch.network.links import send
from softswitch.network.state import AT_CONTROLLER, LinkState
from softswitch.network.switching import enter_switch

_COSTS = HostCosts(
    wake_ns=500, idle_ns=1_000, encode_ns=100, send_ns=300, take_ns=200, receive_ns=100, begin_ns=2_000,
    serve_ns=100, lane_ns=5, value_ns=0, operation_value_ns=0,
)  # fmt: skip
_JOURNAL_BYTES = 1 << 20
_NS_PER_US = 1_000
_OPERATIONS_SALT = 0x5EED  # makes random operations differ from the random faults of the same seed


class ExternalWorker(Protocol):
    """A worker outside of the world's loop, which begins its operations when it is `due` (ns, or NEVER)."""

    @property
    def due(self) -> int: ...

    def receive(self, frame: bytes) -> None: ...

    def wake(self, now: int) -> None: ...


class SimulatedTestbed:
    """Three workers, two servers and a switch, in one arm. `compiled`, if given, replaces its program.

    With a `topology` there is a network of switches in place of the switch.

    `ranges` has the dims of the rows of its `KEYS` keys.

    Of the agents, workers first, those that `is_external` selects by number act outside of the world's loop.
    """

    def __init__(
        self,
        arm: Arm,
        compiled: CompiledConfig | None = None,
        is_external: Callable[[int], bool] = lambda agent: False,
        ranges: RowRanges = ONE_VALUE,
        topology: LeafSpine | None = None,
    ) -> None:
        self.arm, self.topology = arm, topology
        self.space = KeySpace(KEYS, None, ranges)
        self.config = SimulationConfig(workers=WORKERS, servers=SERVERS, design=arm.design)
        self.design = design(arm.design)
        numbers = range(1) if topology is None else topology.switches
        self.switches = [RestartableSwitch(arm.design, compiled) for _ in numbers]
        self.homes = [SPINE] if topology is None else topology.homes
        """Numbers of the switches with hot sets."""
        self.state_ops = self.switches[0].state_ops
        system = SimulatedSystem(
            design=self.design, arm=arm, space=self.space, largest_batch=KEYS, workers=WORKERS,
            servers=SERVERS, hosts=_COSTS, journal_bytes=_JOURNAL_BYTES, has_replay_logs=True,
            topology=topology,
        )  # fmt: skip
        only_switch = self.switches[0]
        all_switches = (
            only_switch if topology is None else LeafSpineSwitches(self.design, topology, self.switches)
        )
        self.network = SimulatedNetwork(system, all_switches)
        self.world = self.network.world
        self.world_ref = self.network.pinned_ref
        self._now = _field_array(self.world.header, "now")
        self.dead = _field_array(self.world.agents, "dead")
        self._free_count = _field_array(self.world.header, "free")
        self._deferred_count = _field_array(self.world.header, "deferred")
        self._frame_lengths = _field_array(self.world.frames, "length")
        self.operations = make_operations(WORKERS, self.space)
        self.operations_ref = pinned_ref(self.operations)
        self._rows = [
            replace(row, ranges=ranges) if isinstance(row, JobRow) else row
            for row in initial_rows(self.config, [arm])
        ]
        for number, switch in enumerate(self.switches):
            switch.write([Update(Change.INSERT, row) for row in self.rows_of(number)])
        self._provisioned_images = [switch.image() for switch in self.switches]
        self.world.agents.is_external = [is_external(agent) for agent in range(WORKERS + SERVERS)]
        self._snapshot = WorldSnapshot(self.world)
        replay_arrays = self.world.workers.replay_log if self.design.is_durable else ()
        server_homes: ServerHomes = () if topology is None else topology.home_indexes
        self.logs = [ReplayLog.in_memory(each, self.space, KEYS, server_homes) for each in replay_arrays]
        self.killed: dict[int, Killed] = {}
        self.successors: dict[int, SuccessorHost] = {}
        """Workers that end the push of a killed one, by number."""
        self.settled_unknown_updates: list[tuple[int, int]] = []
        """`unknown_updates` of killed workers whose rank another has taken."""
        self._clients = list(self.network.clients)
        for client, log in zip(self._clients, self.logs, strict=False):
            client.log = log
        self.servers = [
            RestartableServer(self.network, self.state_ops, self.space, p, SERVERS, lambda: self.now)
            for p in range(SERVERS)
        ]
        self.server_hosts: list[ServerHost] = list(self.servers)
        self.external_workers: dict[int, ExternalWorker] = {}  # by number, from 0
        self.is_rpc_target_reached = False  # by the operation of an external worker

    @property
    def now(self) -> int:
        return int(self._now[0])

    @now.setter
    def now(self, time: int) -> None:
        self._now[0] = time

    def reset(self, schedule: FaultSchedule, hot_keys: Sequence[int]) -> None:
        world, operations = self.world, self.operations
        self._snapshot.restore()
        for links in self.links:
            links.delay = schedule.delay_us * _NS_PER_US
            links.max_extra_delay = schedule.extra_delay_us * _NS_PER_US
            set_frame_faults(links, schedule.loss, schedule.duplication, schedule.reordering)
        world.header.random = np.uint64(schedule.seed)
        operations.progress[...] = np.zeros(1, operations.progress.dtype)[0]
        header = operations.header
        header.seed, header.random = np.uint64(schedule.seed), np.uint64(schedule.seed ^ _OPERATIONS_SALT)
        header.begin_ns, header.think_ns = _COSTS.begin_ns, schedule.think_us * _NS_PER_US
        header.pull_probability, header.key_probability, header.is_extreme = (
            schedule.pulls,
            schedule.share,
            schedule.is_extreme,
        )
        header.combination = self.design.combination.code
        header.answered = header.is_closing = header.torn = 0
        for server in self.server_hosts:
            server.reset()
        for log in self.logs:
            log.reset_head()
        for w in self.successors:
            del self.external_workers[w]
        self.successors.clear()
        self.killed.clear()
        self.settled_unknown_updates.clear()
        self.network.clients[:] = self._clients
        for number in range(len(self.switches)):
            self._reset_switch(number, self.keys_at(number, hot_keys))
        keys = np.array(hot_keys, np.uint64)
        by_number = [keys] if self.topology is None else self.topology.keys_by_number(keys)
        for server in self.server_hosts:
            server.release_initial_keys(by_number)
        for client in self.network.clients:
            client.hint(keys)

    def _reset_switch(self, number: int, hot_keys: Sequence[int]) -> None:
        switch = self.switches[number]
        switch.restart(self._provisioned_images[number])
        switch.restarts = 0
        switch.rows = {row.identity: row for row in self.rows_of(number)}
        # No keys are loaded: the switch has only its provisioned rows.
        rows_to_load = self.state_ops.rows_to_load([], self.arm.job, hot_keys, LANES, self.space.key_ranges)
        switch.write([Update(Change.INSERT, row) for row in rows_to_load])

    def rows_of(self, switch: int) -> list[InitialRow]:
        """Return the rows that a switch has before agents start."""
        return self._rows if self.topology is None else rows_of_switch(self._rows, self.topology, switch)

    def keys_at(self, switch: int, keys: Sequence[int]) -> list[int]:
        """Return those of these hot keys that belong into a switch."""
        return [*keys] if self.topology is None else self.topology.keys_by_home(keys).get(switch, [])

    def homes_of_worker(self, w: int) -> list[int]:
        """Return the switches with hot sets that a worker, counted from 0, uses."""
        return self.homes if self.topology is None else self.topology.homes_of_worker(w + 1)

    @property
    def links(self) -> tuple[Records[LinkState], ...]:
        """All cables and uplinks."""
        return self.world.up, self.world.down, self.world.racks_up, self.world.racks_down

    def run(self, until: int) -> int:
        return run_operations(self.world_ref, self.operations_ref, until)

    # -- frames

    def take_deferred(self) -> Iterator[tuple[bool, int, bytes]]:
        """Yield frames that wait: whether for a controller, the number of its switch or a host, the frame."""
        deferred = self.world.deferred[: self._deferred_count[0]].tolist()
        self._deferred_count[0] = 0
        for kind, agent, f in deferred:
            octets = frame_octets(self.world, f)[: int(self._frame_lengths[f])].tobytes()
            self._free_frame(f)
            yield kind == AT_CONTROLLER, agent, octets

    def send(self, host: int, frame: bytes) -> None:
        _send_up(self.world_ref, host, self._store_frame(frame), self.now)

    def packet_out(self, switch: int, frame: bytes) -> None:
        _send_out(self.world_ref, switch, self._store_frame(frame), self.now)

    def _store_frame(self, frame: bytes) -> int:
        self._free_count[0] -= 1
        f = int(self.world.free[self._free_count[0]])
        frame_octets(self.world, f)[: len(frame)] = np.frombuffer(frame, np.uint8)
        self._frame_lengths[f] = len(frame)
        return f

    def _free_frame(self, f: int) -> None:
        self.world.free[self._free_count[0]] = f
        self._free_count[0] += 1

    # -- agents

    def wake_driver(self, w: int) -> None:
        # An external worker acts when it is due.
        if w not in self.external_workers:
            wake_agent(self.world_ref, w)

    def kill_agent(self, a: int) -> None:
        if a < WORKERS and a not in self.successors:
            self._preserve_push(a)
            abandon_operation(self.world_ref, self.operations_ref, a)
        agent, ring = self.world.agents[a], self.world.inbox[a]
        for k in range(int(agent.waiting)):
            self._free_frame(int(ring[(int(agent.first) + k) % len(ring)]))
        agent.dead, agent.waiting = 1, 0

    def _preserve_push(self, w: int) -> None:
        """Keep what the files of a worker that is killed would have."""
        state, worker_state = self.network.clients[w].state, int(self.operations.progress.state[w])
        if worker_state == REPLAYING:
            # Write to the log what a worker's `replay` would have written before it died.
            log, n = self.logs[w], int(state.header["n_keys"])
            positions = state.positions[:n]
            answered = log.note(positions, state.deltas[: self.space.count_values(positions)])
            answered[:] = state.answered[:n]
            log.mark_taken()
        log_of_worker = self.logs[w] if self.logs else None
        self.killed[w] = Killed.of_client(state, worker_state == IN_OPERATION, self.space, log_of_worker)

    def unknown_updates(self, w: int) -> list[tuple[int, int]]:
        """Return (key, -delta) of each row in a killed worker's replay whose outcome is unknown.

        It is the change of a sum if the acknowledged update, which was replayed, is missing.
        """
        if not self.logs:
            return []
        # `unknown` does not depend on the switch numbers.
        unknown_sums = self.logs[w].unacked(self.logs[w].switch_numbers).unknown
        unknown_sums = unknown_sums[self.space.first_values(np.arange(KEYS))]
        return [(int(key), -int(unknown_sums[key])) for key in np.flatnonzero(unknown_sums)]

    def begin_succession(self, w: int, switches: SwitchNumbers) -> SuccessorHost:
        """Start a worker that ends the push of the killed one, as far as the switch can still answer."""
        killed = self.killed[w]
        host = SuccessorHost(self.arm, w, killed, self.space, self.send)
        self.successors[w] = self.external_workers[w] = host
        self.world.agents[w].is_external = 1
        self.world.agents[w].dead = 0
        is_same_switch = killed.log is None or killed.log.switch_numbers == switches
        if not (is_same_switch and killed.sent.is_complete):
            host.interrupt()
        return host

    def end_succession(self, w: int, epoch: int, switches: SwitchNumbers) -> None:
        """Start the worker's own client, which pushes what is left of the killed worker's push."""
        host = self.successors.pop(w)
        del self.external_workers[w]
        self.world.agents[w].is_external = 0
        push, remainder = self.killed[w].push, None
        if push is not None:
            self._record_added(w, push, is_whole=bool(push.answered.all()))
        if host.is_interrupted:
            self.settled_unknown_updates += self.unknown_updates(w)
            host.ending.give_up()
        else:
            remainder = host.ending.end()
        self.restart_worker(w, epoch, switches)
        if remainder is not None:
            self._push_remainder(w, remainder)

    def _record_added(self, w: int, push: UnfinishedPush, is_whole: bool) -> None:
        keys = self.space.keys(self.space.positions_of(push.first[push.answered]))
        complete_push(self.operations, w, keys.astype(np.int64), is_whole=is_whole, now=self.now)

    def _push_remainder(self, w: int, remainder: Remainder) -> None:
        state, n = self.network.clients[w].state, len(remainder.positions)
        state.positions[:n] = remainder.positions
        state.deltas[: len(remainder.deltas)] = remainder.deltas
        continue_push(self.world_ref, self.operations_ref, w, n)
        self.wake_driver(w)

    def restart_worker(self, w: int, epoch: int, switches: SwitchNumbers) -> None:
        log = self.logs[w] if self.logs else None
        if log is not None:
            log.restore(switches)
        client_class = type(self._clients[w])
        new_client = client_class(
            Caller(self.arm.job, w + 1, epoch), SERVERS, self.space, lambda: self.now, max_keys=KEYS, log=log
        )
        if self.topology is not None:
            new_client.set_homes(self.topology.home_indexes)
            new_client.set_home_index(self.topology.home_index_of(w + 1))
        new_state = new_client.state
        # Write the new state into the world's arrays, which the client uses from now on.
        new_client.adopt(row_of(self.world.workers, w))
        for name, array in new_state._asdict().items():
            # The replay log persists, and all clients share the key space.
            if name not in ("replay_log", "space", "ranges"):
                array = np.asarray(array)
                getattr(self.world.workers, name)[(w, *map(slice, array.shape))] = array
        self.network.clients[w] = new_client
        self._restart_agent(w)

    def restart_server(self, p: int) -> None:
        server = self.servers[p]
        journal = server.state.journal[: int(server.state.header.journal_length)].tobytes()
        self._snapshot.restore_server(p)
        server.recover(journal)
        self._restart_agent(WORKERS + p)

    def _restart_agent(self, a: int) -> None:
        agent = self.world.agents[a]
        agent.dead = agent.phase = agent.stalled_until = agent.driver_due = 0
        _make_ready(self.world_ref, a, self.now)

    @property
    def servers_exchange(self) -> bool:
        """Whether servers exchange values with the switch without requests."""
        return self.state_ops.hold is not None

    def suspend_exchanges(self) -> None:
        suspend_server = self.state_ops.hold
        if suspend_server is not None:
            for server in self.servers:
                suspend_server(server.store)
                _make_ready(self.world_ref, WORKERS + server.p, self.now)

    # -- values

    def stored_values(self) -> NDArray[np.uint32]:
        # Each value in a switch is in one, and 0 in the others.
        total = np.zeros(self.space.n_values, np.uint32)
        for number in self.homes:
            switch = self.switches[number]
            total += self.state_ops.values(switch.pipeline, switch.entries, self.space)
        for server in self.server_hosts:
            keys, sums = server.sums()
            places = self.space.value_places(self.space.positions(keys))
            total[places] = self.design.combination.merge(total[places], sums)
        return total

    @property
    def has_switch_parameters(self) -> bool:
        return self.design.has_hot_set

    def moving_entries(self) -> list[Entry]:
        return [entry for entry in self.entries if self.state_ops.is_moving(entry)]

    @property
    def entries(self) -> list[Entry]:
        """The entries of hot keys in all switches."""
        return [entry for number in self.homes for entry in self.switches[number].entries]


def _field_array(records: object, name: str) -> NDArray[np.int64]:
    """Return a field of records as an array, which Python reads ten times faster than the records."""
    return np.asarray(records)[name].reshape(-1)


@entry_point
def _send_up(world: World, host: int, f: int, now: int) -> None:
    send(as_ref(world), host, f, now)


@entry_point
def _send_out(world: World, switch: int, f: int, now: int) -> None:
    world = as_ref(world)
    enter_switch(world, int64(world.ports[switch, CPU_PORT]), f, now, now)


@entry_point
def _make_ready(world: World, a: int, now: int) -> None:
    make_ready(as_ref(world), a, now)
