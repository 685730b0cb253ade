"""The network that schedules are played on: made once, and put back to its beginning for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.tables import Change, Update
from experiment.designs import rows
from foundation.designs.interface import Arm
from foundation.designs.registry import design
from foundation.protocol.addressing import CPU_PORT
from foundation.protocol.codec import Caller
from hosts.keys import KeySpace
from hosts.ps.share import Share
from hosts.worker.replay import ReplayLog
from nativekit.reference import as_ref, pinned_ref
from simulator.compile import entry_point
from simulator.config import SimulationConfig
from simulator.contents import CONTENTS, Entry
from simulator.cores import make_ready
from simulator.costs import Hosts, Network
from simulator.faults.operations import KEYS, REPLAYING, give_up, make_operations, play
from simulator.faults.schedule import SERVERS, WORKERS, Schedule
from simulator.faults.servers import VirtualServer
from simulator.faults.switch import VirtualSwitch
from simulator.links import carry
from simulator.loop import awake
from simulator.simulated_switch import CompiledConfig
from simulator.state import AT_SWITCH, FRAME, ME, World, record_of
from simulator.switch import pass_from
from simulator.world import Simulated, row_of

_COSTS = Hosts(
    wake_ns=500, idle_ns=1_000, encode_ns=100, send_ns=300, take_ns=200, receive_ns=100, begin_ns=2_000,
    serve_ns=100, lane_ns=5,
)  # fmt: skip
_JOURNAL_BYTES = 1 << 20
assert FRAME.fields is not None
_HEAD_AT = int(FRAME.fields["head"][1])
_AS_THEY_WERE = ("frames", "heap", "inbox", "burst", "aside", "waiting")
"""Arrays of a world that nobody reads where nothing has been written."""
_NOT_READ = {"calls": ("sent", "log", "space"), "servers": ("contacts", "journal")}


class Bed:
    """Three workers, two servers and a switch, in one arm. `compiled` replaces the design's program."""

    def __init__(self, arm: Arm, compiled: CompiledConfig | None = None) -> None:
        self.arm = arm
        self.space = KeySpace(KEYS)
        self.config = SimulationConfig(workers=WORKERS, servers=SERVERS, design=arm.design)
        self.design = design(arm.design)
        self.switch = VirtualSwitch(arm.design, compiled)
        self.network = Simulated(
            self.design, arm, self.switch, self.space, KEYS, WORKERS, SERVERS, Network(), _COSTS, 1,
            journal_bytes=_JOURNAL_BYTES, keeps=True,
        )  # fmt: skip
        self.world = self.network.world
        self._pinned_world = self.network.pinned_ref
        self._now = _field(self.world.me, "now")
        self.dead = _field(self.world.agents, "dead")
        """int64[agents]: whether each is."""
        self._unused = _field(self.world.me, "free")
        self._aside = _field(self.world.me, "aside")
        self._length = _field(self.world.frames, "length")
        self.operations = make_operations(WORKERS)
        self._pinned_operations = pinned_ref(self.operations)
        self.rows = rows(self.config, [arm])
        self.switch.write([Update(Change.INSERT, row) for row in self.rows])
        self._provisioned = self.switch.image()
        self._me = record_of(self.world).copy()
        self._pristine = [(array, array.copy()) for array in _arrays(self.world)]
        self._octets = [(_octets_of(array), _octets_of(was)) for array, was in self._pristine]
        self._frame_bytes = self.world.frames.view(np.uint8).reshape(len(self.world.frames), FRAME.itemsize)
        mine = {array.ctypes.data for array in _flat(self.world.servers, _NOT_READ["servers"])}
        self._pristine_servers = [pair for pair in self._pristine if pair[0].ctypes.data in mine]
        kept = self.world.calls.replay_log if self.design.is_durable else ()
        self.logs = [ReplayLog.in_memory(each, KEYS) for each in kept]
        """Of each worker, where it keeps one."""
        self.unknown: list[tuple[int, int]] = []
        """Keys, and what may be missing of them: what was pushed again by workers that died in it."""
        self._clients = list(self.network.clients)
        for client, log in zip(self._clients, self.logs, strict=False):
            client.log = log
        self.servers = [
            VirtualServer(self.network, self.switch.contents, self.space, p, SERVERS, lambda: self.now)
            for p in range(SERVERS)
        ]

    @property
    def now(self) -> int:
        """Virtual time, ns."""
        return int(self._now[0])

    @now.setter
    def now(self, time: int) -> None:
        self._now[0] = time

    def reset(self, schedule: Schedule, hot: Sequence[int]) -> None:
        """Begin again, with these keys in the switch."""
        world, operations = self.world, self.operations
        for octets, were in self._octets:
            octets[:] = were
        for name in ME.names or ():
            record_of(world)[name] = self._me[name]
        for links in (world.up, world.down):
            links.delay = schedule.delay_us * 1_000
            links.loss, links.duplication = schedule.loss, schedule.duplication
            links.reordering, links.late_ns = schedule.reordering, schedule.extra_delay_us * 1_000
            links.impaired = max(schedule.loss, schedule.duplication, schedule.reordering) > 0
        world.me.random = np.uint64(schedule.seed)
        operations.lines[...] = np.zeros(1, operations.lines.dtype)[0]
        me = operations.me
        me.seed, me.random = np.uint64(schedule.seed), np.uint64(schedule.seed ^ 0x5EED)
        me.begin_ns, me.think_ns = _COSTS.begin_ns, schedule.think_us * 1_000
        me.pulls, me.share, me.is_extreme = schedule.pulls, schedule.share, schedule.is_extreme
        me.answered = me.is_closing = 0
        for server in self.servers:
            server.forget()
        for log in self.logs:
            log.forget()
        self.unknown.clear()
        self.network.clients[:] = self._clients
        self._reset_switch(hot)

    def _reset_switch(self, hot: Sequence[int]) -> None:
        switch = self.switch
        switch.restart()
        switch.restarts = switch.sessions = 0
        switch.pipeline.load_image(self._provisioned)
        switch.rows = {row.identity: row for row in self.rows}
        contents = switch.contents
        arriving = contents.arriving([], self.arm.job, hot)
        switch.write([Update(Change.INSERT, row) for row in arriving])
        keys = np.array(hot, np.uint64)
        for server in self.servers:
            server.lend_at_first(keys)
        for client in self.network.clients:
            client.hint(keys)

    def go_on(self, until: int) -> int:
        """Let everything happen before a time, until Python is needed; returns why the loop has come back."""
        return play(self._pinned_world, self._pinned_operations, until)

    # -- frames

    def take_left(self) -> Iterator[tuple[int, bytes]]:
        """The frames that the loop has left: whose, and their bytes."""
        left = self.world.aside[: self._aside[0]].tolist()
        self._aside[0] = 0
        for who, f in left:
            octets = self._frame_bytes[f, _HEAD_AT : _HEAD_AT + int(self._length[f])].tobytes()
            self._free(f)
            yield who, octets

    def send(self, host: int, frame: bytes) -> None:
        """Let a host send a frame now."""
        _send_up(self._pinned_world, host, self._put(frame), self.now)

    def packet_out(self, frame: bytes) -> None:
        """Let the controller send a frame, with its header."""
        _send_out(self._pinned_world, self._put(frame), self.now)

    def _put(self, frame: bytes) -> int:
        self._unused[0] -= 1
        f = int(self.world.free[self._unused[0]])
        self._frame_bytes[f, _HEAD_AT : _HEAD_AT + len(frame)] = np.frombuffer(frame, np.uint8)
        self._length[f] = len(frame)
        return f

    def _free(self, f: int) -> None:
        self.world.free[self._unused[0]] = f
        self._unused[0] += 1

    # -- agents

    def ask(self, w: int) -> None:
        """Worker `w` is asked what to do now."""
        awake(self._pinned_world, w)

    def silence(self, a: int) -> None:
        """Agent `a` dies, with what waits for it."""
        if a < WORKERS:
            if self.operations.lines.state[a] == REPLAYING:
                self._note_part(a)
            give_up(self._pinned_world, self._pinned_operations, a)
        agent, ring = self.world.agents[a], self.world.inbox[a]
        for k in range(int(agent.waiting)):
            self._free(int(ring[(int(agent.first) + k) % len(ring)]))
        agent.dead, agent.waiting = 1, 0

    def _note_part(self, w: int) -> None:
        """What worker `w` pushes again is in its file, and so is which of it has been answered."""
        calls, log = self.network.clients[w].state, self.logs[w]
        n = int(calls.header["n_keys"])
        log.note(calls.positions[:n], calls.deltas[:n])[:] = calls.answered[:n]
        log.mark_taken()
        unknown = log.unacked(log.switch).unknown
        self.unknown += [(int(key), -int(unknown[key])) for key in np.flatnonzero(unknown)]

    def revive_worker(self, w: int, epoch: int, switch: int) -> None:
        """Worker `w` begins again at a switch, as a process does; its replay log is still there."""
        log = self.logs[w]
        log.restore(switch)
        make = type(self._clients[w])
        fresh = make(
            Caller(self.arm.job, w + 1, epoch), SERVERS, self.space, lambda: self.now, largest=KEYS, log=log
        )
        made = fresh.state
        fresh.adopt(row_of(self.world.calls, w))
        for name, array in made._asdict().items():
            # What is kept is the log's, and the space everybody's.
            if name not in ("replay_log", "space"):
                array = np.asarray(array)
                getattr(self.world.calls, name)[(w, *map(slice, array.shape))] = array
        self.network.clients[w] = fresh
        self._revive(w)

    def revive_server(self, p: int) -> None:
        """Server `p` begins again; its journal is a file, and is still there."""
        server = self.servers[p]
        notes = server.state.journal[: int(server.state.header.noted)].tobytes()
        for array, was in self._pristine_servers:
            array[p] = was[p]
        server.recover(notes)
        self._revive(WORKERS + p)

    def _revive(self, a: int) -> None:
        agent = self.world.agents[a]
        agent.dead = agent.half = agent.stalled = agent.until = 0
        _make_ready(self._pinned_world, a, self.now)

    def wake(self, a: int) -> None:
        """Agent `a` has something to do."""
        _make_ready(self._pinned_world, a, self.now)

    # -- what is held

    def held(self) -> NDArray[np.uint32]:
        """Value of each key, wherever it is."""
        switch = self.switch
        total = switch.contents.values(switch.pipeline, switch.entries, self.space)
        for server in self.servers:
            held = server.store.held()
            total[self.space.positions(held.keys)] += held.values
        return total

    @property
    def keeps_parameters(self) -> bool:
        """Controllers have the switch hold some."""
        return CONTENTS.module_for(self.design) is not None

    def in_motion(self) -> list[Entry]:
        """Entries of keys that are on their way."""
        return [entry for entry in self.switch.entries if self.switch.contents.is_moving(entry)]


def _arrays(world: World) -> Iterator[NDArray[np.generic]]:
    for name, field in world._asdict().items():
        if name in ("calls", "servers"):
            yield from _flat(field, _NOT_READ[name])
        elif name == "port_queues":
            continue
        elif name not in (*_AS_THEY_WERE, "me", "costs"):
            yield field


def _field(of: object, name: str) -> NDArray[np.int64]:
    """A field of a record, [1], or of an array of them, as an array: Python reads it ten times faster."""
    return np.asarray(of)[name].reshape(-1)


def _octets_of(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _flat(tuples: Any, without: Sequence[str]) -> Iterator[NDArray[np.generic]]:  # of a design's own class
    for name, field in tuples._asdict().items():
        if isinstance(field, Share) or name in without:
            continue
        yield field


@entry_point
def _send_up(world: World, host: int, f: int, now: int) -> None:
    world = as_ref(world)
    carry(world, world.up[host], f, now, AT_SWITCH, host)


@entry_point
def _send_out(world: World, f: int, now: int) -> None:
    pass_from(as_ref(world), CPU_PORT, f, now)


@entry_point
def _make_ready(world: World, a: int, now: int) -> None:
    make_ready(as_ref(world), a, now)
