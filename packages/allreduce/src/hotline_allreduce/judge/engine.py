"""Breadth-first search for the shortest schedule of each violation, and random play.

A step is a packet that arrives at the switch, or an event. Packets may arrive in any order, more than once,
or never: a host may send again what it waits for, at any time. What is sent in response arrives at once,
unless a fault of the step says otherwise. In a tree of switches, the same holds for frames between two
switches: those on their way up are packets, and those on their way down are answers.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from enum import Enum
from itertools import chain, combinations, islice, permutations, product
from random import Random
from typing import Any, NamedTuple

from hotline_allreduce.judge.description import (
    ROOT,
    SERVER,
    Description,
    JudgedSystem,
    SentFrame,
    Violation,
    death_of,
    letter,
    node_name,
)


class PacketFault(Enum):
    COPIED = "copies of packets arrive, also after their host has the answer"
    LOST = "answers are lost"
    DELAYED = "frames are held up on the way to the server, or to the root of a tree"
    KILLED = "a worker dies"
    RESTARTED = "a switch loses its state"


_ATOMS = frozenset({bool, int, str, type(None)})
_MAX_ROUNDS = 30  # of sending again, after which a host that is not done waits for ever


class JudgedState(NamedTuple):
    system: JudgedSystem
    steps: tuple[str, ...] = ()


Successors = Iterator[tuple[str, JudgedSystem]]
"""Steps that may come next, and the system after each."""


class Passage(NamedTuple):
    """What may become of frames between switches, and of all frames that they cause."""

    notes: tuple[str, ...]
    system: JudgedSystem
    answers: list[SentFrame]  # to hosts


def freeze(data: Any) -> Hashable:
    """Return a value that is equal for equal data, and hashable."""
    kind = type(data)
    if kind is list or kind is tuple:
        return _frozen_items(data)
    if kind is dict:
        return tuple(sorted(zip(data, _frozen_items(data.values()), strict=True)))
    if is_dataclass(data):
        return _frozen_items(vars(data).values())
    result: Hashable = frozenset(data) if kind is set else data
    return result


def _frozen_items(items: Iterable[Any]) -> tuple[Hashable, ...]:
    # Most items are atoms, and a call for each of them would take most of the time.
    return tuple([item if type(item) in _ATOMS else freeze(item) for item in items])


class Copies:
    """Makes copies of a system as it is now, which is pickled once for all of them."""

    def __init__(self, system: JudgedSystem) -> None:
        self._pickled = pickle.dumps(system, pickle.HIGHEST_PROTOCOL)

    def new(self) -> JudgedSystem:
        copy: JudgedSystem = pickle.loads(self._pickled)
        return copy


class Judge:
    def __init__(self, protocol: Description, faults: frozenset[PacketFault] = frozenset()) -> None:
        self.protocol, self.faults = protocol, faults
        self._can_end = dict[Hashable, bool]()  # by frozen system
        self.states = 0
        """Number of different states that the last search has met."""
        self.is_exhausted = False
        """Whether more steps would have led to no other state."""

    def search(self, max_steps: int) -> dict[Violation, list[JudgedState]]:
        """Return the states that show each violation first, of those that take at most `max_steps` steps."""
        states, found = [JudgedState(self.protocol.system())], dict[Violation, list[JudgedState]]()
        seen = {freeze(states[0].system)}
        for _ in range(max_steps):
            previous_states, states = states, []
            for state in chain.from_iterable(map(self.successors, previous_states)):
                key = freeze(state.system)
                if key in seen:
                    continue
                seen.add(key)
                violations = list(self.violations(state.system, key))
                for violation in violations:
                    shortest = found.setdefault(violation, [state])
                    if shortest[0] is not state and len(shortest[0].steps) == len(state.steps):
                        shortest.append(state)
                if set(violations) <= {Violation.PARTIAL}:
                    states.append(state)
        self.states, self.is_exhausted = len(seen), not states
        return found

    def play(self, seed: int, max_steps: int) -> JudgedState:
        """Return the state after random steps: at the first violation, or at the end."""
        random, state = Random(seed), JudgedState(self.protocol.system())
        while len(state.steps) < max_steps and not any(self.violations(state.system)):
            successors = list(self.successors(state))
            if not successors:
                break
            state = random.choice(successors)
        return state

    def replay(self, steps: Sequence[str]) -> list[JudgedState]:
        """Return the states before and after each step of a schedule."""
        states = [JudgedState(self.protocol.system())]
        for step in steps:
            states.append(next(each for each in self.successors(states[-1]) if each.steps[-1] == step))
        return states

    def successors(self, state: JudgedState) -> Iterator[JudgedState]:
        for step, system in self.steps(state.system):
            yield JudgedState(system, (*state.steps, step))

    def steps(self, system: JudgedSystem) -> Successors:
        """Yield each step that may come next, and the system after it, which the caller may change."""
        protocol, faults, workers = self.protocol, self.faults, range(self.protocol.workers)
        copies = Copies(system)
        for host, part in enumerate(system.hosts):
            for packet in protocol.sendable(host, part) if death_of(host) not in system.happened else ():
                is_copy = packet.is_single and packet.name in system.happened
                if PacketFault.COPIED in faults or not (packet.is_late or is_copy):
                    after = copies.new()
                    after.happened |= {packet.name} if packet.is_single else set()
                    text = "late " * packet.is_late + "copied " * is_copy + packet.name
                    yield from self._send(text, after, protocol.at_switch(after, packet.packet))
        for event in protocol.events(system):
            after = copies.new()
            yield from self._send(event, after, protocol.events(after)[event]() or [])
        for index, (text, frame) in enumerate(system.held_up):
            after = copies.new()
            del after.held_up[index]
            yield from self._deliver(f"[{text} at {node_name(frame.destination)}]", after, [frame], True)
        faults_of_processes = [death_of(worker) for worker in workers] * (PacketFault.KILLED in faults)
        if system.happened.isdisjoint(faults_of_processes):
            for name in faults_of_processes:
                after = copies.new()
                after.happened.add(name)
                yield name, after
        restarts = list(protocol.restarts(system)) if PacketFault.RESTARTED in faults else []
        if system.happened.isdisjoint(restarts):
            for name in restarts:
                after = copies.new()
                after.happened.add(name)
                protocol.restarts(after)[name]()
                yield name, after

    def _send(self, text: str, system: JudgedSystem, frames: Sequence[SentFrame]) -> Successors:
        """Yield the systems after frames were sent: also that in which those to the server are held up."""
        # `system` is the caller's own copy, which it hands over.
        to_server = [(text, frame) for frame in frames if frame.destination == SERVER]
        if to_server and PacketFault.DELAYED in self.faults:
            after = Copies(system).new()
            after.held_up = sorted(after.held_up + to_server, key=repr)
            yield f"{text} (held up)", after
        yield from self._deliver(text, system, frames)

    def _deliver(
        self, text: str, system: JudgedSystem, frames: Sequence[SentFrame], has_arrived: bool = False
    ) -> Successors:
        """Yield the systems after frames, and the answers to them, have arrived or are lost.

        `has_arrived` says that nothing happens to these frames any more, only to what they cause.
        """
        if has_arrived and frames[0].destination <= ROOT:
            frames = self.protocol.at_next_switch(system, *frames[0])
        for passage in self._passages(text, system, frames):
            yield from self._answer(text, passage)

    def _passages(self, text: str, system: JudgedSystem, frames: Sequence[SentFrame]) -> Iterator[Passage]:
        between = next((frame for frame in frames if frame.destination <= ROOT), None)
        if between is None:
            yield Passage((), system, self._answers(system, frames))
            return
        index, copies = frames.index(between), Copies(system)
        for fate, arrives_now, arrives_later in self._fates(between, system):
            after = copies.new()
            after.held_up = sorted(after.held_up + [(text, between)] * arrives_later, key=repr)
            caused = self.protocol.at_next_switch(after, *between) if arrives_now else []
            for passage in self._passages(text, after, [*frames[:index], *caused, *frames[index + 1 :]]):
                note = (f"{fate} {node_name(between.destination)}",) if fate else ()
                yield passage._replace(notes=(*note, *passage.notes))

    def _fates(self, frame: SentFrame, system: JudgedSystem) -> Iterator[tuple[str, bool, bool]]:
        """Yield what may happen to a frame between switches, whether it arrives now, and whether later."""
        yield "", True, False
        is_answer = frame.destination < ROOT
        if self.protocol.has_lossy_links and (PacketFault.LOST in self.faults or not is_answer):
            yield "lost to", False, False
        if system.held_up:
            return  # one is enough to show what a late frame does
        if PacketFault.COPIED in self.faults:
            yield "copied to", True, True
        if PacketFault.DELAYED in self.faults and not is_answer:
            yield "held up on the way to", False, True

    def _answer(self, text: str, passage: Passage) -> Successors:
        """Yield the systems after answers to hosts have arrived, or are lost."""
        system = passage.system
        answers = [each for each in passage.answers if death_of(each.destination) not in system.happened]
        receivers = sorted({host for host, _ in answers})
        max_lost = len(receivers) if PacketFault.LOST in self.faults else 0
        losses = list(chain.from_iterable(combinations(receivers, n) for n in range(max_lost + 1)))
        copies = Copies(system) if len(losses) > 1 else None
        for lost_to in losses:
            after = system if copies is None else copies.new()
            for host, packet in answers:
                if host not in lost_to:
                    self.protocol.at_host(after, host, packet)
            notes = [*passage.notes, *(f"lost to {letter(host)}" for host in lost_to)]
            yield f"{text} ({', '.join(notes)})" if notes else text, after

    def _answers(self, system: JudgedSystem, frames: Sequence[SentFrame]) -> list[SentFrame]:
        """Return the frames to hosts, also those that other switches and the server send in response."""
        answers, waiting = list[SentFrame](), list(frames)
        while waiting:
            frame = waiting.pop(0)
            if frame.destination <= ROOT:
                waiting = [*self.protocol.at_next_switch(system, *frame), *waiting]
            else:
                is_to_server = frame.destination == SERVER
                answers += self.protocol.at_server(system, frame.packet) if is_to_server else [frame]
        return answers

    def violations(self, system: JudgedSystem, key: Hashable = None) -> Iterator[Violation]:
        """Yield the violations of a state; `key` is the frozen system, if the caller has it."""
        found = list(self.protocol.violations(system))
        yield from found
        if not set(found) <= {Violation.PARTIAL}:
            return
        if all(map(self.protocol.is_done, system.hosts)):
            if not system.held_up and self.protocol.has_leak(system):
                yield Violation.LEAKED
        elif system.happened.isdisjoint(map(death_of, range(self.protocol.workers))):
            key = freeze(system) if key is None else key
            if key not in self._can_end:
                self._can_end[key] = self._can_finish(system)
            if not self._can_end[key]:
                yield Violation.STALLED

    def _can_finish(self, system: JudgedSystem) -> bool:
        """Return whether all hosts finish, without further faults, if they send again in some order."""
        copies = Copies(system)
        # Frames that are held up may have been lost, except between switches that lose none.
        starts = (0, len(system.held_up)) if system.held_up and not self.protocol.has_lossy_links else (0,)
        orders, choices = (
            permutations(range(len(system.hosts))),
            (False, True)[: 1 + self.protocol.has_timers],
        )
        for order, arriving, has_event_after_each in product(orders, starts, choices):
            after = copies.new()
            self._pass_on(after, [frame for _, frame in after.held_up[:arriving]])
            if self._ends(after, order, has_event_after_each):
                return True
        return False

    def _ends(self, system: JudgedSystem, order: Sequence[int], has_event_after_each: bool) -> bool:
        """Return whether all hosts finish; an event comes after each host, or after all of them."""
        protocol = self.protocol
        for _ in range(_MAX_ROUNDS):
            for host in order:
                for packet in list(protocol.sendable(host, system.hosts[host])):
                    if not (packet.is_late or packet.is_single):
                        self._pass_on(system, protocol.at_switch(system, packet.packet))
                if has_event_after_each:
                    self._pass_on_event(system)
            if not has_event_after_each:
                self._pass_on_event(system)
            if all(map(protocol.is_done, system.hosts)):
                return True
        return False

    def _pass_on_event(self, system: JudgedSystem) -> None:
        for event in islice(self.protocol.events(system).values(), 1):
            self._pass_on(system, event() or [])

    def _pass_on(self, system: JudgedSystem, frames: Sequence[SentFrame]) -> None:
        for host, packet in self._answers(system, frames):
            self.protocol.at_host(system, host, packet)
