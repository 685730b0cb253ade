from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiment.run_config import config_of
from hotline_answers.sweeps.point import SweepPoint
from hotline_simulator.config import SimulationConfig, SimulationError

Changes = Mapping[str, Any]  # settings by their dotted names


@dataclass(frozen=True, slots=True)
class Sweep:
    name: str
    title: str
    axis: str
    points: tuple[SweepPoint, ...]


TABLE_2 = ((80, 20), (120, 30), (160, 40), (200, 50), (240, 60), (280, 70))
"""Pan et al. Table 2: workers and servers of S1 to S6."""
COMPUTE_MS = 15
"""Computing time of a step in the sweep `training`, which the paper does not give. With Hotline's servers it
hides communication: 512 workers have nearly the ideal speed, in the paper half of it. With the settings in
`packages/paper/presets/paper.toml` they have about half of it, too."""
_BASE = SimulationConfig(workers=80, servers=20, rounds=3, block_steps=1, trace_steps=14)
"""Pan et al.'s cluster, with few steps: points differ much more than the rounds of a point."""
_WORKERS_UP_TO_320 = (10, 20, 40, 80, 160, 320)
_RACK = 8  # workers behind the uplink of a rack
_MAX_WORKERS_WITHOUT_RACKS = 256  # more workers may need more ports than the switch has


def sweeps(names: Sequence[str]) -> list[Sweep]:
    unknown_names = [name for name in names if name not in _NAMES]
    if unknown_names:
        raise SimulationError(f"expected a sweep ({', '.join(_NAMES)}), got {unknown_names[0]!r}")
    return [
        _make_sweep(name, *_PLANS[name]) if name in _PLANS else _clusters_sweep() for name in names or _NAMES
    ]


def vary(config: SimulationConfig, setting: str, values: Sequence[float]) -> Sweep:
    if len(set(values)) < len(values):
        raise SimulationError(
            f"{setting}: expected distinct values, got {', '.join(f'{value:g}' for value in values)}"
        )
    return _make_sweep(
        setting, f"What {setting} changes", setting, values, lambda value: {setting: value}, config
    )


def _make_sweep(
    name: str,
    title: str,
    axis: str,
    values: Sequence[float],
    changes: Callable[[float], Changes],
    base: SimulationConfig = _BASE,
) -> Sweep:
    points = (
        SweepPoint(sweep=name, label=f"{value:.12g}", x=value, config=with_changes(base, changes(value)))
        for value in values
    )
    return Sweep(name, title, axis, tuple(points))


def with_changes(base: SimulationConfig, changes: Changes) -> SimulationConfig:
    values = base.model_dump()
    for setting, value in changes.items():
        *tables, setting_name = setting.split(".")
        table = values
        for name in tables:
            table = table.setdefault(name, {})
        table[setting_name] = value
    return config_of(SimulationConfig, values)


def _clusters_sweep() -> Sweep:
    name = "clusters"
    points = (
        SweepPoint(
            sweep=name, label=f"S{k}", x=workers,
            config=with_changes(_BASE, {"workers": workers, "servers": servers}),
        )
        for k, (workers, servers) in enumerate(TABLE_2, start=1)
    )  # fmt: skip
    return Sweep(name, "Pan et al. Table 2: clusters S1 to S6", "workers, four to a server", tuple(points))


def _training_changes(workers: float) -> Changes:
    rack = _RACK if workers > _MAX_WORKERS_WITHOUT_RACKS else None
    return {"workers": workers, "worker.compute_ns": COMPUTE_MS * 1_000_000, "network.rack": rack}


# Sweep -> title, axis, values of the axis, and the settings that a value changes.
_PLANS: dict[str, tuple[str, str, Sequence[float], Callable[[float], Changes]]] = {
    "training": (
        f"Training time with 20 servers, {COMPUTE_MS} ms of computing a step",
        "workers", (16, 32, 64, 128, 256, 512), _training_changes,
    ),
    "top-k": (
        "The size of the hot set",
        "parameters in the switch (top-k)", (1_000, 5_000, 10_000, 20_000, 50_000, 100_000),
        lambda k: {"top_k": k},
    ),
    "skew": (
        "Skew",
        "share of the updates that the top 20,000 parameters take", (0.1, 0.3, 0.5, 0.7, 0.9),
        lambda share: {"workload.hot_share": share},
    ),
    "bandwidth": (
        "Bandwidth",
        "Mbit/s of every cable", (250, 500, 1_000, 2_500, 10_000, 100_000),
        lambda mbit: {"network.rate_mbit": mbit},
    ),
    "incast": (
        "Incast: pushes of all workers at once, 20 servers at 1 Gbit/s with queues of 64 kB",
        "workers", _WORKERS_UP_TO_320,
        lambda workers: {"workers": workers, "network.rate_mbit": 1_000, "network.queue_kb": 64},
    ),
    "connections": (
        "Forty servers that scan their connections (372 ns each)",
        "workers, each with a connection to every server", _WORKERS_UP_TO_320,
        lambda workers: {"workers": workers, "servers": 40, "hosts.connection_ns": 372},
    ),
}  # fmt: skip
_NAMES = ("clusters", *_PLANS)


def points_of(chosen_sweeps: Sequence[Sweep]) -> Iterator[SweepPoint]:
    """Yield all points, the longest first, so that processes end at about the same time."""
    points = [point for sweep in chosen_sweeps for point in sweep.points]
    yield from sorted(points, key=lambda point: -point.config.workers)
