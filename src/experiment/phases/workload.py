"""Make the trace that all arms replay, and describe it for the record."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from experiment.errors import PreflightError
from experiment.progress import Reporter
from experiment.run_config import Config
from foundation.concurrency import in_thread
from foundation.designs.registry import design as find_design
from foundation.errors import DataError
from foundation.logs.time_split import training_length
from foundation.optimisers import Optimiser, TableOptimiser
from foundation.protocol.header import LANES, padded_dim
from foundation.protocol.rows import RowRange
from hosts.model.hyperparameters import Hyperparameters, chance_loss, choose
from hosts.model.logistic import GRADIENT_SCALE
from hosts.workload import data_files
from hosts.workload.criteo import CriteoTables
from hosts.workload.generator import generate, generate_from
from hosts.workload.hottest import restrict_to_hottest
from hosts.workload.trace import Trace

log = logging.getLogger(__name__)

_STEPS_MARGIN = 1.02  # factor on the number of steps, because mini-batches differ in size


_MAX_FULL_MODEL_SIZE = 2**24
"""Maximum number of values that agents allocate; of a larger model, only those of rows in the trace."""


def read_data(config: Config, reporter: Reporter) -> Trace | None:
    """Return the trace of DATA; None for the built-in workload. Raises `PreflightError` for bad data."""
    if config.data is None:
        return None
    try:
        with reporter.phase("data"):
            whole_trace = data_files.load(config.data, config.workers, config.read_options, reporter.message)
            restricted = restrict_for_lockstep(config, with_rows(whole_trace, config.dim))
            trace = _with_profile(config, restricted)
    except DataError as error:
        reporter.stop()
        raise PreflightError(f"DATA={error}") from None  # errors of a file begin with its path
    if lanes_per_step(trace) < LANES:
        log.warning(
            "%s: tiny mini-batches, of %.3g keys on average, where one RPC has room for %d: this measures "
            "nearly empty RPCs; put all updates of a worker's step under one iteration",
            config.data,
            lanes_per_step(trace),
            LANES,
        )
    if trace.steps == 1 and _has_profile(config):
        log.warning(
            "%s: one mini-batch for each worker: the hot set is measured on the mini-batches that it is "
            "chosen from, so the switch serves more than it would of others",
            config.data,
        )
    return trace


async def make_trace(config: Config, data: Trace | None, folder: Path, reporter: Reporter) -> Trace:
    with reporter.phase("workload", 1.0) as phase:
        trace = await in_thread(generate_trace, config, phase.update) if data is None else data
        await in_thread(trace.save, folder)
    return Trace.load(folder)


def choose_training(config: Config, trace: Trace) -> Hyperparameters | None:
    if trace.samples is None:
        return None
    training = choose(
        trace, config.learning_rate, config.scale, servers_optimise=config.optimiser is not None
    )
    if training.learning_rate is None:
        log.info("%s; scale %.7g, %s", config.optimiser, training.scale, _source_of_setting(config.scale))
        return training
    log.info(
        "learning rate %.3g, %s; scale %.7g, %s",
        training.learning_rate,
        _source_of_setting(config.learning_rate),
        training.scale,
        _source_of_setting(config.scale),
    )
    return training


def table_optimisers(config: Config, training: Hyperparameters | None) -> tuple[TableOptimiser, ...]:
    if config.optimiser is None:
        return ()
    scale = GRADIENT_SCALE if training is None else training.scale
    return (TableOptimiser(first=0, scale=scale, optimiser=config.optimiser),)


def describe(
    trace: Trace, training: Hyperparameters | None, parameters: int, is_vector: bool = False,
    optimiser: Optimiser | None = None,
) -> dict[str, object]:  # fmt: skip
    """Return `run.json`'s entry; `parameters` is the model's size, `is_vector` is for lockstep designs."""
    description: dict[str, object] = {
        "name": trace.name,
        "parameters": parameters,
        "touched": trace.space.size,
        "dims": list(trace.space.dims),
        "steps": trace.steps,
        "lanes_per_step": lanes_per_step(trace),
        "trains": trace.samples is not None,
        **({"vector": trace.space.size} if is_vector else {}),
        **({} if optimiser is None else {"optimiser": str(optimiser)}),
    }
    if trace.samples is None or training is None:
        return description
    return {**description, **asdict(training), "chance_loss": chance_loss(trace.samples)}


def lanes_per_step(trace: Trace) -> float:
    return len(trace.position) / (trace.workers * trace.steps)


def _source_of_setting(configured: float | None) -> str:
    return "chosen from the data" if configured is None else "as configured"


def restrict_for_lockstep(config: Config, trace: Trace) -> Trace:
    return restrict_to_hottest(trace, config.top_k) if config.is_lockstep else trace


def _with_profile(config: Config, trace: Trace) -> Trace:
    """Return a trace whose first steps, with `profile_lanes` lanes but at most half, profile the hot set."""
    if not _has_profile(config):
        return trace
    profile_steps = steps_to_profile(config, trace.steps, trace.lanes)
    return replace(trace, profile_steps=min(profile_steps, training_length(trace.steps)))


def _has_profile(config: Config) -> bool:
    return find_design(config.design).preparation is not None


def generate_trace(config: Config, progress: Callable[[float], None], has_samples: bool = True) -> Trace:
    if config.tables == "criteo":
        random = np.random.default_rng(config.seed)
        features = CriteoTables(config.workload.keys_per_step, random)
        trace = generate_from(features, config.workers, config.trace_steps, random, progress, has_samples)
    else:
        trace = generate(
            config.workload.shape(), config.workers, config.trace_steps, config.seed, progress, has_samples
        )
        trace = with_rows(trace, config.dim)
    trace = _with_profile(config, restrict_for_lockstep(config, trace))
    # Agents and ledgers allocate every parameter of every job.
    return trace.compact() if trace.space.n_values > _MAX_FULL_MODEL_SIZE else trace


def with_rows(trace: Trace, dim: int) -> Trace:
    """Return the trace with rows of `dim` values, padded to the next dim that RPCs carry."""
    rows = (RowRange(0, padded_dim(dim)),)
    return replace(trace, space=replace(trace.space, ranges=rows))


def steps_to_profile(config: Config, steps: int, lanes: int) -> int:
    """Return the steps of each worker that push the configured number of lanes, if `steps` push `lanes`."""
    passes = _STEPS_MARGIN * config.lanes_to_profile / max(lanes, 1)
    return min(int(passes * steps) + 1, steps)
