"""The network with a run's numbers on it, without and with the hot parameters in the switch."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from analysis.record import RunRecord
from analysis.summary import ArmSummary, LoadSummary, Summary
from foundation.designs.arms import ordered
from foundation.logs.columns import at_load
from foundation.words import counted

_WIDTH, _HEIGHT = 340, 330
_BOX = 58


@dataclass(frozen=True, slots=True)
class Drawing:
    """An <svg> element, and what it shows."""

    svg: str
    caption: str


def drawings(summary: Summary, record: RunRecord) -> list[Drawing]:
    """Of the leading arm and its baseline at the first load; none where a run has no such arms."""
    name, load = next(iter(summary.loads.items()))
    lead = summary.lead
    arms = (
        [] if lead is None else [arm for arm in ordered(load.arms) if arm.name in (lead.name, lead.baseline)]
    )
    if not all(load.arms[arm.name].steps for arm in arms):
        return []
    workers, servers = record.config.get("workers", 1), record.config.get("servers", 1)
    return [
        Drawing(
            _svg(load, arm.name, counted(workers, "worker"), counted(servers, "parameter server")),
            f"Arm {arm.name}, {arm.about}: means a step, {at_load(name)}.",
        )
        for arm in arms
    ]


def _svg(load: LoadSummary, arm: str, workers: str, servers: str) -> str:
    of = load.arms[arm]
    by_switch = of.rpcs_per_step_by_class.get("all_hit", 0.0)
    answered = f"answers {by_switch:,.1f} of them" if by_switch else "forwards all of them"
    pull, push = (_us(of.op_latency_us[op].mean) for op in ("pull", "push"))
    boxes = [
        (10, workers, f"pull {pull}, push {push}"),
        (136, "switch", f"{answered}; {_us(of.metrics_us.get('switch'))} an RPC"),
        (262, servers, f"PS_proc {_us(of.ps_proc_us_per_step['cpu'])} of CPU"),
    ]
    arrows = [
        (10 + _BOX, 136, f"{of.rpcs_per_step:,.1f} RPCs"),
        (136 + _BOX, 262, f"{of.ps_packets_per_step:,.1f} packets"),
    ]
    title = f"{workers}, the switch and {servers} in arm {arm}: {_told(of)}"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title, quote=True)}" '
        'font-family="system-ui, sans-serif" fill="currentColor" font-size="14">'
        + "".join(_box(*box) for box in boxes)
        + "".join(_arrow(*arrow) for arrow in arrows)
        + "</svg>"
    )


def _told(of: ArmSummary) -> str:
    return f"{of.rpcs_per_step:,.1f} RPCs a step, {of.ps_packets_per_step:,.1f} packets to the servers"


def _box(top: int, name: str, numbers: str) -> str:
    return (
        f'<rect x="10" y="{top}" width="{_WIDTH - 20}" height="{_BOX}" rx="6" fill="none" '
        'stroke="currentColor"/>'
        f'<text x="{_WIDTH // 2}" y="{top + 24}" text-anchor="middle" font-weight="600">{escape(name)}</text>'
        f'<text x="{_WIDTH // 2}" y="{top + 45}" text-anchor="middle">{escape(numbers)}</text>'
    )


def _arrow(top: int, bottom: int, text: str) -> str:
    x = _WIDTH // 3
    return (
        f'<path d="M{x} {top + 4}V{bottom - 6}m-5 -8l5 8l5 -8M{x + 14} {bottom - 4}V{top + 6}m-5 8l5 -8l5 8" '
        'fill="none" stroke="currentColor" stroke-width="1.5"/>'
        f'<text x="{x + 32}" y="{(top + bottom) // 2 + 5}">{escape(text)}</text>'
    )


def _us(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} µs" if value >= 10 else f"{value:.1f} µs"
