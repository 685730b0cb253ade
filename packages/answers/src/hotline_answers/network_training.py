"""What old copies in switches of a network do to a model: its loss beside that without a hot set, simulated.

`python -m hotline_answers.network_training` prints JSON.
"""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from foundation.designs.collect import BASELINE, COLLECT
from hotline_answers.networks import COMPARED, Placement, config_at
from hotline_simulator.experiment import quiet_reporter, temporary_run

PLACEMENTS: tuple[Placement, ...] = ("sums at the spine", "worker-leaves")
LOAD = 0.8
"""Steps/s as a share of what the arm carries that carries fewest."""
_ROUNDS, _TRACE_STEPS = 4, 400


class TrainingResult(NamedTuple):
    """A model after as many steps with and without a hot set, and the ages of copies when replaced."""

    loss_without: float
    """Mean log loss of the mini-batches of all rounds."""
    loss: float
    p50_ms: float
    p99_ms: float
    late: float
    """Share of copies that were older than the bound."""


def train(placement: Placement) -> TrainingResult:
    """Train with hot sets at a place of the network `COMPARED`, and with all rows at the servers."""
    config = config_at(COMPARED._replace(placement=placement)).model_copy(
        update={
            "arms": (BASELINE.name, COLLECT.name),
            "loads": (LOAD,),
            "rounds": _ROUNDS,
            "trace_steps": _TRACE_STEPS,
        }
    )
    with temporary_run(config, None, quiet_reporter()) as (_, record, summary):
        change, ages = summary.learning[COLLECT.name], record.staleness[COLLECT.name]
    return TrainingResult(change.reference, change.value, ages.p50_ms, ages.p99_ms, ages.late / ages.copies)


def main() -> None:
    found = []
    for number, placement in enumerate(PLACEMENTS, 1):
        print(f"training {number} of {len(PLACEMENTS)}", file=sys.stderr, flush=True)
        found.append({"placement": placement, **train(placement)._asdict()})
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
