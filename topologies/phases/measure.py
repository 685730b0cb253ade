"""The measured phase: every arm at every load in each round, in random order, paced, on the same steps."""

from __future__ import annotations

import random
from dataclasses import dataclass

from analysis.record import Block, ServerUse
from protocol.arms import MEASURED, NEITHER, Arm
from topologies.agents import call_all
from topologies.session import Ran, Session


@dataclass(frozen=True, slots=True)
class Planned:
    """One block to run: an arm at a load, over some steps of each worker."""

    round: int
    load: float
    arm: Arm
    first_step: int
    steps: int
    period_ns: int
    offsets_ns: tuple[int, ...]
    """Delay of each worker: workers of asynchronous training are not in step."""


async def measure(session: Session, capacity: float) -> None:
    """Run all rounds at fractions of `capacity` (steps/s of all workers) and record their blocks."""
    config = session.config
    chance = random.Random(config.seed)
    with session.reporter.phase("measure", config.rounds * len(config.loads) * len(MEASURED)) as phase:
        use = await session.server_use()
        for number in range(config.rounds):
            blocks = _plan(session, number, capacity, chance)
            chance.shuffle(blocks)
            for planned in blocks:
                block, use = await _run(session, planned, use)
                session.record.blocks.append(block)
                phase.update(len(session.record.blocks))


async def measure_emulator(session: Session) -> None:
    """RPCs without lanes, one worker at a time: what switch, kernel and agents cost without any work."""
    command = {"cmd": "empty", "job": NEITHER.job, "count": session.config.empty_rpcs}
    with session.reporter.phase("empty RPCs", len(session.workers)) as phase:
        for done, worker in enumerate(session.workers, start=1):
            await call_all([worker], command)
            phase.update(done)


def _plan(session: Session, number: int, capacity: float, chance: random.Random) -> list[Planned]:
    """The blocks of a round; all arms share the steps of a load, and the workers' offsets."""
    blocks = []
    for load in session.config.loads:
        period_ns = round(1e9 * len(session.workers) / (load * capacity))
        # Two at least, so that one is measured.
        steps = max(2, round(session.config.block_ms * 1e6 / period_ns))
        first = session.take_steps(steps)
        offsets = tuple(chance.randrange(period_ns) for _ in session.workers)
        blocks += [Planned(number, load, arm, first, steps, period_ns, offsets) for arm in MEASURED]
    return blocks


async def _run(
    session: Session, planned: Planned, before: dict[str, ServerUse]
) -> tuple[Block, dict[str, ServerUse]]:
    """Run one block; its record, and what the servers have done until its end."""
    queued_before = session.run_queues_ns()
    answers = await session.run_steps(
        planned.arm,
        planned.first_step,
        planned.steps,
        period_ns=planned.period_ns,
        offsets_ns=planned.offsets_ns,
        round_number=planned.round,
        load=planned.load,
    )
    queued = session.run_queues_ns()
    after = await session.server_use()
    behind_ns = max(answer.behind_ns for answer in answers)
    block = Block(
        round=planned.round,
        load=planned.load,
        arm=planned.arm.name,
        first_step=planned.first_step,
        steps=sum(answer.steps for answer in answers),
        period_ns=planned.period_ns,
        loss=_mean_loss(answers),
        behind_ns=behind_ns,
        fell_behind=behind_ns > planned.period_ns,
        servers=_difference(after[planned.arm.name], before[planned.arm.name]),
        worker_cpu_s=sum(answer.cpu_s for answer in answers),
        run_queue_ms={name: (queued[name] - queued_before[name]) / 1e6 for name in queued},
    )
    return block, after


def _mean_loss(answers: list[Ran]) -> float | None:
    losses = [answer.loss for answer in answers if answer.loss is not None]
    return sum(losses) / len(losses) if losses else None


def _difference(after: ServerUse, before: ServerUse) -> ServerUse:
    return ServerUse(
        **{name: getattr(after, name) - getattr(before, name) for name in ServerUse.model_fields}
    )
