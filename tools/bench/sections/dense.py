"""How long the questions of dense training take, in CPU time, without compiling."""

from __future__ import annotations

import time
from collections.abc import Callable

from studies.dense.alpha_beta import AlphaBetaModel
from studies.dense.catalogue import open_model
from studies.dense.figures import scaling_map
from studies.dense.network import Network
from studies.dense.packets import compare_with_formula
from studies.dense.schedulers import SCHEDULERS
from studies.dense.warm import warm
from studies.dense.whatif import PAPER_FUSION
from switch_bench.processes import pinned
from switch_bench.results import Goal, Result
from switch_bench.stage import Stage
from tools.bench.results import COMPUTED, MAP_S, ONE_CORE, SCHEDULERS_S


def dense(stage: Stage) -> list[Result]:
    with pinned({stage.cores.softswitch}):
        stage.announce("dense training: compiling")
        warm()
        return [_measured(stage, *each) for each in MEASURED]


def map_of_one_model() -> None:
    scaling_map([open_model("vgg16")], Network(), PAPER_FUSION)


def schedulers_of_bert_large() -> None:
    layers, network = open_model("bert-large").layers, AlphaBetaModel()
    for scheduler in SCHEDULERS.values():
        scheduler(layers, network)


def frames_of_resnet50() -> None:
    compare_with_formula(open_model("resnet50"), Network(gbit=10), PAPER_FUSION, [4])


MEASURED: tuple[tuple[str, Callable[[], None], tuple[Goal, ...]], ...] = (
    ("what-if map of VGG-16, two ways to sum", map_of_one_model, MAP_S),
    ("all schedulers, BERT-Large's 398 tensors", schedulers_of_bert_large, SCHEDULERS_S),
    ("ResNet-50's buffers as frames, a ring of 4", frames_of_resnet50, ()),
)


def _measured(stage: Stage, what: str, work: Callable[[], None], goals: tuple[Goal, ...]) -> Result:
    stage.announce(f"dense training: {what}")
    took = []
    for _ in range(stage.scale.rounds):
        begun = time.process_time()
        work()
        took.append(time.process_time() - begun)
    return Result("dense", what, "s", {ONE_CORE: took}, goals, COMPUTED)
