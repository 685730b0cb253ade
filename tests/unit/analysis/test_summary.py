"""Numbers of the summary on logs of known content."""

from __future__ import annotations

import polars as pl
import pytest

from analysis.caveats import facts
from analysis.disturbed_blocks import DisturbedBlocks
from analysis.record import AgentCost, Simulation
from analysis.report import durability_table
from analysis.sentences.facts import all_facts
from analysis.summary import Summary, summarise
from foundation.logs.columns import CALLS
from switch_harness.wording import says
from tests.harness.summaries import a_summary, terminal
from tests.unit.analysis.synthetic import LOADS, ROUNDS, STEPS, SyntheticRun


def test_steps_and_server_use_cover_whole_blocks(synthetic_run: SyntheticRun) -> None:
    hot = synthetic_run.summary().arms["offload"]
    assert hot.steps == ROUNDS * len(LOADS) * 2 * STEPS
    assert hot.ps_packets_per_step == 400 / (2 * STEPS)
    assert hot.ps_proc_us_per_step == {"cpu": 400 / (2 * STEPS), "wall": 800 / (2 * STEPS)}
    assert hot.ps_cpu_s == pytest.approx(0.25 * ROUNDS * len(LOADS))
    assert hot.loss == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("baseline", "room", "parameters", "part"),
    [
        ("baseline", 20_000, 900_000, 0.0222),
        ("baseline", 20_000, 1_000, 1.0),
        ("baseline", None, 900_000, None),
        ("baseline", 20_000, None, None),
        # It has no hot set.
        ("psdense", 20_000, 900_000, None),
    ],
)
def test_the_share_of_the_model_that_fits_into_the_switch_is_summarised(
    synthetic_run: SyntheticRun, baseline: str, room: int | None, parameters: int | None, part: float | None
) -> None:
    synthetic_run.record.capacity = {baseline: 200.0}
    synthetic_run.record.config["top_k"] = room
    synthetic_run.record.workload["parameters"] = parameters
    found = synthetic_run.summary().hot_part
    assert found == (None if part is None else pytest.approx(part, rel=1e-2))


def test_empty_rpcs_are_in_no_difference(synthetic_run: SyntheticRun) -> None:
    before = synthetic_run.summary().loads
    empty, slow = pl.lit("empty", pl.Enum(CALLS)), pl.lit(1e6, dtype=pl.Float32)
    changes = {"op": empty, "latency_us": slow, "measured": pl.lit(True)}
    synthetic_run.change("rpc", lambda rows: pl.concat([rows, rows.head(1).with_columns(**changes)]))
    assert synthetic_run.summary().loads == before


def test_a_load_that_trains_nothing_has_no_loss(synthetic_run: SyntheticRun) -> None:
    for block in synthetic_run.record.blocks:
        block.loss = None
    summary = synthetic_run.summary()
    assert summary.last_loss is None
    assert [arm.loss for arm in summary.arms.values()] == [None] * 5
    assert summary.learning == {}


def test_a_loss_that_only_some_blocks_have_is_averaged_and_not_compared(synthetic_run: SyntheticRun) -> None:
    blocks = [block for block in synthetic_run.record.blocks if block.arm == "offload"]
    for block in blocks:
        block.loss = None
    blocks[0].loss, blocks[0].steps, blocks[1].loss, blocks[1].steps = 0.2, 30, 0.6, 10
    summary = synthetic_run.summary()
    assert summary.arms["offload"].loss == pytest.approx(0.3)
    assert "offload" not in summary.learning and "offload-proxy" in summary.learning


def test_a_single_rpc_is_all_there_is_of_its_class(synthetic_run: SyntheticRun) -> None:
    of_hot = pl.col("arm") == "offload"
    synthetic_run.change("rpc", lambda rows: rows.filter(of_hot & pl.col("measured")).head(1))
    synthetic_run.change("operations", lambda rows: rows.filter(of_hot))
    arms = synthetic_run.summary().arms
    of_offload = arms["offload"]
    assert of_offload.rpcs_per_step_by_class == {"all_hit": 0, "mixed": of_offload.rpcs_per_step, "cold": 0}
    # And none is none of any class.
    assert arms["offload-proxy"].rpcs_per_step_by_class == {"all_hit": 0, "mixed": 0, "cold": 0}


def test_an_older_summary_without_losses_can_be_read(synthetic_run: SyntheticRun) -> None:
    summary = synthetic_run.summary()
    lacking: dict[str, object] = {"last_loss": None, "chance_loss": None, "learning": {}}
    older = Summary.model_validate_json(summary.model_dump_json(exclude=set(lacking)))
    assert older == summary.model_copy(update=lacking)


def test_rounds_in_which_the_generator_fell_behind_are_counted(synthetic_run: SyntheticRun) -> None:
    loads = synthetic_run.summary().loads
    assert (loads["0.5"].rounds_fallen_behind, loads["0.8"].rounds_fallen_behind) == (0, 1)


def test_a_load_of_many_digits_finds_its_rows(synthetic_run: SyntheticRun) -> None:
    """A third is stored in 32 bits and named by six digits."""
    for block in synthetic_run.record.blocks:
        block.load = 1 / 3 if block.load == 0.5 else block.load
    synthetic_run.record.offered_rate = {"0.8": 160.0, "0.333333": 100.0}
    third = pl.col("load").replace(0.5, 1 / 3).cast(pl.Float32)
    for name in ("rpc", "operations"):
        synthetic_run.change(name, lambda rows: rows.with_columns(third))
    loads = synthetic_run.summary().loads
    assert list(loads) == ["0.8", "0.333333"]  # in the order of the configuration
    assert loads["0.333333"].arms["baseline"].op_latency_us["push"].p99 == 800
    assert loads["0.333333"].differences.keys() == loads["0.8"].differences.keys()


def test_the_error_rate_of_an_interim_look_applies_to_the_first_load_only(
    synthetic_run: SyntheticRun,
) -> None:
    """Looks see the first load only, so intervals at the other keep 5 %."""
    before = synthetic_run.summary().loads
    synthetic_run.record.alpha = 0.01
    after = synthetic_run.summary().loads
    assert [load.alpha for load in before.values()] == [0.05, 0.05]
    assert [load.alpha for load in after.values()] == [0.01, 0.05]
    # Six rounds give no interval at 1 %.
    assert after["0.5"].lacks_intervals and not before["0.5"].lacks_intervals
    assert after["0.8"] == before["0.8"]


def test_arms_that_were_changed_are_passed_on(synthetic_run: SyntheticRun) -> None:
    assert synthetic_run.summary().changed_arms == []
    assert synthetic_run.record.accounting is not None
    synthetic_run.record.accounting.changed_arms = ["proxy", "offload"]
    assert synthetic_run.summary().changed_arms == ["proxy", "offload"]


def made_durable(run: SyntheticRun) -> None:
    """All arms but one have 2 commits a step, of 15 us, and for each of them 3 RPCs wait, for 20 us."""
    run.record.config["recovery"] = {"journal_sync": "always", "replay_log": False}
    for block in run.record.blocks:
        if block.arm != "proxy":
            use, commits = block.servers, 2 * block.steps
            use.commits, use.commit_ns = commits, commits * 15_000
            use.delayed, use.delay_ns = 3 * commits, 3 * commits * 20_000


def test_the_cost_of_durability_is_known_for_each_arm(synthetic_run: SyntheticRun) -> None:
    assert all(arm.durability is None for arm in synthetic_run.summary().arms.values())
    made_durable(synthetic_run)
    summary = synthetic_run.summary()
    assert summary.durable == "always" and summary.arms["proxy"].durability is None
    delay, wall = 3 * 2 * 2 * STEPS * 20_000, 800_000
    costs = dict(commits_per_step=2, commit_us=15, rpcs_per_commit=3, delay_us=20)
    assert summary.arms["offload"].durability == {**costs, "share_of_ps_proc": delay / (delay + wall)}
    table = durability_table(summary)
    assert "journal_sync always" in table.title
    share = f"{delay / (delay + wall):.1%}"
    column = list(table.columns).index("offload")
    assert [(row[0], row[column]) for row in table.texts()] == [
        ("commits/step", "2.0"),
        ("time per commit, µs", "15.0"),
        ("RPCs per commit", "3.0"),
        ("commit wait per RPC, µs", "20.0"),
        ("commit wait / PS_proc", share),
    ]
    assert {row[list(table.columns).index("proxy")] for row in table.texts()} == {"–"}
    synthetic_run.record.blocks = [block for block in synthetic_run.record.blocks if block.arm != "proxy"]
    assert "proxy" not in durability_table(synthetic_run.summary()).columns


def test_the_terminal_shows_the_cost_of_durability(synthetic_run: SyntheticRun) -> None:
    def lines() -> list[str]:
        shown = terminal(synthetic_run.summary()).splitlines()
        assert max(map(len, shown)) <= 100
        return [line for line in shown if line.startswith("RPCs per commit")]

    assert lines() == []
    made_durable(synthetic_run)
    (line,) = lines()
    assert line.split() == ["RPCs", "per", "commit", "3.0", "3.0", "–", "3.0", "3.0"]


def test_disturbed_blocks_invalidate_their_own_arms(synthetic_run: SyntheticRun) -> None:
    """Three of the 12 blocks of offload and baseline; of offload-proxy that is as many with baseline's."""
    blocks = [each for each in synthetic_run.record.blocks if each.load == 0.5]
    for block in [each for each in blocks if each.arm == "offload"][:3]:
        block.disturbed = ["steal"]
    steal = DisturbedBlocks(blocks=12, disturbed=3, reasons={"steal": 3})
    loads = synthetic_run.summary().loads
    assert (loads["0.5"].invalidated_by, loads["0.8"].invalidated_by) == ({"offload": {"time": steal}}, {})
    for block in [each for each in blocks if each.arm == "baseline"][:3]:
        block.disturbed = ["restart"]
    found = synthetic_run.summary().loads["0.5"].invalidated_by
    assert set(found) == {"repeat", "proxy", "offload", "offload-proxy"}
    assert found["offload"]["time"] == DisturbedBlocks(
        blocks=12, disturbed=6, reasons={"restart": 3, "steal": 3}
    )
    assert found["offload"]["cpu"] == DisturbedBlocks(blocks=12, disturbed=3, reasons={"restart": 3})


def test_a_simulated_repeat_is_no_null(synthetic_run: SyntheticRun) -> None:
    record = synthetic_run.record
    record.machine["cpus"] = 2
    real = synthetic_run.summary()
    record.simulation = Simulation(rpcs=9, packet_passes=9, events=9, virtual_s=1.0, real_s=2.0)
    virtual = synthetic_run.summary()
    assert [set(of.loads["0.5"].differences) for of in (real, virtual)] == [
        {"repeat", "proxy", "offload", "offload-proxy"},
        {"proxy", "offload", "offload-proxy"},
    ]
    assert (real.cpus, virtual.cpus) == (2, None)
    assert real.learning["offload"].ratio_low is not None and virtual.learning["offload"].ratio_low is None
    heads = [line.split() for line in terminal(virtual).splitlines() if line.split()[:1] == ["baseline"]]
    assert heads[0] == ["baseline", "proxy", "offload", "offload-proxy"]


def test_scapy_agents_are_compared_with_compiled_agents() -> None:
    """The factor is the CPU time of an RPC at worker and server: 5,000 µs instead of 8 µs."""
    fast, scapy = AgentCost(worker_us=5.0, server_us=3.0), AgentCost(worker_us=3000.0, server_us=2000.0)
    [slow] = facts(a_summary({}, agents={"fast": fast, "scapy": scapy})).slow_agents
    assert (slow.codec, slow.cost, slow.compiled, slow.slowdown) == ("scapy", scapy, fast, 625)
    assert facts(a_summary({})).slow_agents == []


def test_scapy_agents_without_numba_have_no_slowdown() -> None:
    scapy = AgentCost(worker_us=3000.0, server_us=2000.0)
    summary = a_summary({}, agents={"scapy": scapy})
    [slow] = facts(summary).slow_agents
    assert (slow.cost, slow.compiled, slow.slowdown) == (scapy, None, None)
    sentences = all_facts(summary, facts(summary))
    assert says(sentences[0], "codec scapy", "3,000", "2,000", "numba")


def test_a_summary_has_the_cost_of_agents_alone(synthetic_run: SyntheticRun) -> None:
    cost = {codec: AgentCost(worker_us=us, server_us=us) for codec, us in (("fast", 5.0), ("scapy", 50.0))}
    record = synthetic_run.record.model_copy(update={"agents": cost})
    assert summarise(synthetic_run.folder, record).agents == cost
