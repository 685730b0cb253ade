"""The measured phase: every arm at every load in each round, in random order, paced, on the same steps."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from analysis.disturbance import WORKERS, reasons_to_repeat
from analysis.metrics import METRICS, PS_CPU, PS_PACKETS, block_metrics
from analysis.record import Block, ProgramUse, RunRecord, ServerUse, min_capacity
from analysis.statistics import relative_change
from experiment.phases.rounds import RoundCount
from experiment.progress import Phase
from experiment.run_config import Config
from experiment.session import BlockResult, PlannedBlock, Session
from foundation.designs.arms import lead_arm
from foundation.designs.interface import Arm
from foundation.logs.columns import load_name
from foundation.text import pluralize, signed

_Use = TypeVar("_Use", ServerUse, ProgramUse)
_MAX_ATTEMPTS = 3  # of a disturbed block; the last attempt counts, even if it is disturbed, too
_MAX_REPEAT_SHARE, _MIN_REPEAT_LIMIT = 0.25, 5
"""Limit of repeated blocks, as a share of the counted blocks, and the limit's minimum. More repeats would not
help on a machine that is always disturbed."""
_PAUSE_S = 0.1  # time between two blocks
_NOUNS = {PS_PACKETS.name: "packets", "ps_bytes_per_step": "bytes", PS_CPU.name: "CPU"}  # of metrics


def record_capacity(session: Session, capacities: dict[str, float]) -> float:
    """Record the arms' capacities (arm -> steps/s in a closed loop) and return the rate for all of them."""
    # The rate is the configured one, or the minimum capacity. The offered loads are fractions of it: above an
    # arm's capacity, latency would grow for as long as the block lasts. In a closed loop no rate is offered,
    # and blocks are expected to reach the returned one.
    session.record.capacity = capacities
    rate = session.config.rate or min_capacity(capacities)
    if not session.config.is_closed_loop:
        session.record.offered_rate = {load_name(load): load * rate for load in session.config.loads}
    return rate


async def measure(session: Session, on_halfway: Callable[[], Awaitable[None]]) -> None:
    """Run rounds at the offered rates; call `on_halfway` once, between rounds, if the run continues then."""
    config = session.config
    rng = random.Random(config.seed)
    rounds = RoundCount(config, session.budget_clock_s)
    was_halfway = False
    with session.reporter.phase("measure", 1.0) as phase:
        while session.record.ended_by is None:
            blocks = _plan_round(session, rounds)
            rng.shuffle(blocks)
            await _run_round(session, blocks, rounds, phase)
            operations = await session.new_operations() if rounds.needs_operations else None
            session.record.ended_by = rounds.end(operations, session.record.blocks)
            session.record.alpha = rounds.alpha
            if session.record.ended_by is None:
                _show_interim_summary(session, rounds)
            if all(map(session.has_ended, config.measured_arms)):
                session.record.ended_by = "script"
            if session.record.ended_by is None and not was_halfway and rounds.is_halfway:
                was_halfway = True
                halfway_begin_s = session.budget_clock_s()
                await on_halfway()
                rounds.exclude_from_budget(session.budget_clock_s() - halfway_begin_s)


def _show_interim_summary(session: Session, rounds: RoundCount) -> None:
    lead = lead_arm(session.config.design)
    if lead is None or lead not in session.config.measured_arms or not rounds.is_summary_due:
        return
    text = interim_summary(session.record.blocks, session.config.loads[0], lead)
    if text is not None:
        session.reporter.message(text)


def interim_summary(blocks: Sequence[Block], load: float, lead: Arm) -> str | None:
    """Return one sentence about the rounds so far.

    None before both arms have a block at this load, and if the baseline did not use the servers.
    """
    metrics = [METRICS[name] for name in _NOUNS]
    blocks_of_arms = [
        [block for block in blocks if block.load == load and block.arm == arm]
        for arm in (lead.name, lead.reference)
    ]
    if not all(blocks_of_arms):
        return None
    values, baseline = (block_metrics(blocks_of_arm, metrics) for blocks_of_arm in blocks_of_arms)
    changes = [
        f"{noun} {signed(100 * ratio)} %"
        for name, noun in _NOUNS.items()
        if (ratio := relative_change(values[name], baseline[name])) is not None
    ]
    if not changes:
        return None
    rounds = len({block.round for block in blocks_of_arms[0]})
    return f"so far ({pluralize(rounds, 'round')}), at the servers: {', '.join(changes)}"


def steps_of_block(config: Config, period_ns: int, rounds: int) -> int:
    blocks = len(config.measured_arms) * sum(len(config.loads_of_round(number)) for number in range(rounds))
    discarded = discarded_steps(config, period_ns)
    # `block_steps` is the number of steps of all workers together that a p99 needs.
    wanted_steps = discarded + math.ceil(config.block_steps / config.workers)
    affordable_steps = int((config.block_budget_s / blocks - _PAUSE_S) * 1e9 / period_ns)
    # At least one step is measured.
    return max(discarded + 1, round(config.block_ms * 1e6 / period_ns), min(wanted_steps, affordable_steps))


def discarded_steps(config: Config, period_ns: int) -> int:
    return math.ceil(config.discard_ms * 1e6 / period_ns)


def _plan_round(session: Session, rounds: RoundCount) -> list[PlannedBlock]:
    blocks = []
    for load in rounds.loads:
        period_ns = _period_ns(session, load)
        steps = steps_of_block(session.config, period_ns, rounds.planned)
        discarded = discarded_steps(session.config, period_ns)
        first = session.take_steps(steps)
        # The workers' offsets depend on the seed, the round and the load only, not on other arms or loads.
        rng = random.Random(f"{session.config.seed} {rounds.done} {load_name(load)}")
        offsets = tuple(rng.randrange(period_ns) for _ in range(session.config.workers))
        is_paced = not session.config.is_closed_loop
        blocks += [
            PlannedBlock(
                arm,
                first_step=first,
                steps=steps,
                period_ns=period_ns if is_paced else 0,
                offsets_ns=offsets if is_paced else (),
                round=rounds.done,
                load=load,
                max_discarded_steps=discarded,
            )
            for arm in session.config.measured_arms
            if not session.has_ended(arm)
        ]
    return blocks


def _period_ns(session: Session, load: float) -> int:
    record = session.record
    rate = record.offered_rate.get(load_name(load)) or min_capacity(record.capacity)
    return round(1e9 * session.config.workers / rate)


async def _run_round(session: Session, blocks: list[PlannedBlock], rounds: RoundCount, phase: Phase) -> None:
    record = session.record
    queue = deque((planned_block, 1) for planned_block in blocks)  # with the number of the attempt
    use = await session.server_use()
    n_workers = session.n_workers
    while queue:
        planned_block, attempt = queue.popleft()
        block, use = await _run_block(session, planned_block, use)
        if session.n_workers != n_workers:
            # The blocks of a round are compared with one another, so all have the same workers.
            n_workers = session.n_workers
            _repeat_round(record, block)
            queue = deque((planned_block, 1) for planned_block in blocks)
            continue
        max_repeats = max(_MIN_REPEAT_LIMIT, _MAX_REPEAT_SHARE * len(record.blocks))
        may_repeat = attempt < _MAX_ATTEMPTS and len(record.repeated_blocks) < max_repeats and rounds.has_time
        if not block.steps:  # The script had ended before.
            continue
        if block.disturbed and may_repeat:
            record.repeated_blocks.append(block)
            queue.append((planned_block, attempt + 1))
        else:
            record.blocks.append(block)
        phase.update(rounds.share_done(1 - len(queue) / len(blocks)))


def _repeat_round(record: RunRecord, last: Block) -> None:
    """Count the blocks of the round of `last` as repeated."""
    blocks = [*(block for block in record.blocks if block.round == last.round), last]
    record.blocks = [block for block in record.blocks if block.round != last.round]
    for block in blocks:
        if WORKERS not in block.disturbed:
            block.disturbed.append(WORKERS)
    record.repeated_blocks += blocks


async def _run_block(
    session: Session, planned_block: PlannedBlock, use_before: dict[str, ServerUse]
) -> tuple[Block, dict[str, ServerUse]]:
    async with session.active(planned_block.arm):
        program_before = await session.program_use()
        restarts_before = sum(session.restarts().values())
        changes_before = len(session.record.worker_changes)
        run_queues_before, machine_before = await session.run_queues_ns(), await session.read_machine()
        answers = await session.run_steps(planned_block)
        run_queues, contention = await session.run_queues_ns(), await session.contention_since(machine_before)
    use_after = await session.server_use()
    program = await session.program_use()
    # There is no result of an arm whose scripts have all ended.
    max_lateness_ns = max((answer.max_lateness_ns for answer in answers), default=0)
    block = Block(
        round=planned_block.round,
        load=planned_block.load,
        arm=planned_block.arm.name,
        first_step=planned_block.first_step,
        steps=sum(answer.steps for answer in answers),
        period_ns=planned_block.period_ns,
        loss=_mean_loss(answers),
        max_lateness_ns=max_lateness_ns,
        fell_behind=max_lateness_ns > planned_block.period_ns,
        servers=_increase(use_after[planned_block.arm.name], use_before[planned_block.arm.name]),
        worker_cpu_s=sum(answer.cpu_s for answer in answers),
        program_s=program and program_before and _increase(program, program_before),
        run_queue_ms=_run_queue_ms(run_queues, run_queues_before),
        begun_us=round(machine_before.at_ms * 1e3),
        ended_us=round((machine_before.at_ms + contention.duration_ms) * 1e3),
        retransmissions=sum(answer.retransmissions for answer in answers),
        restarts=sum(session.restarts().values()) - restarts_before,
        worker_changes=len(session.record.worker_changes) - changes_before,
        **dict(contention),
    )
    earlier_blocks = [
        each for each in session.record.blocks if (each.arm, each.load) == (block.arm, block.load)
    ]
    block.disturbed = reasons_to_repeat(block, earlier_blocks, session.record.machine["cpus"])
    return block, use_after


def _mean_loss(answers: list[BlockResult]) -> float | None:
    losses = [answer.loss for answer in answers if answer.loss is not None]
    return sum(losses) / len(losses) if losses else None


def _run_queue_ms(after: dict[str, int], before: dict[str, int]) -> dict[str, float]:
    """Return the wait of each process in ms, without restarted processes, whose counters began at 0 again."""
    return {
        name: (ns - before[name]) / 1e6 for name, ns in after.items() if name in before and ns >= before[name]
    }


def _increase(after: _Use, before: _Use) -> _Use:
    """Return the increase of each counter, at least 0, as the counters of a restarted process begin at 0."""
    fields = type(after).model_fields
    return type(after)(**{name: max(getattr(after, name) - getattr(before, name), 0) for name in fields})
