"""Costs that are measured directly, of a run whose costs are known; and what virtual time adds to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.record import AnalysisError, RunRecord, read_record
from analysis.summary import Summary, summarise
from experiment.phases.workload import generate_trace
from hosts.workload.trace import Trace
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import HostCosts
from hotline_simulator.dedicated_switch import simulate as dedicated_switch
from hotline_simulator.dedicated_switch.__main__ import main
from hotline_simulator.dedicated_switch.similar_run import (
    ArmCosts,
    baseline_costs,
    correct_costs,
    costs_of_run,
    fit_cold_time,
)
from hotline_simulator.experiment import temporary_run
from switch_harness.damage import damage
from switch_harness.wording import mentions, says
from tests.harness.known_costs import (
    ANSWER_NS,
    IDLE_NS,
    LOOKUP_NS,
    PROGRAM_NS,
    as_if_measured,
)

SMALL = {"parameters": 3_000, "hot_parameters": 60, "keys_per_step": 100}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulate a run, and give it the record, logs and times of a real one."""
    return as_if_measured(tmp_path_factory.mktemp("real"), 1)


def read(run: Path) -> tuple[Path, RunRecord, Summary]:
    record = read_record(run)
    return run, record, summarise(run, record)


def test_costs_are_taken_from_counters_and_lone_rpcs(real: Path) -> None:
    hosts = costs_of_run(*read(real))
    # RPCs a step are those of measured steps, and the counters' of all steps.
    assert hosts.program_ns == pytest.approx(PROGRAM_NS, rel=0.02)
    assert hosts.lookup_ns == pytest.approx(LOOKUP_NS, rel=0.05)
    assert hosts.hit_ns == 0
    assert hosts.answer_ns == pytest.approx(ANSWER_NS, rel=0.05)
    assert hosts.idle_ns == pytest.approx(IDLE_NS, abs=2)
    assert hosts.wake_ns == pytest.approx(0.2 * IDLE_NS, abs=2)
    assert (hosts.worker_cores, hosts.server_cores, hosts.measured) == (1, 1, real)


def test_without_the_kernels_program_a_switch_costs_no_host_time(real: Path) -> None:
    run, record, summary = read(real)
    for block in record.blocks:
        block.program_s = None
    hosts = costs_of_run(run, record, summary)
    assert (hosts.program_ns, hosts.lookup_ns, hosts.hit_ns, hosts.answer_ns) == (None, 0, 0, 0)


def test_a_run_without_offload_or_without_lone_rpcs_has_no_direct_costs(real: Path, tmp_path: Path) -> None:
    run, record, summary = read(real)
    whole = record.blocks
    record.blocks = [block for block in whole if block.arm != "offload"]
    with pytest.raises(AnalysisError, match=mentions("measured", "offload")):
        costs_of_run(run, record, summary)
    record.blocks = whole
    rows = pl.read_parquet(run / "rpc.parquet").filter(pl.col("op") != "empty")
    rows.write_parquet(tmp_path / "rpc.parquet")
    with pytest.raises(AnalysisError, match=mentions("empty_rpcs", "measure")):
        costs_of_run(tmp_path, record, summary)


def test_remaining_cpu_time_of_a_step_is_attributed_to_sending_and_to_ends_of_operations() -> None:
    """Servers took 200 µs more of 100 packets, which workers send as well; those took 1,000 more in all."""
    hosts = HostCosts(send_ns=5_000, end_ns=150_000)
    found = correct_costs(hosts, ArmCosts(3_000, 1_200, 100), ArmCosts(2_000, 1_000, 100))
    assert (found.send_ns, found.end_ns) == (7_000, 150_000 + 400_000)
    # There is no less than next to nothing.
    least = correct_costs(hosts, ArmCosts(10, 10, 100), ArmCosts(2_000, 1_000, 100))
    assert (least.send_ns, least.end_ns) == (500, 500)


class TestColdTime:
    HOSTS = HostCosts(end_ns=200_000, worker_cores=1)
    MEASURED = ArmCosts(2_000, 1_000, 100)

    def test_time_is_moved_to_the_operations_that_find_their_core_idle(self) -> None:
        """Half of the operations took 100 µs more. A step takes 100 µs less at full load."""
        trial = ArmCosts(2_100, 1_000, 100)
        found = fit_cold_time(self.HOSTS, self.MEASURED, 500.0, trial, 1e6 / 2_100)
        assert (found.end_ns, found.cold_ns) == (150_000, 100_000)
        # With two cores for all workers, the same capacities mean twice as much time.
        found = fit_cold_time(
            self.HOSTS.model_copy(update={"worker_cores": 2}), self.MEASURED, 1_000.0, trial, 2e6 / 2_100
        )
        assert (found.end_ns, found.cold_ns) == (150_000, 100_000)

    def test_no_more_is_moved_than_follows_an_operation(self) -> None:
        found = fit_cold_time(self.HOSTS, self.MEASURED, 500.0, ArmCosts(2_200, 1_000, 100), 100.0)
        assert (found.end_ns, found.cold_ns) == (500, 199_500)

    @pytest.mark.parametrize(
        ("trial_us", "capacity"), [(2_100, 500.0), (2_100, 600.0), (2_000, 400.0), (1_900, 400.0)]
    )
    def test_nothing_is_moved_without_cold_operations_or_spare_capacity(
        self, trial_us: float, capacity: float
    ) -> None:
        trial = ArmCosts(trial_us, 1_000, 100)
        assert fit_cold_time(self.HOSTS, self.MEASURED, 500.0, trial, capacity) == self.HOSTS


def test_a_simulation_finds_the_costs_of_a_run_and_predicts_dedicated_cores(
    real: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is off by little; with cores of their own workers no longer wait for each other."""
    seen: list[SimulationConfig] = []

    def watched(
        config: SimulationConfig, data: Any, reporter: Any, scratch: str | None = None, *, hot_set: Path
    ) -> Any:
        seen.append(config)
        # The hot set and the training are the run's.
        assert hot_set == real / "hotset.parquet"
        assert config.learning_rate is not None and config.scale is not None
        return temporary_run(config, data, reporter, scratch, hot_set)

    monkeypatch.setattr(dedicated_switch, "temporary_run", watched)
    assert main(real) == 0
    run, record, summary = read(real)
    found = record.virtual
    assert found is not None and found.load == "0.3" and summary.virtual == found
    trial, cold_trial, *compared = seen
    # Two threads simulate them, in any order.
    shared, own = sorted(compared, key=lambda config: config.hosts.worker_cores is None)
    assert trial.hosts.send_ns == HostCosts().send_ns
    assert (trial.hosts.cold_ns, cold_trial.hosts.cold_ns) == (0, 100_000)
    assert cold_trial.hosts.send_ns == shared.hosts.send_ns
    assert shared.hosts.begin_ns == pytest.approx(700_000, rel=0.05)
    assert shared.hosts.end_ns == pytest.approx(400_000, rel=0.05)
    assert shared.hosts.finish_ns == pytest.approx(20_000, rel=0.1)
    assert shared.hosts.push_ns == pytest.approx(60_000, rel=0.05)
    assert shared.hosts.send_ns == pytest.approx(9_000, rel=0.15)
    assert (own.hosts.worker_cores, own.hosts.program_ns, own.hosts.lookup_ns) == (None, None, 0)
    assert (own.hosts.hit_ns, own.hosts.answer_ns) == (0, 0)
    assert (own.network.switch_us, own.network.switch_mpps) == (1, 1_000)
    assert shared.offered == own.offered == {"0.3": record.offered_rate["0.3"]}
    measured = summary.loads["0.3"].differences["offload"]
    for metric in ("worker_cpu_us_per_step", "ps_cpu_us_per_step", "rpcs_per_step", "pull_mean"):
        message, true = found.shared[metric].ratio, measured[metric].ratio
        assert message is not None and true is not None
        assert 1 + message == pytest.approx(1 + true, rel=0.1)
    assert found.own["pull_mean"].reference < found.shared["pull_mean"].reference
    assert found.own_capacity["baseline"] > 1.3 * found.shared_capacity["baseline"]
    rpcs = found.shared["rpcs_per_step"].reference
    assert baseline_costs(run, record, summary).rpcs == pytest.approx(rpcs, rel=0.05)


def test_the_trace_that_a_run_left_is_used_and_not_made_again(tmp_path: Path) -> None:
    config = SimulationConfig.model_validate({"trace_steps": 5, "workers": 2, "workload": SMALL})
    made = dedicated_switch.trace_of(tmp_path, config)
    assert (made.workers, made.steps) == (2, config.trace_steps)
    generate_trace(config.model_copy(update={"seed": 2}), lambda done: None).save(tmp_path / "trace")
    stored = dedicated_switch.trace_of(tmp_path, config)
    assert stored.position.tolist() == Trace.load(tmp_path / "trace").position.tolist()
    assert stored.position.tolist() != made.position.tolist()


def test_a_damaged_trace_of_a_run_is_made_again_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = SimulationConfig.model_validate({"trace_steps": 5, "workers": 2, "workload": SMALL})
    made = generate_trace(config, lambda done: None)
    made.save(tmp_path / "trace")
    damage(tmp_path / "trace" / "position.npy", "a bit in the middle", b"")
    again = dedicated_switch.trace_of(tmp_path, config)
    assert again.position.tolist() == made.position.tolist()
    [warning] = caplog.messages
    assert says(warning, str(tmp_path / "trace"), "position.npy", "damaged")


def test_a_run_without_an_answer_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tmp_path / "nowhere") == 1
    reported = capsys.readouterr().err
    assert (
        reported.startswith("hotline: ")
        and str(tmp_path / "nowhere") in reported
        and reported.count("\n") == 1
    )
