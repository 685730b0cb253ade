"""Measure the capacity of arms, with closed loops on a fake clock."""

from __future__ import annotations

import pytest

from analysis.record import capacity_of_baseline
from experiment.run_config import Config
from experiment.session import START_AHEAD_NS, BlockResult, MachineCounters, OnProgress, PlannedBlock
from tests.harness.arms import MEASURED as ARMS
from tests.harness.sessions import IdleSession
from topologies.calibrate import END_CHECKS, calibrate, check_capacity, probe_capacities

RATES = {"baseline": 90.0, "repeat": 110.0, "proxy": 100.0, "offload": 120.0, "offload-proxy": 140.0}
WORKERS = 4


class Played(IdleSession):
    def __init__(self, config: Config | None = None) -> None:
        super().__init__(config or Config(workers=WORKERS, calibration_s=2.0))
        self.played: list[tuple[str, int, int]] = []
        self.taken: dict[str, float] = {}
        """Arm -> share of the CPUs that the hypervisor takes while its capacity is measured."""
        self.steal_ms = 0.0

    async def run_steps(
        self, planned: PlannedBlock, on_progress: OnProgress | None = None
    ) -> list[BlockResult]:
        arm, steps = planned.arm.name, planned.steps
        self.played.append((arm, planned.first_step, steps))
        elapsed_ns = START_AHEAD_NS + round(1e9 * steps * WORKERS / RATES[arm])
        self.now_ns += elapsed_ns
        self.steal_ms += 2 * self.taken.get(arm, 0.0) * elapsed_ns / 1e6
        return [BlockResult(steps=steps, max_lateness_ns=0, cpu_s=0.0, loss=None) for _ in range(WORKERS)]

    async def read_machine(self) -> MachineCounters:
        now_ms = self.now_ns / 1e6
        return MachineCounters(now_ms, self.steal_ms, others_cpu_ms=0.02 * now_ms)


async def run(session: Played) -> None:
    await calibrate(session, await probe_capacities(session))


async def test_loads_are_fractions_of_the_baselines_capacity_if_the_baseline_is_slowest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Played()
    monkeypatch.setitem(RATES, "proxy", 101.0)
    await run(session)
    assert session.record.capacity == pytest.approx(RATES)
    assert session.record.offered_rate == pytest.approx({"0.5": 50, "0.8": 80})
    # 100 steps/s are 25 of each worker, for two seconds.
    assert session.played == [(arm, 0, 8) for arm in ARMS] + [(arm, 8, 50) for arm in ARMS]


async def test_loads_are_fractions_of_the_capacity_of_the_slowest_arm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Played()
    monkeypatch.setitem(RATES, "offload", 60.0)
    await run(session)
    assert session.record.offered_rate == pytest.approx({"0.5": 30, "0.8": 48})


async def test_loads_are_fractions_of_a_rate_that_is_given() -> None:
    session = Played(Config(workers=WORKERS, rate=42.0))
    await run(session)
    assert session.record.offered_rate == pytest.approx({"0.5": 21, "0.8": 33.6})
    assert session.record.capacity == pytest.approx(RATES)


async def test_capacity_is_checked_on_separate_steps_half_as_long_in_the_middle_and_six_times_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Played()
    await run(session)
    session.played.clear()
    monkeypatch.setitem(RATES, "baseline", 70.0)
    await check_capacity(session, "middle")
    await check_capacity(session, "end")
    middle, *at_end = session.record.capacity_checks
    assert [check.when for check in (middle, *at_end)] == ["middle", *["end"] * END_CHECKS]
    assert middle.capacity == pytest.approx(RATES)
    assert [capacity_of_baseline(end.capacity) for end in at_end] == pytest.approx([90] * END_CHECKS)
    first_steps = [83 + 8 * number for number in range(END_CHECKS)]
    assert session.played == [
        *((arm, 58, 25) for arm in ARMS), *((arm, first, 8) for first in first_steps for arm in ARMS)
    ]  # fmt: skip


async def test_cpu_time_taken_from_a_capacity_measurement_is_recorded_for_each_arm() -> None:
    """The hypervisor takes 3 % of two CPUs while arm offload is measured, and other programs 1 %."""
    session = Played()
    taken = {"offload": 0.03}
    session.taken = taken
    await run(session)
    await check_capacity(session, "middle")
    [check] = session.record.capacity_checks
    for contention in (session.record.capacity_contention, check.contention):
        assert {arm for arm, each in contention.items() if each.disturbed == ["steal"]} == {"offload"}
        assert {arm for arm, each in contention.items() if not each.disturbed} == set(ARMS) - {"offload"}
        for arm, each in contention.items():
            assert each.steal_ms == pytest.approx(2 * taken.get(arm, 0) * each.duration_ms)
            assert each.others_cpu_ms == pytest.approx(0.02 * each.duration_ms) and each.duration_ms > 0
    # 100 steps/s of all workers for two seconds, and for one.
    seconds = [of["proxy"].duration_ms / 1e3 for of in (session.record.capacity_contention, check.contention)]
    assert seconds == pytest.approx([2, 1], abs=0.1)


def test_the_capacity_of_the_baseline_is_read_from_records_without_a_second_measurement() -> None:
    assert capacity_of_baseline({"baseline": 90.0, "offload": 120.0}) == 90
