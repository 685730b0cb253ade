"""What an answer says of a cluster: all its sentences about differences, beside a snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.metrics import METRICS
from hotline_answers.cluster_answer.arm_results import ArmResult, OffloadComparison, Utilization
from hotline_answers.cluster_answer.sentences import differences
from tests.harness.snapshots import assert_snapshot
from tests.harness.summaries import of_ratio
from tests.unit.analysis.test_answer import CPU, LESS, MORE, OPEN, PACKETS, PULL, PUSH
from tests.unit.analysis.test_metrics import LANES

BUSY = Utilization(workers=0.5, servers=0.5)
SIDE = ArmResult(capacity=100, at_capacity=BUSY, at_rate=BUSY, rpcs_per_step=10, ps_packets_per_step=10)


def test_all_sentences_about_differences_equal_the_snapshot() -> None:
    found = {PULL: MORE, PUSH: LESS, CPU: OPEN, PACKETS: LESS, "rpcs_per_step": OPEN, "push_p99": LESS}
    sentences = differences(
        OffloadComparison(top_k=20_000, rate=50, rounds=10, baseline=SIDE, offload=SIDE, differences=found)
    )
    assert_snapshot(Path(__file__).with_name("cluster.txt"), "\n".join(sentences))


def test_metrics_of_which_more_is_better_have_a_separate_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, LANES.name, LANES)

    def reported(ratio: float) -> tuple[str, ...]:
        found = {
            "lanes_and_served": of_ratio(ratio, ratio - 0.1, ratio + 0.1),
            "ps_packets_per_step": of_ratio(-0.2, -0.25, -0.15),
        }
        return tuple(
            differences(
                OffloadComparison(
                    top_k=20_000, rate=50, rounds=10, baseline=SIDE, offload=SIDE, differences=found
                )
            )
        )

    (packets, gained), (same, lost) = reported(0.5), reported(-0.5)
    assert packets == same and "-20 %" in packets
    assert "+50 %" in gained and "-50 %" in lost
    assert gained.partition(":")[0] != lost.partition(":")[0] != packets.partition(":")[0]
