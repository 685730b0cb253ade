"""The plan of the measured phase, played without any traffic."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import polars as pl
import pytest

from analysis.metrics import MIN_ROUNDS_FOR_PRECISION
from analysis.record import Block, ProgramUse, ServerUse, WorkerChange
from analysis.statistics import ALPHA
from analysis.stopping import LOOKS
from experiment.phases.measure import interim_summary, measure, steps_of_block
from experiment.run_config import Config
from experiment.session import BlockResult, MachineCounters, OnProgress, PlannedBlock
from foundation.designs.hotset import OFFLOAD
from foundation.logs.columns import load_name
from switch_harness.wording import says
from tests.harness.arms import JOBS
from tests.harness.arms import MEASURED as ARMS
from tests.harness.records import a_block, operation_rows
from tests.harness.sessions import IdleSession

_PLANNED = [field.name for field in fields(PlannedBlock)]
CAPACITY = 400.0
BLOCK_MS = 600.0
WORKERS = 4


class PlayedSession(IdleSession):
    """A session that records what would be run, at a cost for servers. Its budget uses the real clock."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.played: list[dict[str, Any]] = []
        self.max_lateness_ns = 0
        self.others_cpu_ms: Callable[[int], float] = lambda number: 0.0
        """Disturbance of each block, by its number."""
        self.read = MachineCounters(at_ms=1e6, steal_ms=5.0, others_cpu_ms=7.0, pressure_ms=11.0)
        self.in_the_kernel, self.asked = False, 1
        self.halfway = 0
        self.new = 0
        self.dies_in = 0
        """The block in which a server is started again."""
        self.use: dict[str, ServerUse] = {arm: ServerUse() for arm in JOBS}

    async def run_steps(
        self, planned: PlannedBlock, on_progress: OnProgress | None = None
    ) -> list[BlockResult]:
        arm, steps = planned.arm, planned.steps
        self.played.append({**{name: getattr(planned, name) for name in _PLANNED}, "arm": arm.name})
        before = ServerUse() if len(self.played) == self.dies_in else self.use[arm.name]
        if len(self.played) == self.dies_in:
            self.use = {name: ServerUse() for name in JOBS}
        self.use[arm.name] = ServerUse(packets=before.packets + 100, proc_cpu_ns=before.proc_cpu_ns + 1000)
        taken = self.others_cpu_ms(len(self.played))
        before_it = self.read
        self.read = MachineCounters(
            before_it.at_ms + BLOCK_MS, before_it.steal_ms + 2, before_it.others_cpu_ms + taken,
            before_it.pressure_ms + 30, unix_offset_ms=before_it.unix_offset_ms - 0.5,
        )  # fmt: skip
        ran = BlockResult(
            steps=steps, max_lateness_ns=self.max_lateness_ns, cpu_s=0.1, retransmissions=3, loss=0.5
        )
        return [ran] * WORKERS

    def budget_clock_s(self) -> float:
        return time.monotonic()

    async def read_machine(self) -> MachineCounters:
        return self.read

    async def new_operations(self) -> pl.DataFrame:
        """Return rows in which all arms are alike, so that intervals have no width."""
        self.new += 1
        number = max(block.round for block in self.record.blocks)
        made = [block for block in self.record.blocks if block.round == number]
        return pl.concat([operation_rows(block.arm, number, block.load, 100.0) for block in made])

    async def server_use(self) -> dict[str, ServerUse]:
        return dict(self.use)

    async def program_use(self) -> ProgramUse | None:
        """Return a cost that each run raises, and that also grows between two runs."""
        if not self.in_the_kernel:
            return None
        self.asked += 1
        return ProgramUse(workers=0.5 * len(self.played) + self.asked // 2, servers=0.25 * len(self.played))

    def restarts(self) -> dict[str, int]:
        """Return one restart from before, and one more after the death."""
        return {"ps-0": 1, **({"s1": 1} if 0 < self.dies_in <= len(self.played) else {})}

    async def run_queues_ns(self) -> dict[str, int]:
        of_worker, played = 5_000_000 * len(self.played), len(self.played)
        if self.dies_in == 0:
            return {"worker-1": of_worker}
        is_there = played != self.dies_in - 1
        of_server = played if played < self.dies_in else played - self.dies_in
        return {"worker-1": of_worker, "ps-0": of_server, **({"s1": played} if is_there else {})}


def play(config: Config, **attributes: Any) -> PlayedSession:
    """Play a session in which these attributes have other values."""
    session = PlayedSession(config)
    vars(session).update(attributes)
    play_on(session)
    return session


def play_on(session: PlayedSession) -> None:
    async def halfway() -> None:
        session.halfway = len(session.record.blocks)

    session.record.capacity = dict.fromkeys(ARMS, CAPACITY)
    session.record.offered_rate = {load_name(load): load * CAPACITY for load in session.config.loads}
    asyncio.run(measure(session, halfway))


def by_round(session: PlayedSession) -> dict[int, list[dict[str, Any]]]:
    rounds = defaultdict(list)
    for block in session.played:
        rounds[block["round"]].append(block)
    return rounds


def test_every_round_has_every_arm_at_every_load_once_in_changing_order() -> None:
    rounds = by_round(play(Config(rounds=6))).values()
    orders = [[(block["load"], block["arm"]) for block in blocks] for blocks in rounds]
    every = {(load, arm) for load in (0.5, 0.8) for arm in ARMS}
    assert len(orders) == 6
    assert all(set(order) == every and len(order) == len(every) for order in orders)
    assert len({tuple(order) for order in orders}) > 1


def test_every_second_round_before_a_look_has_the_first_load_only() -> None:
    played = by_round(play(Config()))
    loads = [sorted({block["load"] for block in played[number]}) for number in range(4)]
    assert loads == [[0.5, 0.8], [0.5]] * 2
    assert all(len(played[number]) == (1 if number % 2 else 2) * len(ARMS) for number in played)
    precise = by_round(play(Config(precise=True)))
    assert all(len(blocks) == 2 * len(ARMS) for blocks in precise.values())


def test_the_order_follows_from_the_seed() -> None:
    def order(seed: int) -> list[str]:
        return [block["arm"] for block in play(Config(rounds=2, seed=seed)).played]

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_the_arms_of_a_round_and_load_share_steps_and_phases() -> None:
    steps: dict[tuple[int, float], set[tuple[int, int]]] = defaultdict(set)
    offsets: dict[tuple[int, float], set[tuple[int, ...]]] = defaultdict(set)
    for block in play(Config(rounds=3)).played:
        steps[block["round"], block["load"]].add((block["first_step"], block["steps"]))
        offsets[block["round"], block["load"]].add(block["offsets_ns"])
        assert len(block["offsets_ns"]) == WORKERS
        assert all(0 <= offset < block["period_ns"] for offset in block["offsets_ns"])
    assert all(len(each) == 1 for each in steps.values())
    assert all(len(each) == 1 for each in offsets.values())
    assert len(set.union(*offsets.values())) == len(offsets)
    used = [step for each in steps.values() for first, n in each for step in range(first, first + n)]
    assert len(used) == len(set(used))


def test_blocks_are_paced_at_their_load_for_their_time() -> None:
    for block in play(Config(rounds=1, block_steps=1)).played:
        assert block["period_ns"] == round(1e9 * WORKERS / (block["load"] * CAPACITY))
        assert block["steps"] * block["period_ns"] == pytest.approx(400e6, rel=0.05)


def test_a_block_whose_scripts_ended_just_before_is_left_out() -> None:
    class Ended(PlayedSession):
        async def run_steps(
            self, planned: PlannedBlock, on_progress: OnProgress | None = None
        ) -> list[BlockResult]:
            ran = await super().run_steps(planned, on_progress)
            return [] if planned.arm.name == "offload" else ran

    session = Ended(Config(rounds=1))
    play_on(session)
    recorded = {block.arm for block in session.record.blocks}
    assert {each["arm"] for each in session.played} - recorded == {"offload"}


@pytest.mark.parametrize("changes", [{}, {"script": "train.py"}, {"block_ms": 131, "block_steps": 1}])
def test_a_block_has_more_steps_than_the_discarded_steps(changes: dict[str, Any]) -> None:
    config = Config(rounds=1, **changes)
    for block in play(config).played:
        period_ns = block["period_ns"] or 1e9 * WORKERS / CAPACITY  # closed loop: as expected
        discarded_ns = block["max_discarded_steps"] * period_ns
        assert discarded_ns - period_ns < 130e6 <= discarded_ns
        assert block["steps"] > block["max_discarded_steps"]


def test_a_block_counts_the_increase_of_running_counters() -> None:
    for block in play(Config(rounds=2)).record.blocks:
        assert (block.servers.packets, block.servers.proc_cpu_ns) == (100, 1000)
        assert block.run_queue_ms == {"worker-1": 5.0}


def test_a_block_has_its_share_of_the_kernel_programs_time() -> None:
    assert [block.program_s for block in play(Config(rounds=1)).record.blocks] == [None] * 10
    session = play(Config(rounds=1), in_the_kernel=True)
    use = ProgramUse(workers=0.5, servers=0.25)
    assert [block.program_s for block in session.record.blocks] == [use] * 10


@pytest.mark.parametrize(("max_lateness_ns", "fell_behind"), [(11_000_000, False), (21_000_000, True)])
def test_a_block_that_was_late_by_a_period_fell_behind(max_lateness_ns: int, fell_behind: bool) -> None:
    blocks = play(Config(rounds=1, loads=(0.5,)), max_lateness_ns=max_lateness_ns).record.blocks
    assert [block.period_ns for block in blocks] == [20_000_000] * len(ARMS)
    assert all(block.fell_behind is fell_behind for block in blocks)


def disturbed(rounds: int, numbers: range) -> PlayedSession:
    """Play rounds in which other processes take half a CPU in the blocks of these numbers, from 1 on."""
    config = Config(rounds=rounds, loads=(0.5,))
    return play(config, others_cpu_ms=lambda number: 0.5 * BLOCK_MS if number in numbers else 0.0)


def test_a_disturbed_block_is_run_again_behind_its_round() -> None:
    session = disturbed(2, range(2, 3))
    record = session.record
    assert [len(blocks) for blocks in by_round(session).values()] == [6, 5]
    first = by_round(session)[0]
    assert first[1] == first[5]
    [repeated] = record.repeated_blocks
    assert (repeated.arm, repeated.round, repeated.disturbed) == (first[1]["arm"], 0, ["others' CPU"])
    assert len(record.blocks) == 10 and not any(block.disturbed for block in record.blocks)
    assert record.blocks[4].begun_us > repeated.ended_us
    assert record.repeated_spans_us() == [(repeated.begun_us, repeated.ended_us)]


def test_a_block_with_a_restarted_process_is_run_again() -> None:
    session = play(Config(rounds=2, loads=(0.5,)), dies_in=7)
    [repeated] = session.record.repeated_blocks
    assert (repeated.restarts, repeated.disturbed) == (1, ["restart"])
    assert {block.restarts for block in session.record.blocks} == {0}
    # A process that is new, or was restarted in between, is left out; the others count.
    assert repeated.run_queue_ms == {"worker-1": 5.0}
    assert repeated.servers.packets == 0 and repeated.servers.proc_cpu_ns == 0
    assert {block.servers.packets for block in session.record.blocks} == {100}


def test_a_round_in_which_the_number_of_workers_changes_is_run_again_as_a_whole() -> None:
    """Its blocks are compared, so all of them have the same workers."""

    class Dying(PlayedSession):
        dies_in_block, died = 7, False

        @property
        def n_workers(self) -> int:
            return WORKERS - (len(self.played) >= self.dies_in_block)

        async def run_steps(
            self, planned: PlannedBlock, on_progress: OnProgress | None = None
        ) -> list[BlockResult]:
            ran = await super().run_steps(planned, on_progress)
            if len(self.played) == self.dies_in_block:
                self.record.worker_changes.append(WorkerChange(worker="worker-1", change="died"))
            return ran

    session = Dying(Config(rounds=2, loads=(0.5,)))
    play_on(session)
    blocks, repeated = session.record.blocks, session.record.repeated_blocks
    assert [(block.round, block.disturbed) for block in repeated] == [(1, ["workers"])] * 2
    assert [block.worker_changes for block in repeated] == [0, 1]
    assert len(session.played) == 2 * len(ARMS) + 2
    assert sorted((block.round, block.arm) for block in blocks) == sorted(
        (number, arm) for number in range(2) for arm in ARMS
    )


def test_the_last_of_three_attempts_counts_and_is_marked_as_disturbed() -> None:
    session = disturbed(1, range(1, 100))
    assert len(session.played) == 10
    assert [block.disturbed for block in session.record.blocks] == [["others' CPU"]] * 5
    again = disturbed(1, range(5, 8))
    assert len(again.played) == 7
    assert [block.disturbed for block in again.record.blocks] == [[]] * 4 + [["others' CPU"]]


def test_blocks_that_are_run_again_are_a_quarter_at_most() -> None:
    """If all blocks are disturbed, repeating each would triple the time without a better result."""
    session = disturbed(20, range(1, 1000))
    assert (len(session.record.blocks), len(session.record.repeated_blocks)) == (100, 25)


def test_a_block_records_the_cpu_time_taken_by_other_programs() -> None:
    block = disturbed(1, range(1, 2)).record.repeated_blocks[0]
    assert (block.duration_ms, block.steal_ms, block.others_cpu_ms, block.pressure_ms) == (600, 2, 300, 30)
    assert (block.begun_us, block.ended_us) == (1_000_000_000, 1_000_600_000)
    assert block.clock_step_ms == 0.5
    assert block.retransmissions == 3 * WORKERS


def test_a_requested_number_of_rounds_is_run() -> None:
    session = play(Config(rounds=12, budget_s=1e-9))
    assert len(by_round(session)) == 12
    assert (session.record.ended_by, session.new) == ("rounds", 0)
    assert session.halfway == 6 * 10


def test_rounds_end_at_the_first_interim_look_that_decides_everything() -> None:
    session = play(Config())
    first = LOOKS[0]
    assert (len(by_round(session)), session.record.ended_by) == (first.rounds, "decided")
    assert (session.new, session.record.alpha, session.halfway) == (first.rounds, first.alpha, 0)


def test_the_first_numbers_are_printed_while_rounds_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once after 20 s, and not again before the first look, which here ends the run."""
    session = PlayedSession(Config())
    shown: list[str] = []
    monkeypatch.setattr(session.reporter, "message", shown.append)
    monkeypatch.setattr("experiment.phases.rounds.FIRST_SUMMARY_S", 0.0)
    play_on(session)
    assert len(shown) == 1
    assert says(shown[0], 1, "servers")


def block_with_cost(number: int, arm: str, packets: int, cpu_s: float, load: float = 0.5) -> Block:
    return a_block(number, arm, load, servers=ServerUse(packets=packets, bytes=2 * packets, cpu_s=cpu_s))


def test_the_first_numbers_are_of_all_rounds_at_the_load() -> None:
    blocks = [
        block_with_cost(0, "baseline", 100, 1.0),
        block_with_cost(0, "offload", 40, 0.5),
        block_with_cost(0, "offload", 1, 0.0, load=0.8),
        block_with_cost(1, "baseline", 100, 1.0),
        block_with_cost(1, "offload", 70, 0.7),
        block_with_cost(1, "proxy", 0, 0.0),
    ]
    assert interim_summary(blocks, 0.5, OFFLOAD) == (
        "so far (2 rounds), at the servers: packets -45 %, bytes -45 %, CPU -40 %"
    )
    alone = block_with_cost(0, "baseline", 1, 1.0)
    assert interim_summary([alone], 0.5, OFFLOAD) is None
    unused = [block_with_cost(0, arm, 0, 0.0) for arm in ("baseline", "offload")]
    assert interim_summary(unused, 0.5, OFFLOAD) is None
    gone = [block_with_cost(0, "baseline", 100, 0.0), block_with_cost(0, "offload", 0, 0.0)]
    assert interim_summary(gone, 0.5, OFFLOAD) == (
        "so far (1 round), at the servers: packets -100 %, bytes -100 %"
    )


def test_precise_rounds_go_on_until_all_intervals_are_narrow() -> None:
    session = play(Config(precise=True))
    assert (len(by_round(session)), session.record.ended_by) == (MIN_ROUNDS_FOR_PRECISION, "precision")
    assert (session.new, session.record.alpha) == (MIN_ROUNDS_FOR_PRECISION, ALPHA)


def test_rounds_end_with_the_budget() -> None:
    session = play(Config(budget_s=1e-9))
    assert (len(by_round(session)), session.record.ended_by, session.halfway) == (1, "budget", 0)


@pytest.mark.parametrize(
    ("period_ms", "settings", "steps"),
    [
        # 400 ms of 5 ms hold 80 steps of each of four workers: enough.
        (5, {}, 80),
        # 130 ms are discarded, 4 steps; 25 of each worker make 100.
        (40, {"budget_s": 280.0}, 4 + 25),
        # Ten rounds of ten blocks in 100 s, if precise: a second for each, with what lies between.
        (100, {"precise": True, "budget_s": 100.0}, 9),
        # Twelve rounds to the first look in half of the budget, half of them at the first load only.
        (100, {"budget_s": 180.0}, 9),
        (100, {"rounds": 3, "budget_s": 200.0}, 2 + 25),
        (100, {"budget_s": 540.0}, 27),
        (100, {"block_steps": 20, "budget_s": 200.0}, 2 + 5),
        (100, {"block_steps": 1, "loads": (0.5,)}, 4),
        (1000, {}, 2),
    ],
)
def test_a_block_holds_the_steps_of_its_quantile_as_far_as_the_budget_goes(
    period_ms: int, settings: dict[str, Any], steps: int
) -> None:
    config = Config(**settings)
    assert steps_of_block(config, period_ms * 1_000_000, config.rounds or config.planned_rounds) == steps
