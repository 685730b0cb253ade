"""The kinds of faults: how each is injected and cleared, and whether it took effect."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

from controller.errors import NotPrimary
from experiment.faults import (
    FRAME_FAULTS,
    PROCESS_KILLS,
    SERVER_KILLED,
    SWITCH_KILLED,
    WORKER_KILLED,
    FrameFault,
)
from foundation.designs.registry import design as find_design
from foundation.protocol.leaf_spine import LeafSpine
from hosts.replay_words import acknowledged_sums
from hotline_agents.interface import NEVER
from hotline_simulator.faults.operations import KEYS
from hotline_simulator.faults.player import MS, Player, ScheduleOutcome
from hotline_simulator.faults.schedule import (
    ARMS,
    SERVERS,
    WORKERS,
    FaultInjection,
    FaultSchedule,
    network_of,
)
from hotline_simulator.faults.switch import ControllerProcess
from hotline_simulator.faults.testbed import SimulatedTestbed
from softswitch.network.state import LinkState

Need = Literal["durability", "successors", "switch state", "requests at servers", "uplinks"]
"""Durability: journals and replay logs. Successors: workers that end the push of a killed one, which those of
several homes have not. Switch state: parameters that controllers load into the switch.

The switch of a design with `values_register` may answer all requests, and so leave none to servers."""
_POLL_NS = 500_000
_MAX_WAIT_FOR_OPERATION_NS = 30_000  # until the next check whether a worker is in an operation
_MAX_ACTION_DELAY_NS = 200_000  # of an action during a load
_HOT_SET_SIZES = (4, 16, 40)
_CHECKPOINT_PROBABILITY = 0.5  # of a server that is killed
_NS_PER_US = 1_000


class Fault(ABC):
    name: ClassVar[str]
    row: ClassVar[str]  # description in the table of docs/reliability.md
    targets: ClassVar[int] = SERVERS  # number of possible targets at a single switch
    needs: ClassVar[Need | None] = None

    def __init__(self, player: Player, injection: FaultInjection) -> None:
        self._player, self._injection, self._testbed = player, injection, player.testbed
        self._answered_rpcs_before = player.count_answered()
        self.has_taken_effect = False

    @abstractmethod
    def inject(self) -> None:
        """Begin the fault as soon as its target is up, and schedule its end."""

    def clear(self) -> None:  # noqa: B027  # many faults end by themselves
        """Undo the fault, unless it ends by itself."""

    def took_effect(self) -> bool:
        return True

    def clear_after(self, ns: int) -> None:
        self._player.call_later(ns, self.end)

    def end(self) -> None:
        self.clear()
        self.has_taken_effect = self.took_effect()
        self._player.mark_recovered(self._answered_rpcs_before)

    @classmethod
    def count_targets(cls, arm: str) -> int:
        network = network_of(arm)
        return cls.targets if network is None else cls._count_in_network(network)

    @classmethod
    def _count_in_network(cls, network: LeafSpine) -> int:
        return cls.targets

    @property
    def _duration_ns(self) -> int:
        return self._injection.duration_us * _NS_PER_US

    def _inject_or_retry(self, is_possible: bool, inject: Callable[[], None]) -> None:
        if is_possible:
            inject()
        else:
            self._player.call_later(_POLL_NS, self.inject)


class CableSlow(Fault):
    name, row, targets = "delay", "a host's cable takes up to 50 ms longer for a while", WORKERS + SERVERS
    _counter = "frames"

    def inject(self) -> None:
        world, target = self._testbed.world, self._injection.target
        self._begin([world.up[target], world.down[target]])

    def _begin(self, links: Sequence[LinkState]) -> None:
        self._links = links
        self._counters_before = self._counters()
        self._apply_change(1)
        self.clear_after(self._duration_ns)

    def clear(self) -> None:
        self._apply_change(-1)

    def took_effect(self) -> bool:
        return self._counters() != self._counters_before

    def _counters(self) -> list[int]:
        return [int(getattr(link, self._counter)) for link in self._links]

    def _apply_change(self, sign: int) -> None:
        for link in self._links:
            link.delay += sign * self._injection.amount * _NS_PER_US


class CableDown(CableSlow):
    name, row = "link", "a host's cable is down for a while"
    _counter = "lost"

    def _apply_change(self, sign: int) -> None:
        for link in self._links:
            link.down_count += sign


class UplinkDown(CableDown):
    name, row = "uplink", "an uplink of a leaf is down in one direction for a while"
    needs = "uplinks"

    @classmethod
    def _count_in_network(cls, network: LeafSpine) -> int:
        return 2 * len([*network.links()])  # toward the spines, then from them

    def inject(self) -> None:
        world = self._testbed.world
        direction, uplink = divmod(self._injection.target, len(world.racks_up))
        self._begin([(world.racks_up, world.racks_down)[direction][uplink]])


class WorkerKilled(Fault):
    name, row, targets = WORKER_KILLED.name, WORKER_KILLED.row, WORKERS

    def inject(self) -> None:
        w = self._injection.target
        if self._testbed.world.agents.dead[w]:
            self._player.mark_recovered(self._answered_rpcs_before)
        elif self._injection.after_previous_us is None and not self._testbed.world.workers.header.pending[w]:
            # Wait for the middle of an operation; the time of a kill that follows another is given.
            delay_ns = self._player.random.randrange(_MAX_WAIT_FOR_OPERATION_NS)
            self._player.call_later(delay_ns, self.inject)
        else:
            self._player.cluster.kill_worker(w)
            self.schedule_end()

    def schedule_end(self) -> None:
        self.end()


class WorkerRestarted(WorkerKilled):
    name, row, needs = "worker restarted", "a worker dies, and another takes its rank", "successors"

    def schedule_end(self) -> None:
        self.clear_after(self._duration_ns)

    def clear(self) -> None:
        player, w = self._player, self._injection.target
        player.start_task(player.cluster.succeed_worker(w))
        player.worker_restart_times.append((w, self._testbed.now))


class ServerRestarted(Fault):
    name, row = SERVER_KILLED.name, SERVER_KILLED.row
    needs = "durability"

    def inject(self) -> None:
        self._inject_or_retry(
            not self._testbed.world.agents.dead[WORKERS + self._injection.target], self._kill
        )

    def _kill(self) -> None:
        p = self._injection.target
        # A checkpoint just before the kill leaves no note, unless the server is in a move.
        if self._player.random.random() < _CHECKPOINT_PROBABILITY:
            self._testbed.servers[p].persist()
        self._player.cluster.kill_server(p)
        self._frames_before = self._received_frames()
        self.clear_after(self._duration_ns)

    def clear(self) -> None:
        # Frames that arrived while the server was dead are lost.
        self._has_missed_frames = self._received_frames() > self._frames_before
        self._player.cluster.start_server(self._injection.target)
        self._player.send_frames_of_server(self._injection.target)

    def took_effect(self) -> bool:
        # A kill that follows another is to hit its recovery, and need not cost a frame.
        return self._has_missed_frames or self._injection.after_previous_us is not None

    def _received_frames(self) -> int:
        return int(self._testbed.world.down.frames[WORKERS + self._injection.target])


class SwitchRestarted(Fault):
    name, row = SWITCH_KILLED.name, SWITCH_KILLED.row
    needs = "durability"

    @classmethod
    def _count_in_network(cls, network: LeafSpine) -> int:
        return len(network.switches)

    def inject(self) -> None:
        switches = self._player.cluster.switches
        # The target of a single switch has no meaning.
        self._switch = switches[self._injection.target] if len(switches) > 1 else switches[0]
        self._inject_or_retry(not self._switch.is_dead, self._kill)

    def _kill(self) -> None:
        player, world, switch = self._player, self._testbed.world, self._switch
        # Other switches than homes lose nothing but frames.
        self._had_replay_log = not switch.is_home or bool(acknowledged_sums(world.workers.replay_log).any())
        self._refused_before = switch.refused
        span = [self._testbed.now, NEVER]
        if switch.is_home:
            player.blind_spans.append(span)
        incarnations = list(player.cluster.incarnations)
        switch.kill(self._duration_ns)
        restarts = switch.restarts + 1

        def end_span() -> None:
            player.start_task(self._end_blind_span(span, restarts, incarnations))

        restore_task = player.start_task(player.wait_until_restored(switch, restarts))
        restore_task.add_done_callback(lambda _: self.end())
        # A task's callback must not begin another task.
        if switch.is_home:
            restore_task.add_done_callback(lambda _: player.call_later(0, end_span))

    async def _end_blind_span(self, span: list[int], restarts: int, incarnations: list[int]) -> None:
        """End the span when all workers have replayed, unless one has died: its replay may lack lanes."""
        is_exact = not self._testbed.servers_exchange and await self._switch.wait_for_replays(restarts)
        if is_exact and self._player.cluster.incarnations == incarnations:
            span[1] = self._testbed.now

    def took_effect(self) -> bool:
        has_missed_frames = self._had_replay_log and self._switch.refused > self._refused_before
        # As in `ServerRestarted.took_effect`.
        return has_missed_frames or self._injection.after_previous_us is not None


class ControllerKilled(Fault):
    name, row = "controller killed", "a controller dies while it moves keys"
    needs = "switch state"

    def inject(self) -> None:
        self._next_hot_set = _draw_other_hot_set(self._player)
        _act_during_load(self._player, self._next_hot_set, self._kill_controller)

    def took_effect(self) -> bool:
        return self._is_interrupted

    def _kill_controller(self, process: ControllerProcess, task: asyncio.Task[object]) -> None:
        self._is_interrupted = not task.done()
        self._player.kill_controller(process, task)
        self._player.call_later(self._duration_ns, self._start_successor)

    def _start_successor(self) -> None:
        player = self._player
        player.wanted_keys = player.random.choice([self._next_hot_set, _draw_other_hot_set(player)])
        player.start_task(player.load_wanted_keys()).add_done_callback(lambda _: self.end())


class SecondController(Fault):
    name, row = "second controller", "another controller becomes primary while one moves keys"
    needs = "switch state"

    def inject(self) -> None:
        _act_during_load(self._player, _draw_other_hot_set(self._player), self._supersede)

    def took_effect(self) -> bool:
        return self._first_load.done() and isinstance(self._first_load.exception(), NotPrimary)

    def _supersede(self, _: ControllerProcess, task: asyncio.Task[object]) -> None:
        player, self._first_load = self._player, task
        player.wanted_keys = _draw_other_hot_set(player)
        player.start_task(player.load_wanted_keys()).add_done_callback(lambda _: self.end())


class HotSetChanges(Fault):
    name, row = "hot set", "the hot set changes"
    needs = "switch state"

    def inject(self) -> None:
        player = self._player
        player.wanted_keys, self._entries_before = _draw_other_hot_set(player), self._entries()
        player.start_task(player.load_wanted_keys()).add_done_callback(lambda _: self.end())

    def took_effect(self) -> bool:
        return self._entries_before != self._entries()

    def _entries(self) -> set[tuple[int, object]]:
        return {(entry.key, entry.state) for entry in self._testbed.entries}


class DiskFull(Fault):
    name, row = "disk full", "a parameter server's disk is full for a while"
    needs = "requests at servers"

    def inject(self) -> None:
        self._agent = self._testbed.world.agents[WORKERS + self._injection.target]
        self._agent.stalled_until = self._testbed.now + self._duration_ns
        # `took_effect` inspects the inbox just before the server continues.
        self.clear_after(self._duration_ns - 1)

    def took_effect(self) -> bool:
        return int(self._agent.waiting) > 0


def _act_during_load(
    player: Player,
    keys: list[int],
    action: Callable[[ControllerProcess, asyncio.Task[object]], None],
    pause_ns: int = MS,
) -> None:
    """Call `action` in the middle of a controller's load; load again if a load ends before that point.

    Pauses become longer, since another fault's load may have ended this one by becoming primary, and would be
    ended by the next one.
    """
    process, testbed = player.new_controller(), player.testbed
    writes = testbed.state_ops.count_writes(testbed.entries, testbed.arm.job, keys)
    # Within the first half of the writes.
    threshold = player.random.randrange(max(writes, 2) // 2)
    action_scheduled: list[bool] = []

    def check_progress() -> None:
        if process.updates_written > threshold and not action_scheduled:
            action_scheduled.append(True)
            player.call_later(player.random.randrange(_MAX_ACTION_DELAY_NS), lambda: action(process, task))

    def reload_unless_scheduled(_: object) -> None:
        if not action_scheduled:
            player.call_later(
                pause_ns,
                lambda: _act_during_load(player, _draw_other_hot_set(player), action, 2 * pause_ns),
            )

    process.watch(check_progress)
    task = player.start_task(player.load(process, keys))
    task.add_done_callback(reload_unless_scheduled)


def _draw_other_hot_set(player: Player) -> list[int]:
    current_size = len(player.testbed.entries)
    return player.random.sample(
        range(KEYS), player.random.choice([k for k in _HOT_SET_SIZES if k != current_size])
    )


KINDS: dict[str, type[Fault]] = {
    kind.name: kind
    for kind in (
        CableSlow,
        CableDown,
        UplinkDown,
        WorkerKilled,
        WorkerRestarted,
        ServerRestarted,
        SwitchRestarted,
        ControllerKilled,
        SecondController,
        HotSetChanges,
        DiskFull,
    )
}
NETWORK_FAULTS: Mapping[str, FrameFault] = {kind.name: kind for kind in FRAME_FAULTS}
FAULTS: Mapping[str, str] = {
    **{name: kind.row for name, kind in NETWORK_FAULTS.items()},
    **{name: kind.row for name, kind in KINDS.items()},
    "workers": "workers die, and others take their ranks, while one of them does or keys move",
    "kills": "processes are killed one after the other, also while a switch is restored",
    "everything": "several of these, on a bad network",
}


def kinds_of(arm: str, is_mixed: bool = False) -> Mapping[str, type[Fault]]:
    """Return the kinds of faults that an arm survives; `is_mixed`: some agents are of Scapy."""
    design, network = find_design(ARMS[arm].design), network_of(arm)
    is_supported = {
        None: True,
        "durability": design.is_durable and not is_mixed,
        "successors": not is_mixed and (network is None or len(network.homes_of_worker(1)) == 1),
        "switch state": design.has_hot_set,
        "requests at servers": design.values_register is None,
        "uplinks": network is not None,
    }
    return {name: kind for name, kind in KINDS.items() if is_supported[kind.needs]}


def faults_of(arm: str, is_mixed: bool = False) -> tuple[str, ...]:
    applicable_kinds = kinds_of(arm, is_mixed)
    required_kinds = {
        "kills": {kind.name for kind in PROCESS_KILLS},
        "workers": {WorkerRestarted.name},
    }
    return tuple(
        name
        for name in FAULTS
        if name in applicable_kinds
        or (name not in KINDS and required_kinds.get(name, set()) <= set(applicable_kinds))
    )


def check_names(schedule: FaultSchedule) -> None:
    """Raise `ValueError` for a fault, a kind of injection or a target that does not exist."""
    if schedule.fault not in FAULTS:
        raise ValueError(f"fault: expected fault ({', '.join(FAULTS)}), got {schedule.fault!r}")
    for number, injection in enumerate(schedule.injections):
        place = f"injections.{number}"
        if injection.kind not in KINDS:
            raise ValueError(f"{place}.kind: expected one of {', '.join(KINDS)}, got {injection.kind!r}")
        targets = KINDS[injection.kind].count_targets(schedule.arm)
        if not 0 <= injection.target < targets:
            raise ValueError(f"{place}.target: expected 0 to {targets - 1}, got {injection.target}")


def play_schedule(testbed: SimulatedTestbed, schedule: FaultSchedule) -> ScheduleOutcome:
    return Player(testbed, schedule, KINDS).run()
