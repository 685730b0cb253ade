"""`python -m dense.bench`: how long a map, all schedulers of BERT-Large, and rings of frames take."""

from __future__ import annotations

import time
from collections.abc import Callable

from dense.catalogue import open_model
from dense.figures import scaling_map
from dense.network import Network
from dense.packets import beside_formula
from dense.play import Collectives
from dense.schedulers import SCHEDULERS
from dense.warm import warm
from dense.whatif import THEIRS

ROUNDS = 5


def map_of_one_model() -> None:
    """Bandwidth × compression for a ring and for a switch."""
    scaling_map([open_model("vgg16")], Network(), THEIRS)


def schedulers_of_bert_large() -> None:
    """All five, of its 398 tensors."""
    layers, network = open_model("bert-large").layers, Collectives()
    for scheduler in SCHEDULERS.values():
        scheduler(layers, network)


def frames_of_resnet50() -> None:
    """417,000 of them, in a ring of 4."""
    beside_formula(open_model("resnet50"), Network(gbit=10), THEIRS, [4])


MEASURED: tuple[Callable[[], None], ...] = (map_of_one_model, schedulers_of_bert_large, frames_of_resnet50)


def seconds(work: Callable[[], None], rounds: int = ROUNDS) -> float:
    """The least of several rounds."""
    took = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        took.append(time.perf_counter() - begun)
    return min(took)


if __name__ == "__main__":
    warm()
    for work in MEASURED:
        print(f"{work.__name__.replace('_', ' ')}: {seconds(work):.3f} s")
