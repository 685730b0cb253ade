"""Machines that are namespaces beside Mininet: CPU time and latency of an RPC, and the start of agents."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

from foundation.checkout import ROOT, environment_with_checkout
from switch_bench.errors import BenchError
from switch_bench.results import Goal, Result, Targets, at_most
from switch_bench.stage import Stage

MININET, DIRECT, VXLAN, MACHINES = "mininet", "direct", "vxlan", "machines"
_TARGETS = tuple(Targets(measured, (MININET,)) for measured in (DIRECT, VXLAN, MACHINES))
_RPC_GOALS = (at_most(1.1, MININET),)
_START_GOALS = (at_most(1.5, MININET),)
_N_AGENTS, _QUICK_N_AGENTS = 64, 16
_OWN_NAMESPACES = ROOT / "packages/softswitch/tests/switch_harness/own-namespaces"
_MODULE = "packages.machines.tests.beside_mininet"


def machines(stage: Stage) -> list[Result]:
    """Measure in namespaces, since the runs are on Mininet and on machines of their own."""
    agents = _QUICK_N_AGENTS if stage.scale.is_quick else _N_AGENTS
    stage.announce(f"machines beside Mininet: RPCs, and the start of {agents} agents")
    options = ["--json", "--rounds", str(stage.scale.rounds), "--agents", str(agents)]
    done = subprocess.run(
        [_OWN_NAMESPACES, sys.executable, "-m", _MODULE, *options],
        cwd=ROOT, env=environment_with_checkout(), capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise BenchError(f"machines: expected runs that end in order, got {done.stderr.strip()[-2_000:]}")
    return results_of(json.loads(done.stdout))


def results_of(samples: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Result]:
    """Return a result for each value and kind of machines; `samples` are by value and by kind."""
    return [
        Result(
            "machines", f"{what}, {targets.measured}", "s" if targets.measured == MACHINES else "µs",
            {target: by_kind[target] for target in (targets.measured, MININET)}, _goals(targets.measured),
            targets,
        )
        for targets in _TARGETS
        for what, by_kind in samples.items()
        if targets.measured in by_kind
    ]  # fmt: skip


def _goals(kind: str) -> tuple[Goal, ...]:
    return {DIRECT: _RPC_GOALS, MACHINES: _START_GOALS}.get(kind, ())
