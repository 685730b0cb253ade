"""Workloads of tests of answers: generated once, and smaller than the built-in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import lru_cache

import numpy as np
import pytest

from experiment import run_config
from experiment.phases import workload
from hosts.workload.generator import R1, Shape, generate
from hosts.workload.trace import Samples, Trace
from hotline_answers.cluster_answer import cluster
from hotline_simulator import config as simulation_config

_TRACES = 8  # that are kept, of some 30 MB each
_PARAMETERS = 100_000
_PROFILED_LANES = 200_000


@contextmanager
def generated_once() -> Iterator[None]:
    """Generate each trace of a workload once: one of 4 million lanes takes 0.4 s of each simulation.

    The generator's tests call it themselves.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(workload, "generate", _generate)
        yield


@contextmanager
def small_workload() -> Iterator[None]:
    """Give clusters a ninth of the built-in workload's parameters, and a fifth of its mini-batches."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster, "R1", replace(R1, parameters=_PARAMETERS))
        for module in (run_config, simulation_config):
            patched.setattr(module, "PROFILE_LANES", _PROFILED_LANES)
        yield


def _generate(
    shape: Shape, workers: int, steps: int, seed: int,
    progress: Callable[[float], None] = lambda share: None, has_samples: bool = True,
) -> Trace:  # fmt: skip
    trace = _read_only_trace(shape, workers, steps, seed, has_samples)
    progress(1.0)
    return trace


@lru_cache(_TRACES)
def _read_only_trace(shape: Shape, workers: int, steps: int, seed: int, has_samples: bool) -> Trace:
    trace = generate(shape, workers, steps, seed, has_samples=has_samples)
    samples = [getattr(trace.samples, field.name) for field in fields(Samples)] if has_samples else []
    for array in (trace.key_start, trace.position, *samples):
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    return trace
