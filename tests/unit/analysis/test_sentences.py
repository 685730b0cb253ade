"""All sentences of reports, of made-up runs, as one text: `sentences.txt`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from analysis.record import AgentCost, CapacityCheck, ProgramUse
from analysis.report import (
    answers,
    durability_table,
    fact_sentences,
    provenance_rows,
    worse_metrics,
)
from analysis.sentences.page import caveats, how_to_read
from analysis.sentences.table_titles import nothing_worse
from analysis.summary import ProgramShare, Summary
from analysis.wording import sentence_text
from tests.harness.snapshots import assert_snapshot
from tests.harness.summaries import a_load, a_summary, of_ratio
from tests.unit.analysis.synthetic import SyntheticRun
from tests.unit.analysis.test_answer import (
    CPU,
    LESS,
    MORE,
    NOT_KNOWN,
    OPEN,
    PACKETS,
    PULL,
    PUSH,
    STOLEN,
    summary,
)
from tests.unit.analysis.test_dedicated_switch import MEASURED, OWN, SHARED, virtual
from tests.unit.analysis.test_dedicated_switch import summary as simulated
from tests.unit.analysis.test_vectors import run_summary

SAME = of_ratio(0.0001, -0.0001, 0.0003)
NOISE = of_ratio(0.004, 0.001, 0.007)
LOST = dict(sent=9, applied=5, lost=4, unknown=1, mismatched_keys=1, collected=6, uncollected=2)
NO_ROUND = {"0.5": a_load()}


def capacity(**later: float) -> list[CapacityCheck]:
    return [
        CapacityCheck.model_validate({"when": when, "capacity": {"baseline": rate}})
        for when, rate in later.items()
    ]


def program(workers: float, servers: float, **cores: float) -> ProgramShare:
    use = {"workers": workers / 2, "servers": servers / 2, **cores}
    return ProgramShare(workers=workers, servers=servers, cores=ProgramUse(**use))


ANSWERS: dict[str, Summary] = {
    "everything claimed": summary({
        PULL: MORE, PUSH: MORE, CPU: LESS, PACKETS: LESS, "ps_bytes_per_step": MORE, "rpcs_per_step": MORE,
        "worker_cpu_us_per_step": LESS, "worker_cpu_without_switch_us_per_step": MORE,
    }, {PULL: LESS, PUSH: OPEN}, learning={"offload": LESS}),
    "every reason not to": summary(
        {PULL: MORE, PUSH: OPEN, CPU: NOISE, PACKETS: SAME, "rpcs_per_step": NOT_KNOWN},
        {PULL: LESS, PUSH: SAME}, invalidated_by={"offload": {"time": STOLEN}}, dropped_rows=9,
        learning={"offload": of_ratio(-0.016)},
    ),
    "the same model, from reports": summary({CPU: LESS}, learning={"offload": SAME},
                                            reports=1_200, cpus=None),
    "a worse model": summary({CPU: LESS}, learning={"offload": MORE}, reports=1,
                             virtual_s=3.0, real_s=1.0, rpcs=9, packet_passes=18),
    "no null": a_summary({"0.5": a_load(differences={"offload": {CPU: LESS}})}),
    "no complete round": a_summary(NO_ROUND, capacity={"baseline": 200.0, "offload": 200.0}),
    "not run": a_summary(NO_ROUND, capacity={"baseline": 200.0, "offload-proxy": 200.0}),
    "few rounds": summary({CPU: NOT_KNOWN}),
    "broken": summary({CPU: LESS}, updates=LOST, overflows=1_000, changed_arms=["offload", "offload-proxy"]),
    "a dedicated switch": simulated(MEASURED, virtual(OWN, SHARED)),
    "vectors": run_summary({"switchml": 8_000.0, "switchml-checked": 10_000.0}),
    "no arm to be judged": a_summary(NO_ROUND, capacity={"none": 200.0}),
}  # fmt: skip
FACTS: dict[str, dict[str, Any]] = {
    "virtual time": {"virtual_s": 1.25, "real_s": 2.0, "rpcs": 1_234, "packet_passes": 2_000, "loop_s": 0.5},
    "slow agents": {"agents": {"fast": AgentCost(worker_us=5, server_us=3),
                               "scapy": AgentCost(worker_us=3_000, server_us=2_000)}},
    "mixed agents": {"agents": {"fast": AgentCost(worker_us=5, server_us=3),
                                "mixed": AgentCost(worker_us=3_000, server_us=2_000)}},
    "precision": {"ended_by": "precision", "widest": {"load": "0.5", "arm": "offload", "metric": "pull_p99",
                                                      "half_width": 0.0321, "goal": 0.1}},
    "budget": {"ended_by": "budget", "budget_s": 100.0, "repeated": {"offload": {"steal": 2, "lateness": 1}}},
    "script": {"ended_by": "script", "reports": 7, "learning": {"offload": MORE},
               "steps_per_s": {"baseline": 1, "offload": 2.25},
               "last_reported": {"baseline": 0.12345, "offload": 12345.6}},
    "a script's budget": {"ended_by": "budget", "budget_s": 100.0, "steps_per_s": {"baseline": 1.0}},
    "rounds": {"ended_by": "rounds"},
    "decided": {"ended_by": "decided", "alpha": 0.01},
    "futility": {"ended_by": "futility", "alpha": 0.02},
    "capacity": {"capacity_checks": capacity(middle=190, end=195), "offered_rate": {"0.5": 100.0}},
    "drift": {"capacity_checks": capacity(middle=199, end=150), "offered_rate": {"0.5": 100.0}},
    "drift of a given rate": {"capacity_checks": capacity(end=150), "offered_rate": {"0.5": 100.0},
                              "rate": 1_500.0},
    "a hot set": {"hot_update_share": 0.25, "hot_part": 0.77},
    "no small part": {"hot_update_share": 0.0, "hot_part": 0.1},
    "losses": {"updates": LOST, "overflows": 1, "dropped_rows": 9, "changed_arms": ["offload"],
               "restarts": {"s1": 1, "ps-1": 2}},
    "deaths": {"worker_changes": [
        {"worker": "worker-3", "change": "died", "round": -1},
        {"worker": "worker-5", "change": "died", "round": 1},
        {"worker": "worker-3", "change": "joined", "round": 2, "rows": 7},
    ]},
    "program at its senders": {"program_share": program(0.1, 0.05)},
    "program apart": {"program_share": program(0, 0, apart=0.14)},
    "program at all": {"program_share": program(0.1, 0.02, on_workers=0.2, on_servers=0.3, apart=0.1)},
    "learned": {"learning": {"repeat": of_ratio(0.0, -0.1, 0.1), "offload": MORE},
                "last_loss": 0.5, "chance_loss": 0.69},
    "learned nothing": {"last_loss": 0.69, "chance_loss": 0.69},
    "an empty RPC": {"empty_rpc_latency_us": {"mean": 1.0, "p50": 149.6, "p95": 1.0, "p99": 1_199.4}},
}  # fmt: skip


def shown() -> Iterator[str]:
    for name, of in ANSWERS.items():
        yield f"\n# {name}"
        for reported in answers(of):
            yield from (
                reported.title,
                f"{'' if reported.is_trusted else '! '}{reported.headline}",
                *reported.texts(),
            )
    yield "\n# headlines"
    for servers, pull, push in product((LESS, OPEN, MORE), repeat=3):
        yield answers(summary({CPU: servers, PULL: pull, PUSH: push}))[0].headline
    usual = set(fact_sentences(a_summary({})))
    for name, changes in FACTS.items():
        load = a_load(blocks_repeated=3, blocks_disturbed=1, block_steps=25)
        yield f"\n# {name}"
        found = fact_sentences(a_summary({"0.5": load} if name == "budget" else {}, **changes))
        yield from (fact for fact in found if fact not in usual)
    yield "\n# facts of loads"
    hot, proxy = {PULL: LESS, PUSH: OPEN}, {PULL: MORE, PUSH: MORE}
    yield from fact_sentences(
        summary(hot, proxy, rounds_fallen_behind=2, invalidated_by={"offload": {"time": STOLEN}})
    )
    worse = summary({PULL: MORE, CPU: MORE}, rounds=1)
    yield "\n# tables"
    for of in (worse, a_summary({"closed loop": a_load(differences={"offload": {PULL: NOT_KNOWN}})})):
        yield from (sentence_text(line) for name in of.loads for line in worse_metrics(of, name))
        yield nothing_worse(of)


def test_all_sentences_of_reports_equal_the_snapshot() -> None:
    assert_snapshot(Path(__file__).with_name("sentences.txt"), "\n".join(shown()))


def test_the_reading_instructions_depend_on_the_kind_of_run() -> None:
    paced, script, vectors = (
        a_summary(NO_ROUND),
        a_summary(NO_ROUND, reports=5),
        run_summary({"ring": 8_000.0}),
    )
    assert len({how_to_read(each, is_simulated=False)[0] for each in (paced, script, vectors)}) == 3
    # In virtual time there is no noise, and nothing to say of it.
    real, virtual = how_to_read(paced, is_simulated=False), how_to_read(paced, is_simulated=True)
    assert (len(real), len(virtual), real[0]) == (3, 2, virtual[0])
    assert caveats(is_simulated=False)[1:] == caveats(is_simulated=True)[1:]


def test_the_load_machine_and_placement_of_a_run_are_reported_by_name(synthetic_run: SyntheticRun) -> None:
    record, summary = synthetic_run.record, a_summary(NO_ROUND, vector=600, durable="always")
    assert dict(provenance_rows(record, summary)) == {
        "load": "0.5: 100.0 steps/s of all workers",
        "measured": "0 steps, some 0 RPCs",
        "machine": "6.1",
        "placement": "p1 on 0",
        "vector": "the 600 parameters that most mini-batches have, each step",
    }
    kernel: dict[str, Any] = {
        "datapath": "kernel",
        "placement": {"switch": "any", "workers": 1},
        "switch": {"ports": {"1": {"rx": 2_000, "rx_dropped": 1_000, "program_ns": 1_500_000}}},
        "config": {"workers": 4, "servers": 1, "top_k": 2_000, "script": "train.py"},
        "machine": {"cpu": "i7", "kernel": "6.1", "cpus": 2},
        "workload": {"name": "R1", "parameters": 1, "lanes_per_step": 1_234.5},
    }
    found = dict(provenance_rows(record.model_copy(update=kernel), a_summary(NO_ROUND, hot_part=0.125)))
    assert found == {
        "workload": "R1: 1 parameter, 1,234 of them a step",
        "script": "train.py: a process for each worker in each arm",
        "network": "4 workers, 1 parameter server, one switch: "
        "softswitch, its datapath in the kernel (1.5 µs of the senders' CPU time for a frame)",
        "hot set": "the 2,000 most updated parameters of a profile run, 12.5% of all",
        "load": "0.5: 100.0 steps/s of all workers",
        "measured": "0 steps, some 0 RPCs",
        "machine": "2 CPUs: 6.1, i7",
        "placement": "switch on its senders' CPUs, workers on 1",
    }
    kernel["placement"] = {"switch": 2}
    found = dict(provenance_rows(record.model_copy(update=kernel), summary))
    assert "1.5 µs of its own CPU time for a frame" in found["network"]
    assert found["placement"] == "switch on 2"
    assert "always" in durability_table(summary).title
