"""CPU time of the analyses of dense training, without compilation."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from hotline_dense.alpha_beta import AlphaBetaModel
from hotline_dense.catalogue import open_model
from hotline_dense.figures import scaling_map
from hotline_dense.layers import Layers
from hotline_dense.network import DenseNetwork
from hotline_dense.packets import compare_with_formula, simulate_rings
from hotline_dense.schedulers import SCHEDULERS, best, optimum
from hotline_dense.whatif import PAPER_FUSION
from switch_bench.processes import pinned
from switch_bench.results import Goal, Result
from switch_bench.stage import Stage
from tools.bench.results import ALL_SCHEDULERS_S, ONE_CORE, ONE_CORE_TARGETS, WHAT_IF_MAP_S


def dense(stage: Stage) -> list[Result]:
    with pinned({stage.cores.softswitch}):
        stage.announce("dense training: compiling")
        _compile()
        return [_measure(stage, *each) for each in WORKLOADS]


def map_of_one_model() -> None:
    scaling_map([open_model("vgg16")], DenseNetwork(), PAPER_FUSION)


def schedulers_of_bert_large() -> None:
    layers, network = open_model("bert-large").layers, AlphaBetaModel()
    for scheduler in SCHEDULERS.values():
        scheduler(layers, network)


def frames_of_resnet50() -> None:
    compare_with_formula(open_model("resnet50"), DenseNetwork(gbit=10), PAPER_FUSION, workers=[4])


WORKLOADS: tuple[tuple[str, Callable[[], None], tuple[Goal, ...]], ...] = (
    ("what-if map of VGG-16, two ways to sum", map_of_one_model, WHAT_IF_MAP_S),
    ("all schedulers, BERT-Large's 398 tensors", schedulers_of_bert_large, ALL_SCHEDULERS_S),
    ("ResNet-50's buffers as frames, a ring of 4", frames_of_resnet50, ()),
)


def _compile() -> None:
    """Compile if needed, which takes 15 s after a change of the compiled code."""
    toy = Layers(("in", "out"), np.array([8, 8]), np.array([1.0, 1.0]))
    best(toy, AlphaBetaModel())
    optimum(toy, AlphaBetaModel())
    simulate_rings(np.array([8]), np.array([1.0]), workers=2, gbit=10.0)


def _measure(stage: Stage, what: str, work: Callable[[], None], goals: tuple[Goal, ...]) -> Result:
    stage.announce(f"dense training: {what}")
    seconds = []
    for _ in range(stage.scale.rounds):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return Result("dense", what, "s", {ONE_CORE: seconds}, goals, ONE_CORE_TARGETS)
