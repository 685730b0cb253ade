"""Make the trace that all arms replay, and tell what is in it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from experiment.config import Config
from experiment.errors import PreflightError
from experiment.progress import Reporter
from foundation.concurrency import in_thread
from foundation.logs.errors import DataError
from foundation.protocol.header import LANES
from hosts.model.hyperparameters import Hyperparameters, chance_loss, choose
from hosts.workload import files
from hosts.workload.generator import generate
from hosts.workload.hottest import hottest
from hosts.workload.trace import Trace

log = logging.getLogger(__name__)


_MOST_DENSE = 2**24


def read_data(config: Config, reporter: Reporter) -> Trace | None:
    """The trace that DATA holds; None for the built-in workload. PreflightError when it holds none."""
    if config.data is None:
        return None
    try:
        with reporter.phase("data"):
            trace = for_design(config, files.load(config.data, config.workers, config.samples_per_step))
    except DataError as error:
        reporter.stop()
        raise PreflightError(f"DATA={error}") from None
    if lanes_per_step(trace) < LANES:
        log.warning(
            "%s: tiny mini-batches, of %.3g keys on average, where one RPC has room for %d: this measures "
            "RPCs that are all but empty; put all updates of a worker's step under one iteration",
            config.data,
            lanes_per_step(trace),
            LANES,
        )
    return trace


async def make_trace(config: Config, data: Trace | None, folder: Path, reporter: Reporter) -> Trace:
    """Write the trace into a folder and map it; without `data` it is the built-in workload's."""
    with reporter.phase("workload", 1.0) as phase:
        trace = await in_thread(generate_trace, config, phase.update) if data is None else data
        await in_thread(trace.save, folder)
    return Trace.load(folder)


def choose_training(config: Config, trace: Trace) -> Hyperparameters | None:
    """Learning rate and scale, as configured or else to suit the trace; None where nothing is trained."""
    if trace.samples is None:
        return None
    training = choose(trace, config.learning_rate, config.scale)
    log.info(
        "learning rate %.3g, %s; scale %.7g, %s",
        training.learning_rate,
        _origin(config.learning_rate),
        training.scale,
        _origin(config.scale),
    )
    return training


def describe(
    trace: Trace, training: Hyperparameters | None, parameters: int, is_vector: bool = False
) -> dict[str, object]:
    """For `run.json`; of so many `parameters` the trace may have some only, and these may be one vector."""
    described: dict[str, object] = {
        "name": trace.name,
        "parameters": parameters,
        "touched": trace.space.size,
        "steps": trace.steps,
        "lanes_per_step": lanes_per_step(trace),
        "trains": trace.samples is not None,
        **({"vector": trace.space.size} if is_vector else {}),
    }
    if trace.samples is None or training is None:
        return described
    return {**described, **asdict(training), "chance_loss": chance_loss(trace.samples)}


def lanes_per_step(trace: Trace) -> float:
    """Mean number of distinct parameters of a mini-batch."""
    return len(trace.position) / (trace.workers * trace.steps)


def _origin(configured: float | None) -> str:
    return "chosen from the data" if configured is None else "as configured"


def for_design(config: Config, trace: Trace) -> Trace:
    """What a design trains of it: of those whose workers add up one vector the `top_k` hottest parameters."""
    return hottest(trace, config.top_k) if config.is_lockstep else trace


def generate_trace(config: Config, progress: Callable[[float], None]) -> Trace:
    """The built-in workload's, as configured."""
    trace = generate(config.workload.shape(), config.workers, config.trace_steps, config.seed, progress)
    trace = for_design(config, trace)
    # Agents and books have room for every parameter of every job: of so many only those that are used.
    return trace.touched() if trace.space.size > _MOST_DENSE else trace
