"""Draw schedules of faults, and sequences of kills of real processes, from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from experiment.faults import SERVER_KILLED, SWITCH_KILLED, WORKER_KILLED, ProcessKill
from hotline_simulator.faults.kinds import KINDS, NETWORK_FAULTS, WorkerRestarted, kinds_of
from hotline_simulator.faults.schedule import (
    ARMS,
    RPCS,
    SERVERS,
    WORKERS,
    FaultInjection,
    FaultSchedule,
    network_of,
)

_MAX_INJECTIONS = 3
_RPCS_BEFORE_INJECTIONS, _RPCS_AFTER_INJECTIONS = 20, 60  # minimum
# Assumed restore time of a switch; the gaps between kills are given as fractions of it.
_RESTORE_US = 5_000
# Typical values of `Kill.gap`, each of which varies by half.
_GAPS = (0.0, 0.2, 0.6, 1.2)
_MAX_KILLS = 5
_WORKER_KILL_PROBABILITY = 0.25
_MAX_LIVES = 5
_OTHER_FAULT_PROBABILITY = 0.3


def draw_faults(fault: str, arm: str, seed: int, is_mixed: bool = False) -> FaultSchedule:
    """Return the schedule that a fault, an arm's job and a seed determine; the arm's name does not matter.

    `is_mixed`: some agents are of Scapy, which survive fewer kinds of faults.
    """
    # A seed determines the schedule, so all draws must keep their order, even those without an effect.
    random = Random(f"{fault} {ARMS[arm].job} {seed}")
    schedule = FaultSchedule(
        fault, arm, seed=random.getrandbits(62),
        rpcs=RPCS + random.randrange(60),
        delay_us=random.choice([1, 5, 20]), extra_delay_us=random.choice([50, 500, 5_000]),
        think_us=random.choice([50, 200, 600]), pulls=random.choice([0.1, 0.4]),
        share=random.choice([0.1, 0.2, 0.4]), hot=random.choice([8, 24, 40]),
        is_extreme=random.random() < 0.25,
    )  # fmt: skip
    rates: dict[str, Any]  # settings of a schedule
    if fault in NETWORK_FAULTS:
        rates = {fault: random.choice([0.01, 0.05, 0.1, 0.3])}
        return replace(schedule, **rates)
    if fault == "kills":
        kills = draw_kills(seed, WORKERS, SERVERS)
        return replace(schedule, injections=tuple(_draw_kill_injections(arm, kills, random)))
    if fault == "workers":
        return replace(schedule, injections=tuple(_draw_lives(arm, random)))
    if fault != "everything":
        return replace(schedule, injections=(_draw_injection(arm, fault, random),))
    kinds = [kind for kind in kinds_of(arm, is_mixed) if kind != WORKER_KILLED.name]
    injections = [
        _draw_injection(arm, random.choice(kinds), random) for _ in range(random.randint(2, _MAX_INJECTIONS))
    ]
    rates = {kind: random.choice([0.0, 0.01, 0.1]) for kind in NETWORK_FAULTS}
    return replace(schedule, injections=tuple(sorted(injections, key=lambda each: each.after)), **rates)


def _draw_injection(arm: str, kind: str, random: Random) -> FaultInjection:
    return FaultInjection(
        kind,
        after=random.randrange(_RPCS_BEFORE_INJECTIONS, RPCS - _RPCS_AFTER_INJECTIONS),
        duration_us=random.choice([300, 300, 3_000, 3_000, 30_000]) + random.randrange(300),
        target=random.randrange(KINDS[kind].count_targets(arm)),
        # Other kinds than delays ignore the amount; it is drawn to keep the order of draws.
        amount=random.choice([300, 3_000, 50_000]) if kind == "delay" else random.randrange(2_500),
    )


def _draw_lives(arm: str, random: Random) -> Iterator[FaultInjection]:
    """Yield deaths of workers that another follows soon, most of them within that of the one before."""
    others = [kind for kind in (SWITCH_KILLED.name, "hot set") if kind in kinds_of(arm)]
    after_previous_us: int | None = None
    for _ in range(random.randint(2, _MAX_LIVES)):
        is_other = (
            bool(others) and after_previous_us is not None and random.random() < _OTHER_FAULT_PROBABILITY
        )
        kind = random.choice(others) if is_other else WorkerRestarted.name
        yield FaultInjection(
            kind,
            after=random.randrange(_RPCS_BEFORE_INJECTIONS, RPCS - _RPCS_AFTER_INJECTIONS),
            duration_us=random.choice([0, 300, 3_000]) + random.randrange(300),
            target=random.randrange(KINDS[kind].count_targets(arm)),
            after_previous_us=after_previous_us,
        )
        after_previous_us = random.choice([0, 400, 3_000, 100_000]) + random.randrange(300)


def _draw_kill_injections(arm: str, kills: Sequence[Kill], random: Random) -> Iterator[FaultInjection]:
    after_previous_us: int | None = None
    for kill in kills:
        target = kill.target
        if kill.kind is SWITCH_KILLED and network_of(arm) is not None:
            target = random.randrange(KINDS[kill.kind.name].count_targets(arm))
        yield FaultInjection(
            kill.kind.name,
            after=random.randrange(_RPCS_BEFORE_INJECTIONS, RPCS - _RPCS_AFTER_INJECTIONS),
            duration_us=random.randrange(300, 2_000),
            target=target,
            after_previous_us=after_previous_us,
        )
        after_previous_us = round(kill.gap * _RESTORE_US)


class Kill(NamedTuple):
    kind: ProcessKill
    target: int  # index of the process among those of its kind, from 0
    gap: float  # time until the next kill, as a fraction of a switch's restore time

    @property
    def process(self) -> str:
        return f"{self.kind.process}{self.kind.first_number + self.target}"


def draw_kills(seed: int, workers: int, servers: int) -> tuple[Kill, ...]:
    random = Random(f"kills {seed}")
    processes = [(SWITCH_KILLED, 0), *((SERVER_KILLED, p) for p in range(servers))]
    # The switch is killed at least once.
    victims = [processes[0], *random.choices(processes, k=random.randint(1, _MAX_KILLS - 1))]
    random.shuffle(victims)
    if random.random() < _WORKER_KILL_PROBABILITY:
        victims.append((WORKER_KILLED, random.randrange(workers)))
    return tuple(
        Kill(kind, target, random.choice(_GAPS) * (0.5 + random.random())) for kind, target in victims
    )
