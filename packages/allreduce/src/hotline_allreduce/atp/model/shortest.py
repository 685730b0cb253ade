"""Search for the shortest schedule of each violation: `python -m hotline_allreduce.atp.model.shortest`.

Workers add up tensors of one packet or more, one after the other, at one switch and one server. A step is a
frame that arrives at the switch, or at the server if it was held up (delayed) on the way there. Frames sent
in response arrive at once, except those that the step marks as lost or held up. A packet may arrive at any
time after its worker could have sent it, or never. A first copy is a packet's first transmission.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, combinations, permutations
from typing import NamedTuple

from hotline_allreduce.atp.model.rules import (
    AtpSwitchModel,
    AtpWindowModel,
    CellModel,
    ServerModel,
    TensorModel,
)
from hotline_allreduce.atp.packet import RESEND, VALUES, AtpPacket

APP = 1  # number of the only job


class Violation(Enum):
    WRONG = "a worker takes a wrong sum"
    DIFFERENT = "two workers take different sums"
    STALLED = "a worker waits for ever"
    LEAKED = "all workers are done, and a cell is not free"


class AtpFault(Enum):
    LATE = "a packet arrives after its worker has the sum"
    TWICE = "a first copy arrives twice"
    LOST = "an acknowledgement is lost"
    DELAYED = "a frame is held up between switch and server"


class Step(NamedTuple):
    """An arrival at the switch; if `is_delayed`, at the server, of a frame that the switch sent earlier."""

    worker: int
    tensor: int
    sequence: int
    is_resent: bool = False
    is_late: bool = False  # whether the worker has the packet's sum already
    is_duplicate: bool = False  # whether it is a first copy, and has arrived before
    is_delayed: bool = False
    delays_output: bool = False  # whether the frame that the switch sends to the server is held up
    lost_to: tuple[int, ...] = ()  # workers that do not get the acknowledgement

    def __str__(self) -> str:
        name = f"{chr(ord('A') + self.worker)}{self.tensor}.{self.sequence}"
        flags = (("late", self.is_late), ("resent", self.is_resent), ("copied", self.is_duplicate))
        prefixes = [word for word, applies in flags if applies]
        suffixes = ["held up"] * self.delays_output + [f"lost to {chr(ord('A') + w)}" for w in self.lost_to]
        text = " ".join([*prefixes, name]) + (f" ({', '.join(suffixes)})" if suffixes else "")
        return f"[{text} at the server]" if self.is_delayed else text


@dataclass(frozen=True)
class AtpSearchSetting:
    workers: int = 2
    window: int = 1  # packets
    chunks: int = 1  # packets of a tensor
    tensors: int = 2  # of each worker
    check: bool = False
    faults: frozenset[AtpFault] = frozenset(AtpFault)


class AtpSearchState(NamedTuple):
    switch: AtpSwitchModel
    server: ServerModel
    windows: tuple[AtpWindowModel, ...]  # each worker's latest tensor, numbered from 1
    arrived_copies: frozenset[tuple[int, int, int]] = frozenset()
    """Worker, tensor and sequence number of the first copies that have arrived."""
    delayed_frames: tuple[tuple[Step, AtpPacket], ...] = ()  # frames held up on the way to the server
    steps: tuple[Step, ...] = ()
    sums: tuple[tuple[int, int, int, int], ...] = ()
    """Worker, tensor, sequence number and sum of the last step."""

    @property
    def key(self) -> Hashable:
        """Hash key, equal for states with the same future."""
        cells = tuple(_cell_key(cell) for cell in self.switch.memory)
        server = tuple(map(_tensor_key, (self.server.tensor, self.server.previous_tensor)))
        windows = tuple((each.key, tuple(each.results)) for each in self.windows)
        packets = tuple(sorted(packet for _, packet in self.delayed_frames))
        return cells, server, windows, self.arrived_copies, packets


def _cell_key(cell: CellModel) -> Hashable:
    return cell.owner, cell.key, cell.bitmap, cell.count, cell.values


def _tensor_key(tensor: TensorModel) -> Hashable:
    return tensor.key, tuple((each.bitmap, each.values) for each in tensor.chunks)


def initial_state(setting: AtpSearchSetting) -> AtpSearchState:
    places = list(range(setting.window))
    windows = tuple(
        AtpWindowModel(key=1, total=setting.chunks, places=list(places)) for _ in range(setting.workers)
    )
    for window in windows:
        window.send()
    switch = AtpSwitchModel(cells=setting.window, check=setting.check)
    return AtpSearchState(switch, ServerModel(check=setting.check), windows)


def addend(worker: int, tensor: int, sequence: int) -> int:
    """Return a worker's addend in a packet: a distinct power of two, so that a sum shows its addends."""
    # A worker has 6 bits, for up to three tensors of two packets.
    return 1 << 6 * worker + 2 * (tensor - 1) + sequence - 1


def request(setting: AtpSearchSetting, worker: int, tensor: int, sequence: int, is_resent: bool) -> AtpPacket:
    return AtpPacket(
        bitmap=1 << worker, workers=setting.workers, app=APP, sequence=sequence,
        cell=(sequence - 1) % setting.window, values=(addend(worker, tensor, sequence),), key=tensor,
        length=setting.chunks * VALUES, flags=RESEND * is_resent,
    )  # fmt: skip


def successors(setting: AtpSearchSetting, state: AtpSearchState) -> Iterator[AtpSearchState]:
    for step in _arrivals(setting, state):
        packet = request(setting, step.worker, step.tensor, step.sequence, step.is_resent)
        switch, arrived_copies = state.switch.copy(), state.arrived_copies
        if not step.is_resent:
            arrived_copies |= {(step.worker, step.tensor, step.sequence)}
        output = switch.take(packet)
        next_state = state._replace(switch=switch, arrived_copies=arrived_copies, sums=())
        if output is None:
            yield next_state._replace(steps=(*state.steps, step))
            continue
        if AtpFault.DELAYED in setting.faults:
            delayed_frames = (*state.delayed_frames, (step, output.packet))
            yield next_state._replace(
                steps=(*state.steps, step._replace(delays_output=True)), delayed_frames=delayed_frames
            )
        yield from _deliver_to_server(setting, next_state, step, output.packet)
    for index, (step, packet) in enumerate(state.delayed_frames):
        remaining_frames = state.delayed_frames[:index] + state.delayed_frames[index + 1 :]
        delivered = state._replace(delayed_frames=remaining_frames, sums=())
        yield from _deliver_to_server(setting, delivered, step._replace(is_delayed=True), packet)


def _arrivals(setting: AtpSearchSetting, state: AtpSearchState) -> Iterator[Step]:
    for worker, window in enumerate(state.windows):
        for tensor in range(1, window.key + 1):
            for sequence in range(1, (window.last_sent if tensor == window.key else setting.chunks) + 1):
                is_late = tensor < window.key or sequence in window.results
                if is_late and AtpFault.LATE not in setting.faults:
                    continue
                is_duplicate = (worker, tensor, sequence) in state.arrived_copies
                if not is_duplicate or AtpFault.TWICE in setting.faults:
                    yield Step(worker, tensor, sequence, is_late=is_late, is_duplicate=is_duplicate)
                yield Step(worker, tensor, sequence, is_resent=True, is_late=is_late)


def _deliver_to_server(
    setting: AtpSearchSetting, state: AtpSearchState, step: Step, packet: AtpPacket
) -> Iterator[AtpSearchState]:
    server = state.server.copy()
    answer = server.take(packet)
    next_state = state._replace(server=server)
    if answer is None:
        yield next_state._replace(steps=(*state.steps, step))
        return
    switch = state.switch.copy()
    switch.take(answer)
    workers = range(setting.workers)
    can_lose = AtpFault.LOST in setting.faults
    # Without losses, the only combination is the empty one.
    for lost_to in chain.from_iterable(
        combinations(workers, n) for n in range(setting.workers * can_lose + 1)
    ):
        windows, sums = list(map(_copy_window, state.windows)), []
        for worker in workers:
            window, results_before = windows[worker], len(windows[worker].results)
            if worker in lost_to:
                continue
            window.take(answer)
            if len(window.results) > results_before:
                sums.append((worker, window.key, answer.sequence, answer.values[0]))
            if window.is_done and window.key < setting.tensors:
                windows[worker] = AtpWindowModel(window.key + 1, setting.chunks, list(range(setting.window)))
            windows[worker].send()
        steps = (*state.steps, step._replace(lost_to=lost_to))
        yield next_state._replace(switch=switch, windows=tuple(windows), steps=steps, sums=tuple(sums))


def _copy_window(window: AtpWindowModel) -> AtpWindowModel:
    return replace(
        window, results=dict(window.results), floats=set(window.floats), places=list(window.places)
    )


def violations(setting: AtpSearchSetting, state: AtpSearchState) -> Iterator[Violation]:
    wrong = [
        (worker, tensor, sequence)
        for worker, tensor, sequence, total in state.sums
        if total != _expected_sum(setting, tensor, sequence)
    ]
    if wrong:
        yield Violation.WRONG
        _, tensor, sequence = wrong[0]
        if any(
            (worker, tensor, sequence) not in wrong and (tensor < window.key or sequence in window.results)
            for worker, window in enumerate(state.windows)
        ):
            yield Violation.DIFFERENT
    elif not all(window.key == setting.tensors and window.is_done for window in state.windows):
        if not _can_end(setting, state):
            yield Violation.STALLED
    elif not state.delayed_frames and any(cell.owner for cell in state.switch.memory):
        yield Violation.LEAKED


def _expected_sum(setting: AtpSearchSetting, tensor: int, sequence: int) -> int:
    return sum(addend(worker, tensor, sequence) for worker in range(setting.workers))


def _can_end(setting: AtpSearchSetting, state: AtpSearchState) -> bool:
    """Return whether there is an order of resending in which, without further faults, all workers finish."""
    return any(_can_finish(setting, state, order) for order in permutations(range(setting.workers)))


def _can_finish(setting: AtpSearchSetting, state: AtpSearchState, order: Sequence[int]) -> bool:
    faultless_setting = replace(setting, faults=frozenset())
    # An upper bound on the rounds of resending that are needed.
    for _ in range(2 * setting.tensors * setting.chunks):
        for worker in order:
            window = state.windows[worker]
            for sequence in range(window.last_in_order + 1, window.last_sent + 1):
                step = Step(worker, window.key, sequence, is_resent=True)
                state = _apply_step(faultless_setting, state, step)
        if all(window.key == setting.tensors and window.is_done for window in state.windows):
            return True
    return False


def _apply_step(setting: AtpSearchSetting, state: AtpSearchState, step: Step) -> AtpSearchState:
    switch = state.switch.copy()
    output = switch.take(request(setting, step.worker, step.tensor, step.sequence, step.is_resent))
    next_state = state._replace(switch=switch)
    return next(_deliver_to_server(setting, next_state, step, output.packet)) if output else next_state


def shortest(setting: AtpSearchSetting, max_steps: int) -> dict[Violation, tuple[Step, ...]]:
    """Return a shortest schedule of each kind of violation that takes at most `max_steps` steps."""
    states, schedules = [initial_state(setting)], dict[Violation, tuple[Step, ...]]()
    seen_keys = {states[0].key}
    for _ in range(max_steps):
        previous_states, states = states, []
        for successor in chain.from_iterable(successors(setting, state) for state in previous_states):
            if successor.key in seen_keys:
                continue
            seen_keys.add(successor.key)
            violated = list(violations(setting, successor))
            for violation in violated:
                schedules.setdefault(violation, successor.steps)
            if not violated:
                states.append(successor)
    return schedules


SEARCHES = {  # heading -> setting, and maximum number of steps
    "nothing but losses of packets": (AtpSearchSetting(faults=frozenset()), 6),
    "acknowledgements are lost": (AtpSearchSetting(faults=frozenset({AtpFault.LOST})), 6),
    "packets are late": (AtpSearchSetting(faults=frozenset({AtpFault.LATE})), 6),
    "first copies come twice, and late": (
        AtpSearchSetting(faults=frozenset({AtpFault.LATE, AtpFault.TWICE})),
        6,
    ),
    "frames are held up on the way to the server": (
        AtpSearchSetting(faults=frozenset({AtpFault.DELAYED})),
        6,
    ),
    "all of these": (AtpSearchSetting(), 5),
    "acknowledgements are lost, with tensors of a window of two": (
        AtpSearchSetting(window=2, chunks=2, faults=frozenset({AtpFault.LOST})), 6,
    ),
    "acknowledgements are lost, with tensors of two windows of one": (
        AtpSearchSetting(window=1, chunks=2, faults=frozenset({AtpFault.LOST})), 6,
    ),
}  # fmt: skip


def main() -> None:
    for check in (False, True):
        for name, (setting, max_steps) in SEARCHES.items():
            print(f"{'with the check' if check else 'as published'}: {name} ({max_steps} steps)")
            for violation, steps in shortest(replace(setting, check=check), max_steps).items():
                print(f"    {violation.value}: {', '.join(map(str, steps))}")


if __name__ == "__main__":
    main()
