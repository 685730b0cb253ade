from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from experiment.faults import WORKER_KILLED
from foundation.designs.registry import design
from simulator.faults.kills import Kill, draw_kills
from simulator.faults.kinds import KINDS, NETWORK_FAULTS, kinds_of
from simulator.faults.schedule import ARMS, RPCS, SERVERS, WORKERS, FaultInjection, FaultSchedule

_MAX_INJECTIONS = 3
_RPCS_BEFORE_INJECTIONS, _RPCS_AFTER_INJECTIONS = 20, 60  # minimum
# Assumed restore time of a switch; the gaps between kills are given as fractions of it.
_RESTORE_US = 5_000


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
        return replace(
            schedule, injections=tuple(_draw_kill_injections(draw_kills(seed, WORKERS, SERVERS), random))
        )
    if fault != "everything":
        return replace(schedule, injections=(_draw_injection(fault, random),))
    kinds = [kind for kind in kinds_of(design(ARMS[arm].design), is_mixed) if kind != WORKER_KILLED.name]
    injections = [
        _draw_injection(random.choice(kinds), random) for _ in range(random.randint(2, _MAX_INJECTIONS))
    ]
    rates = {kind: random.choice([0.0, 0.01, 0.1]) for kind in NETWORK_FAULTS}
    return replace(schedule, injections=tuple(sorted(injections, key=lambda each: each.after)), **rates)


def _draw_injection(kind: str, random: Random) -> FaultInjection:
    return FaultInjection(
        kind,
        after=random.randrange(_RPCS_BEFORE_INJECTIONS, RPCS - _RPCS_AFTER_INJECTIONS),
        duration_us=random.choice([300, 300, 3_000, 3_000, 30_000]) + random.randrange(300),
        target=random.randrange(KINDS[kind].targets),
        # Other kinds than delays ignore the amount; it is drawn to keep the order of draws.
        amount=random.choice([300, 3_000, 50_000]) if kind == "delay" else random.randrange(2_500),
    )


def _draw_kill_injections(kills: Sequence[Kill], random: Random) -> Iterator[FaultInjection]:
    after_previous_us: int | None = None
    for kill in kills:
        yield FaultInjection(
            kill.kind.name,
            after=random.randrange(_RPCS_BEFORE_INJECTIONS, RPCS - _RPCS_AFTER_INJECTIONS),
            duration_us=random.randrange(300, 2_000),
            target=kill.target,
            after_previous_us=after_previous_us,
        )
        after_previous_us = round(kill.gap * _RESTORE_US)
