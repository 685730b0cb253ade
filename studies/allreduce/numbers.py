"""All that the page says, as numbers: its tables, its figures and `--json` are made of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from foundation.settings import Strict
from simulator.dense.measure import Reduced
from studies.allreduce.contenders import CONTENDERS, Contender
from studies.allreduce.memory import Memory, memories
from studies.allreduce.parts import parts_of
from studies.allreduce.plan import (
    GBITS,
    Plan,
    base,
    by_length,
    by_loss,
    by_size,
    by_workers,
    in_parts,
    layers_of,
    of_layers,
    trainings,
)
from studies.allreduce.point import Point, Reduce
from studies.allreduce.trained import Trained

Results = Mapping[str, Reduced | Trained]
"""By the point's name."""
NEAR_LOSS = 0.1
"""A loss counts as learned that is so much of the way from it back to chance above the best one."""


class Line(Strict):
    """One contender along something, at a bandwidth."""

    contender: str
    gbit: float
    x: list[float]
    y: list[float]
    low: list[float] | None = None
    """The least and the most of several seeds."""
    high: list[float] | None = None


class Limit(Strict):
    """An all-reduce beside what links need, and what its time is made of."""

    contender: str
    gbit: float
    workers: int
    servers: int
    values: int
    ms: float
    """With hosts that take no time."""
    payload_ms: float
    """The limit that links set for the values alone."""
    limit_ms: float
    """With headers, acknowledgements, preambles and gaps."""
    parts_ms: dict[str, float]
    """With our hosts and loss, too: these add up to the time of the last run, `whole_ms`."""
    whole_ms: float


class Octets(Strict):
    """Frame bytes a value on every link."""

    contender: str
    workers: int
    servers: int
    chunk_size: int
    worker_up: float
    worker_down: float
    server_up: float
    server_down: float


class Learned(Strict):
    """A job that trains, beside others of the same question."""

    question: str
    arm: str
    waits: bool
    """Whether workers wait for each other."""
    steps_per_s: float
    step_us: float
    bytes_per_step: float
    packets_per_step: float
    server_packets_per_step: float
    last_loss: float
    ms_to_loss: float | None
    """Until the loss was first as low as `loss`."""
    loss: float
    course: dict[str, list[float]]


class Headline(Strict):
    """A step of training with a contender's all-reduce of all gradients."""

    contender: str
    gbit: float
    workers: int
    model: str
    compute_ms: float
    all_reduce_ms: float
    after_ms: float
    """A step, where the all-reduce begins when computing has ended."""
    beside_ms: float
    """Where all of it is hidden behind computing that can be."""


class Numbers(Strict):
    """Everything."""

    values: int
    workers: int
    goodput_by_workers: list[Line]
    """Values/s of a worker, likewise the next two."""
    goodput_by_packet: list[Line]
    goodput_by_loss: list[Line]
    ms_by_length: list[Line]
    octets: list[Octets]
    limits: list[Limit]
    memory: list[Memory]
    training: list[Learned]
    headlines: list[Headline]


def numbers_of(plan: Plan, results: Results) -> Numbers:
    """All that these results give."""

    def reduced(point: Point) -> Reduced:
        found = results[point.name]
        assert isinstance(found, Reduced)
        return found

    every = [(of, gbit) for gbit in GBITS for of in CONTENDERS]
    return Numbers(
        values=plan.values,
        workers=base(plan, CONTENDERS[0], GBITS[0]).workers,
        goodput_by_workers=[_line(of, g, by_workers(plan, of, g), "workers", reduced) for of, g in every],
        goodput_by_packet=[_line(of, g, by_size(plan, of, g), "chunk_size", reduced) for of, g in every],
        goodput_by_loss=[_loss_line(of, g, by_loss(plan, of, g), reduced) for of, g in every],
        ms_by_length=[
            Line(
                contender=of.name, gbit=g,
                x=[float(each.values) for each in by_length(plan, of, g)],
                y=[1e3 * reduced(each).seconds for each in by_length(plan, of, g)],
            )
            for of, g in every
        ],
        octets=[
            _octets(of, reduced(each))
            for of in CONTENDERS
            for each in by_size(plan, of, GBITS[0])
        ],
        limits=[_limit(of, g, in_parts(plan, of, g), reduced) for of, g in every],
        memory=memories(),
        training=[each for question in trainings(plan) for each in _learned(plan, question, results)],
        headlines=[each for of, g in every for each in _headlines(plan, of, g, reduced)],
    )  # fmt: skip


Reading = Callable[[Point], Reduced]


def _line(of: Contender, gbit: float, points: Sequence[Reduce], x: str, reduced: Reading) -> Line:
    return Line(
        contender=of.name, gbit=gbit,
        x=[float(getattr(each, x)) for each in points],
        y=[reduced(each).values_per_s for each in points],
    )  # fmt: skip


def _loss_line(of: Contender, gbit: float, points: Sequence[Sequence[Reduce]], reduced: Reading) -> Line:
    """The median of the seeds."""
    rates = [sorted(reduced(each).values_per_s for each in seeds) for seeds in points]
    return Line(
        contender=of.name, gbit=gbit,
        x=[seeds[0].loss for seeds in points],
        y=[each[len(each) // 2] for each in rates],
        low=[each[0] for each in rates],
        high=[each[-1] for each in rates],
    )  # fmt: skip


def _octets(of: Contender, found: Reduced) -> Octets:
    return Octets(
        contender=of.name, workers=found.workers, servers=found.servers, chunk_size=found.chunk_size,
        worker_up=found.worker_up, worker_down=found.worker_down,
        server_up=found.server_up, server_down=found.server_down,
    )  # fmt: skip


def _limit(of: Contender, gbit: float, points: Mapping[str, Reduce], reduced: Reading) -> Limit:
    runs = {name: reduced(point) for name, point in points.items()}
    far, parts = runs["far"], parts_of(points["far"], runs)
    return Limit(
        contender=of.name, gbit=gbit, workers=far.workers, servers=far.servers, values=far.values,
        ms=1e3 * far.seconds, payload_ms=1e3 * far.payload_limit_s, limit_ms=1e3 * far.limit_s,
        parts_ms={name: 1e3 * seconds for name, seconds in parts.items()},
        whole_ms=1e3 * runs["lossy"].seconds,
    )  # fmt: skip


def _learned(plan: Plan, question: str, results: Results) -> list[Learned]:
    jobs = trainings(plan)[question]
    found = {job.arm: results[job.name] for job in jobs}
    trained = {arm: each for arm, each in found.items() if isinstance(each, Trained)}
    best = min(each.last_loss for each in trained.values())
    chance = next(iter(trained.values())).chance_loss
    loss = best + NEAR_LOSS * (chance - best)
    return [
        Learned(
            question=question, arm=arm, waits=each.waits, steps_per_s=each.steps_per_s,
            step_us=each.step_us, bytes_per_step=each.bytes_per_step,
            packets_per_step=each.packets_per_step, server_packets_per_step=each.server_packets_per_step,
            last_loss=each.last_loss, ms_to_loss=each.ms_to(loss), loss=loss, course=each.course.model_dump(),
        )
        for arm, each in trained.items()
    ]  # fmt: skip


def _headlines(plan: Plan, of: Contender, gbit: float, reduced: Reading) -> list[Headline]:
    model = layers_of(plan)
    found = []
    for point in of_layers(plan, of, gbit):
        assert model is not None
        took, compute = 1e3 * reduced(point).seconds, model.step_us / 1e3
        found.append(
            Headline(
                contender=of.name, gbit=gbit, workers=point.workers, model=model.label, compute_ms=compute,
                all_reduce_ms=took,
                after_ms=compute + took, beside_ms=max(compute, model.before_backward_us / 1e3 + took),
            )
        )  # fmt: skip
    return found
