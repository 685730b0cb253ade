"""The metrics that arms are compared by, each once: how it is called and shown, and what is better.

What a block counts as a whole has its amount here too, so that an arm's mean and a round's estimate are the
same sum over other blocks. What the logs tell of operations and RPCs is in `analysis.differences`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import nan
from typing import Literal

from analysis.record import Block
from logs.columns import TRANSFERS

Kind = Literal["count", "cpu", "time", "learning"]
"""By it a disturbance of the machine touches a metric, or does not (`analysis.disturbance`)."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One of them."""

    name: str
    """In `differences` of `summary.json`."""
    label: str
    """In tables."""
    unit: str
    """Empty for what is merely counted, and where a table has no room: then it is that of the row above."""
    kind: Kind
    format: str = ",.0f"
    better: Literal["less", "more"] = "less"
    tolerance: float = 0.0005
    """Part of the baseline's up to which arms are alike in practice: what is shown as 0.0 %, at least."""
    amount: Callable[[Block], float] | None = None
    """Of a block, all its steps together; not a number where it is not known. None of what logs tell."""

    @property
    def title(self) -> str:
        """Of its row in a table."""
        return f"{self.label}, {self.unit}" if self.unit else self.label

    @property
    def spoken(self) -> str:
        """In a sentence, in which it has no unit since it is in per cent."""
        return self.label.replace("/step", " a step")

    def per_step(self, blocks: Iterable[Block]) -> float:
        """Of these blocks' steps; 0 without any."""
        assert self.amount is not None
        blocks = list(blocks)
        return sum(map(self.amount, blocks)) / max(sum(block.steps for block in blocks), 1)


PS_PROC_CPU = Metric(
    "ps_proc_cpu_us_per_step",
    "PS_proc CPU/step",
    "µs",
    "cpu",
    amount=lambda block: block.servers.proc_cpu_ns / 1e3,
)
PS_CPU = Metric(
    "ps_cpu_us_per_step", "PS CPU/step", "µs", "cpu", amount=lambda block: block.servers.cpu_s * 1e6
)
OWN_PS_CPU = Metric(
    "ps_cpu_without_switch_us_per_step",
    "PS w/o switch",
    "",
    "cpu",
    amount=lambda block: (
        nan if block.program_s is None else (block.servers.cpu_s - block.program_s.servers) * 1e6
    ),
)
PS_PACKETS = Metric(
    "ps_packets_per_step",
    "packets to PS/step",
    "",
    "count",
    ",.1f",
    amount=lambda block: block.servers.packets,
)
PS_BYTES = Metric(
    "ps_bytes_per_step", "bytes to PS/step", "", "count", amount=lambda block: block.servers.bytes
)
RPCS = Metric("rpcs_per_step", "RPCs/step", "", "count", ",.1f")
WORKER_CPU = Metric(
    "worker_cpu_us_per_step", "worker CPU/step", "µs", "cpu", amount=lambda block: block.worker_cpu_s * 1e6
)
OWN_WORKER_CPU = Metric(
    "worker_cpu_without_switch_us_per_step",
    "worker w/o switch",
    "",
    "cpu",
    amount=lambda block: (
        nan if block.program_s is None else (block.worker_cpu_s - block.program_s.workers) * 1e6
    ),
)
LOSS = Metric("loss", "mean log loss", "", "learning", ".4f", tolerance=0.01)
"""Of the run: an arm trains one model at all loads (`analysis.learning`)."""

METRICS = (
    *(
        Metric(f"{op}_{estimate}", f"{op} {estimate}", "µs", "time")
        for op in TRANSFERS
        for estimate in ("mean", "p50", "p95", "p99")
    ),
    Metric("step_mean", "step mean", "µs", "time"),
    Metric("rpc_mean", "RPC mean", "µs", "time"),
    PS_PROC_CPU,
    PS_CPU,
    OWN_PS_CPU,
    PS_PACKETS,
    PS_BYTES,
    RPCS,
    WORKER_CPU,
    OWN_WORKER_CPU,
)
"""Those that a load has, in the order of tables."""
BY_NAME = {metric.name: metric for metric in METRICS}
