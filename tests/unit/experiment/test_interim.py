"""The first numbers of a run are those of its blocks so far."""

from __future__ import annotations

from analysis.record import Block, ServerUse
from experiment.phases.measure import interim_summary
from foundation.designs.hotset import OFFLOAD
from tests.harness.records import a_block


def block(number: int, arm: str, packets: int, cpu_s: float, load: float = 0.5) -> Block:
    return a_block(number, arm, load, servers=ServerUse(packets=packets, bytes=2 * packets, cpu_s=cpu_s))


def test_changes_are_of_all_rounds_at_the_load() -> None:
    blocks = [
        block(0, "baseline", 100, 1.0),
        block(0, "offload", 40, 0.5),
        block(0, "offload", 1, 0.0, load=0.8),
        block(1, "baseline", 100, 1.0),
        block(1, "offload", 70, 0.7),
        block(1, "proxy", 0, 0.0),
    ]
    assert interim_summary(blocks, 0.5, OFFLOAD) == (
        "so far (2 rounds), at the servers: packets -45 %, bytes -45 %, CPU -40 %"
    )


def test_there_are_none_before_both_arms_have_a_block() -> None:
    assert interim_summary([block(0, "baseline", 1, 1.0)], 0.5, OFFLOAD) is None
