"""One sentence about the rounds so far, which a run prints while it measures."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.metrics import METRICS, PS_CPU, PS_PACKETS, block_metrics
from analysis.record import Block
from foundation.designs.interface import Arm
from foundation.text import pluralize

FIRST_SUMMARY_S = 20.0
"""Time in the measured phase after which the first summary is printed, in s."""
_NOUNS = {PS_PACKETS.name: "packets", "ps_bytes_per_step": "bytes", PS_CPU.name: "CPU"}


def interim_summary(blocks: Sequence[Block], load: float, lead: Arm) -> str | None:
    metrics = [METRICS[name] for name in _NOUNS]
    blocks_of_arms = [
        [block for block in blocks if block.load == load and block.arm == arm]
        for arm in (lead.name, lead.reference)
    ]
    if not all(blocks_of_arms):
        return None
    values, baseline = (block_metrics(blocks_of_arm, metrics) for blocks_of_arm in blocks_of_arms)
    changes = [
        f"{noun} {100 * (values[name] / baseline[name] - 1):+.0f} %"
        for name, noun in _NOUNS.items()
        if baseline[name]
    ]
    rounds = len({block.round for block in blocks_of_arms[0]})
    return f"so far ({pluralize(rounds, 'round')}), at the servers: {', '.join(changes)}"
