"""One point: an all-reduce, or a job that trains, in virtual time. The same wherever it is done."""

from __future__ import annotations

import hashlib
import time
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, TypeAdapter

from foundation.designs.interface import Design
from foundation.settings import Strict
from simulator.contents import modules_of
from simulator.costs import Hosts, Network
from simulator.dense.measure import IDEAL, Reduced, measure
from simulator.import_graph import ROOT, needed_by
from simulator.task_cache import CachedResult, Task
from studies.allreduce.contenders import contender
from studies.allreduce.trained import Trained
from studies.allreduce.training import ARMS, DESIGNS, Training, train

DELAY_US, SWITCH_US, SWITCH_MPPS, QUEUE_KB = 1.0, 1.0, 1_000.0, 1_024.0
"""Of each cable, one way; of the switch, which is a device of its own; of the queue before a cable."""


class Reduce(Strict):
    """An all-reduce of float32 values."""

    kind: Literal["reduce"] = "reduce"
    contender: str
    gbit: float
    workers: int
    values: int
    chunk_size: int
    """Values of a packet."""
    loss: float = 0.0
    """Of frames, on every cable."""
    is_far: bool = True
    """Whether cables and switch take any time but for bytes."""
    hosts: Literal["ideal", "ours"] = "ideal"
    """Hosts that take no time, or as long as our agents do."""
    seed: int = 1

    @property
    def name(self) -> str:
        """Of its file."""
        parts = (
            self.contender.replace(", ", "-").replace(" ", "-"),
            f"{self.gbit:g}g-{self.workers}w-{self.values}v-{self.chunk_size}",
            *([f"loss-{self.loss:g}"] if self.loss else []),
            *([] if self.is_far else ["near"]),
            *([] if self.hosts == "ideal" else [self.hosts]),
            *([f"seed-{self.seed}"] if self.seed != 1 else []),
        )
        return "-".join(parts)

    @property
    def cost(self) -> float:
        """How long it takes, more or less."""
        return self.workers * self.values / self.chunk_size

    @property
    def modules(self) -> tuple[str, ...]:
        """That it is done by, with all that they need."""
        return "studies.allreduce.contenders", "simulator.dense.measure", *modules_of(self.design)

    @property
    def design(self) -> Design:
        """Whose it is."""
        return contender(self.contender).subject.design

    @property
    def network(self) -> Network:
        """Its cables and switch."""
        return link(self.gbit, self.loss, self.is_far)

    def do(self) -> Reduced:
        """Do it."""
        of = contender(self.contender)
        return measure(
            of.subject, self.workers, of.servers(self.workers), self.values, self.network,
            hosts=hosts(self.hosts), chunk_size=self.chunk_size, seed=self.seed,
        )  # fmt: skip


class Train(Training):
    """A job that trains."""

    kind: Literal["train"] = "train"
    hosts: Literal["ideal", "ours"] = "ideal"

    @property
    def name(self) -> str:
        """Of its file."""
        slow = f"-{self.compute_us:g}us-{self.straggler:g}" if self.compute_us else ""
        return f"train-{self.arm}-{self.gbit:g}g-{self.workers}w-{self.steps}-{self.hosts}{slow}"

    @property
    def cost(self) -> float:
        """How long it takes, more or less."""
        return self.workers * self.steps * 300

    @property
    def modules(self) -> tuple[str, ...]:
        """That it is done by, with all that they need."""
        return "studies.allreduce.training", *modules_of(self.design)

    @property
    def design(self) -> Design:
        """Whose it is."""
        return DESIGNS[ARMS[self.arm].design]

    @property
    def network(self) -> Network:
        """Its cables and switch."""
        return link(self.gbit)

    def do(self) -> Trained:
        """Do it."""
        return train(self, self.network, hosts(self.hosts))


Point = Reduce | Train
_POINT: TypeAdapter[Point] = TypeAdapter(Point)


class Done(CachedResult):
    """A point's file: made of what, and what came out."""

    result: Reduced | Trained = Field(union_mode="left_to_right")
    real_s: float
    """It took so long, on the machine that did it."""


def link(gbit: float, loss: float = 0.0, is_far: bool = True) -> Network:
    """Cables of so many Gbit/s at a switch of its own."""
    return Network(
        rate_mbit=1_000 * gbit, delay_us=DELAY_US if is_far else 0.0, queue_kb=QUEUE_KB, loss=loss,
        switch_us=SWITCH_US if is_far else 0.0, switch_mpps=SWITCH_MPPS,
    )  # fmt: skip


def hosts(name: str) -> Hosts:
    """What agents take; each has a core of its own."""
    return IDEAL if name == "ideal" else Hosts()


def task_of(point: Point, folder: Path) -> Task:
    """What there is to do, and where the result is kept."""
    file = folder / "points" / f"{point.name}.json"
    return Task(point.name, file, fingerprint(point), point.model_dump_json())


def fingerprint(point: Point) -> str:
    """A digest of all that the result depends on."""
    settings = (point, point.network, hosts(point.hosts))
    code = digest(point.design.program, point.modules)
    text = " ".join([code, *(each.model_dump_json() for each in settings)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def digest(program: Path, modules: tuple[str, ...], root: Path = ROOT) -> str:
    """Of a compiled program, and of modules with all that they need."""
    made = hashlib.sha256(program.read_bytes())
    for name, file in sorted(needed_by(modules, root).items()):
        made.update(f"{name}\0".encode() + file.read_bytes())
    return made.hexdigest()


def do_point(text: str) -> str:
    """Do a point (JSON); returns a `Done` as JSON."""
    point = _POINT.validate_json(text)
    begun = time.perf_counter()
    result = point.do()
    real_s = time.perf_counter() - begun
    return Done(fingerprint=fingerprint(point), result=result, real_s=real_s).model_dump_json()
