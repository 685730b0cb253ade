"""Breadth-first search for the shortest schedule of each violation, and random play.

A step is a packet that arrives at the switch. Packets may arrive in any order, more than once, or never: a
worker may send again what it waits for, at any time. What is sent in response arrives at once, unless a
fault of the step says otherwise.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import is_dataclass
from enum import Enum
from itertools import chain, combinations, permutations
from random import Random
from typing import Any, NamedTuple

from hotline_allreduce.judge.description import (
    SERVER,
    SWITCH,
    Description,
    Host,
    Node,
    Sendable,
    SentFrame,
    letter,
)


class PacketFault(Enum):
    LATE = "packets arrive after their worker has the sum"
    TWICE = "first copies arrive twice"
    LOST = "answers are lost"
    DELAYED = "frames are held up on the way to the server"
    KILLED = "a worker dies"
    RESTARTED = "the switch loses its state"


SPRAYING = frozenset({PacketFault.LATE, PacketFault.TWICE})
"""Packets of one flow take several paths, so that copies arrive late without any fault of the network."""


class Violation(Enum):
    WRONG = "a worker takes a wrong sum"
    DIFFERENT = "two workers take different sums"
    STALLED = "a worker waits for ever"
    LEAKED = "all workers are done, and a cell is not free"


class Step(NamedTuple):
    text: str
    lost_to: tuple[int, ...] = ()  # workers that do not get the answer
    is_held_up: bool = False  # whether the frame that the switch sends on is held up

    def __str__(self) -> str:
        notes = ["held up"] * self.is_held_up + [f"lost to {letter(worker)}" for worker in self.lost_to]
        return self.text + (f" ({', '.join(notes)})" if notes else "")


Schedule = tuple[Step, ...]


class State(NamedTuple):
    nodes: Sequence[Node]
    hosts: Sequence[Host]
    arrived: frozenset[str] = frozenset()  # names of the first copies that have arrived
    held_up: tuple[tuple[str, SentFrame], ...] = ()  # on the way to the server
    dead: frozenset[int] = frozenset()
    restarts: int = 0
    steps: Schedule = ()

    @property
    def key(self) -> Hashable:
        """Hash key, equal for states with the same future."""
        frames = tuple(sorted((frame for _, frame in self.held_up), key=repr))
        return freeze(self.nodes), freeze(self.hosts), self.arrived, frames, self.dead, self.restarts


def freeze(data: Any) -> Hashable:
    """Return a value that is equal for equal data, and hashable."""
    kind: type = type(data)
    if is_dataclass(kind):
        return tuple(map(freeze, vars(data).values()))
    if kind is dict:
        return tuple(sorted((key, freeze(value)) for key, value in data.items()))
    if kind is list or kind is tuple:
        return tuple(map(freeze, data))
    result: Hashable = frozenset(data) if kind is set else data
    return result


def copy_of(data: Any) -> Any:
    return pickle.loads(pickle.dumps(data, pickle.HIGHEST_PROTOCOL))


class Judge:
    def __init__(self, protocol: Description, faults: frozenset[PacketFault] = frozenset()) -> None:
        self.protocol, self.faults = protocol, faults
        self._ending = dict[Hashable, bool]()  # of nodes and hosts: whether all workers can finish
        self.states = 0
        """Number of different states that the last search has met."""

    def initial_state(self) -> State:
        hosts = [self.protocol.host(worker) for worker in range(self.protocol.workers)]
        return State(self.protocol.nodes(), hosts)

    def search(self, max_steps: int) -> dict[Violation, list[Schedule]]:
        """Return all shortest schedules of each violation that takes at most `max_steps` steps."""
        states, found = [self.initial_state()], dict[Violation, list[Schedule]]()
        seen_keys = {states[0].key}
        for depth in range(1, max_steps + 1):
            previous_states, states = states, []
            violations_by_key = dict[
                Hashable, list[Violation]
            ]()  # of states that are first met at this depth
            for successor in chain.from_iterable(map(self.successors, previous_states)):
                key = successor.key
                if key not in seen_keys:
                    seen_keys.add(key)
                    violations_by_key[key] = list(self.violations(successor))
                    if not violations_by_key[key]:
                        states.append(successor)
                for violation in violations_by_key.get(key, []):
                    schedules = found.setdefault(violation, [])
                    if not schedules or len(schedules[0]) == depth:
                        schedules.append(successor.steps)
        self.states = len(seen_keys)
        return found

    def play(self, seed: int, max_steps: int) -> State:
        """Return the state after random steps: at the first violation, or at the end."""
        random, state = Random(seed), self.initial_state()
        while len(state.steps) < max_steps and not any(self.violations(state)):
            successors = list(self.successors(state))
            if not successors:
                break
            state = random.choice(successors)
        return state

    def replay(self, schedule: Schedule) -> list[State]:
        """Return the states before and after each step of a schedule."""
        states = [self.initial_state()]
        for step in schedule:
            steps = (*states[-1].steps, step)
            states.append(next(each for each in self.successors(states[-1]) if each.steps == steps))
        return states

    # -- steps

    def successors(self, state: State) -> Iterator[State]:
        protocol, workers = self.protocol, range(self.protocol.workers)
        for worker in (each for each in workers if each not in state.dead):
            for packet in protocol.sendable(worker, state.hosts[worker]):
                if self._may_arrive(state, packet):
                    yield from self._arrive(state, packet)
        for index, (text, frame) in enumerate(state.held_up):
            rest = state.held_up[:index] + state.held_up[index + 1 :]
            yield from self._deliver(
                state._replace(held_up=rest), Step(f"[{text} at the server]"), copy_of(state.nodes), [frame]
            )
        if PacketFault.KILLED in self.faults and not state.dead:
            for worker in workers:
                steps = (*state.steps, Step(f"{letter(worker)} dies"))
                yield state._replace(dead=frozenset({worker}), steps=steps)
        if PacketFault.RESTARTED in self.faults and not state.restarts:
            nodes = [protocol.nodes()[SWITCH], *state.nodes[1:]]
            yield state._replace(nodes=nodes, restarts=1, steps=(*state.steps, Step("the switch restarts")))

    def _may_arrive(self, state: State, packet: Sendable) -> bool:
        if packet.is_late and PacketFault.LATE not in self.faults:
            return False
        is_copy = packet.is_first_copy and packet.name in state.arrived
        return not is_copy or PacketFault.TWICE in self.faults

    def _arrive(self, state: State, packet: Sendable) -> Iterator[State]:
        words = (
            ("late", packet.is_late), ("resent", packet.is_resent),
            ("copied", packet.is_first_copy and packet.name in state.arrived),
        )  # fmt: skip
        text = " ".join([*(word for word, applies in words if applies), packet.name])
        if packet.is_first_copy:
            state = state._replace(arrived=state.arrived | {packet.name})
        nodes = copy_of(state.nodes)
        frames = list(self.protocol.at_node(nodes, SWITCH, packet.packet))
        to_server = [each for each in frames if not each.is_to_worker and each.destination == SERVER]
        if to_server and PacketFault.DELAYED in self.faults:
            held_up = (*state.held_up, *((text, frame) for frame in to_server))
            yield state._replace(
                nodes=nodes, held_up=held_up, steps=(*state.steps, Step(text, is_held_up=True))
            )
            nodes = copy_of(nodes)
        yield from self._deliver(state, Step(text), nodes, frames)

    def _deliver(
        self, state: State, step: Step, nodes: Sequence[Node], frames: list[SentFrame]
    ) -> Iterator[State]:
        """Yield the states after frames, and those sent in response, have come to where they go."""
        answers: list[SentFrame] = []
        while frames:
            frame = frames.pop(0)
            if frame.is_to_worker:
                answers.append(frame)
            else:
                frames += self.protocol.at_node(nodes, frame.destination, frame.packet)
        receivers = sorted({frame.destination for frame in answers} - state.dead)
        most_lost = len(receivers) if PacketFault.LOST in self.faults else 0
        for lost_to in chain.from_iterable(combinations(receivers, n) for n in range(most_lost + 1)):
            hosts = copy_of(state.hosts) if answers else state.hosts
            for frame in answers:
                if frame.destination not in (*lost_to, *state.dead):
                    self.protocol.at_host(hosts[frame.destination], frame.packet)
            steps = (*state.steps, step._replace(lost_to=lost_to))
            yield state._replace(nodes=nodes, hosts=hosts, steps=steps)

    # -- violations

    def violations(self, state: State) -> Iterator[Violation]:
        protocol = self.protocol
        if wrong_chunks := protocol.wrong_chunks(state.nodes, state.hosts):
            yield Violation.WRONG
            sums = [(chunk, total) for host in state.hosts for chunk, total in protocol.results(host).items()]
            if any(len({total for each, total in sums if each == chunk}) > 1 for chunk in wrong_chunks):
                yield Violation.DIFFERENT
        elif not self._is_done(state):
            if not state.dead and not self._can_end(state):
                yield Violation.STALLED
        elif not state.held_up and protocol.has_leak(state.nodes):
            yield Violation.LEAKED

    def _is_done(self, state: State) -> bool:
        return all(self.protocol.is_done(host) for host in state.hosts)

    def _can_end(self, state: State) -> bool:
        """Return whether, without further faults, an order of resending lets all workers finish."""
        key = freeze([state.nodes, state.hosts])
        if key not in self._ending:
            self._ending[key] = self._find_end(state)
        return self._ending[key]

    def _find_end(self, state: State) -> bool:
        return any(self._ends(state, order) for order in permutations(range(self.protocol.workers)))

    def _ends(self, state: State, order: Sequence[int]) -> bool:
        protocol, nodes, hosts = self.protocol, copy_of(state.nodes), copy_of(state.hosts)
        before = None
        # What is sent again changes nothing once a round leaves everything as it was.
        while (key := freeze([nodes, hosts])) != before:
            before = key
            for worker in order:
                for packet in list(protocol.sendable(worker, hosts[worker])):
                    if packet.is_late or packet.is_first_copy:
                        continue
                    frames = list(protocol.at_node(nodes, SWITCH, packet.packet))
                    while frames:
                        frame = frames.pop(0)
                        if frame.is_to_worker:
                            protocol.at_host(hosts[frame.destination], frame.packet)
                        else:
                            frames += protocol.at_node(nodes, frame.destination, frame.packet)
            if all(map(protocol.is_done, hosts)):
                return True
        return False
