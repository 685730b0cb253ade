"""A table of the findings of Pan et al. and of a run or cluster, without and with offload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from analysis.figures.correlation import arithmetic_share
from analysis.figures.model import Fact, Figure
from analysis.figures.update_coverage import PAPER_TOP_K
from analysis.summary import Summary
from foundation.designs.arms import arms_in_order
from foundation.logs.columns import METRICS, TRANSFERS

Facts = Mapping[str, Mapping[Fact, float]]
NAMES = {  # metric -> its name in Pan et al.
    "w_proc": "W_proc",
    "w_queue": "W_queue",
    "ps_proc": "PS_proc",
    "ps_queue": "PS_queue",
    "n_tx": "N_tx",
}


@dataclass(frozen=True, slots=True)
class Finding:
    quantity: str
    paper: str
    measured: tuple[str, ...]


def column_titles(arms: Sequence[str]) -> dict[str, str]:
    known_arms = [arm for arm in arms_in_order(arms) if not arm.is_repetition]
    if not known_arms:
        return {arm: f"here, {arm}" if len(arms) > 1 else "here" for arm in arms}
    # Baselines come first, then lead arms.
    known_arms.sort(key=lambda arm: (arm.reference is not None, not arm.is_lead))
    lacks_offload = not any(arm.settings.aggregates for arm in known_arms if arm.reference is None)
    baseline_title = "here, without" if lacks_offload else f"here, {known_arms[0].name}"
    return {arm.name: f"here, with {arm.name}" if arm.reference else baseline_title for arm in known_arms}


def findings(arms: Sequence[str], figures: Sequence[Figure], summary: Summary | None) -> list[Finding]:
    facts = {figure.name: figure.facts for figure in figures}
    columns = list(column_titles(arms))
    rows = [
        Finding(quantity, paper, tuple(_format_or_dash(format_cell, facts, arm) for arm in columns))
        for quantity, paper, format_cell in _ROWS
    ]
    rows += [
        Finding(
            f"updates by the top {PAPER_TOP_K:,} parameters, {source}",
            "50 % (R1), 70 % (R2)",
            (percent(share), *["–"] * (len(columns) - 1)),
        )
        for (source,), share in facts.get("fig-10", {}).items()
    ]
    if summary is not None:
        rows += _offload_findings(columns, summary)
    return [finding for finding in rows if set(finding.measured) != {"–"}]


def _offload_findings(columns: Sequence[str], summary: Summary) -> Sequence[Finding]:
    load = next(iter(summary.loads.values()))

    def reduction(arm: str, metric: str) -> str:
        comparison = load.differences.get(arm, {}).get(metric)
        return "–" if comparison is None or comparison.ratio is None else percent(-comparison.ratio)

    def row(quantity: str, paper: str, metric: str) -> Finding:
        return Finding(quantity, paper, tuple(reduction(arm, metric) for arm in columns))

    served_share = "–" if summary.hot_update_share is None else percent(summary.hot_update_share)
    served = tuple(served_share if summary.lead and arm == summary.lead.name else "–" for arm in columns)
    return [
        Finding("reads and writes that the switch serves", "half (proposed)", served),
        row("reduction of PS_proc (CPU time)", "about 50 % (proposed)", "ps_proc_cpu_us_per_step"),
        row("reduction of packets to the servers", "not reported", "ps_packets_per_step"),
    ]


def percent(share: float, digits: int = 1) -> str:
    # Adding 0.0 turns -0.0 into 0.0.
    return f"{round(100 * share, digits) + 0.0:.{digits}f} %".replace("-", "−")


def _format_tail(facts: Facts, arm: str) -> str:
    quantiles = facts["fig-04"]
    return ", ".join(f"× {quantiles[arm, op, 'p99'] / quantiles[arm, op, 'p50']:.1f}" for op in TRANSFERS)


def _format_push_to_pull(facts: Facts, arm: str) -> str:
    quantiles = facts["fig-04"]
    return f"× {quantiles[arm, 'push', 'p50'] / quantiles[arm, 'pull', 'p50']:.2f}"


def _largest_metrics_formatter(op: str) -> Callable[[Facts, str], str]:
    def format_metrics(facts: Facts, arm: str) -> str:
        means = {metric: facts["fig-05"][arm, op, metric] for metric in METRICS}
        largest = sorted(means, key=means.__getitem__, reverse=True)[:2]
        latency = facts["fig-05"][arm, op, "latency"]
        return ", ".join(
            f"{NAMES[metric]} {percent(means[metric] / latency, digits=0)}" for metric in largest
        )

    return format_metrics


def _format_request_sizes(facts: Facts, arm: str) -> str:
    return ", ".join(f"{facts['fig-05'][arm, op, 'request']:,.0f} B" for op in TRANSFERS)


def _format_response_sizes(facts: Facts, arm: str) -> str:
    return ", ".join(f"{facts['fig-06'][arm, op, 'p50']:,.0f} B" for op in TRANSFERS)


def _format_interval(facts: Facts, arm: str) -> str:
    return ", ".join(f"{facts['fig-07a'][arm, q]:,.0f} µs" for q in ("p50", "p99"))


def _format_concurrency(facts: Facts, arm: str) -> str:
    return ", ".join(f"{facts['fig-07b'][arm, q]:,.0f}" for q in ("p50", "p99"))


def _format_arithmetic_share(facts: Facts, arm: str) -> str:
    pull, push = (facts["fig-05"][arm, op, "ps_proc"] for op in TRANSFERS)
    share = arithmetic_share(pull, push)
    return percent(share) if share > 0 else "below noise"


Formatter = Callable[[Facts, str], str]
_ROWS: Sequence[tuple[str, str, Formatter]] = (
    ("p99 of an RPC's latency / p50: pull, push (Fig. 4)", "heavy tails", _format_tail),
    ("median push / median pull (Fig. 4)", "above 1", _format_push_to_pull),
    ("largest metrics of a pull (Fig. 5)", "PS_proc, N_tx", _largest_metrics_formatter("pull")),
    ("largest metrics of a push (Fig. 5)", "PS_proc, N_tx", _largest_metrics_formatter("push")),
    ("mean request: pull, push", "100–200 B", _format_request_sizes),
    ("median response: pull, push (Fig. 6)", "large, small", _format_response_sizes),
    (
        "interval of a worker's RPCs at a server: p50, p99 (Fig. 7a)",
        "very short, a few long",
        _format_interval,
    ),
    ("workers at one server within 1,000 µs: p50, p99 (Fig. 7b)", "50–200", _format_concurrency),
    ("arithmetic's share of a push's PS_proc (§3.2)", "at most 2.5 %", _format_arithmetic_share),
)


def _format_or_dash(format_cell: Formatter, facts: Facts, arm: str) -> str:
    try:
        return format_cell(facts, arm)
    except (KeyError, ZeroDivisionError):
        # The logs lack a column or have no such RPCs.
        return "–"
