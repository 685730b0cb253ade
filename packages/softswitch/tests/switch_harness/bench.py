"""Tests of the bench: frames of its workloads, and a stage without a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

import numpy as np

from switch_bench.calls import install_program
from switch_bench.processes import Cores
from switch_bench.scale import QUICK
from switch_bench.stage import Stage
from switch_bench.traffic import Trial
from switch_bench.workload import FIRST_SEQ, INGRESS, Setup, Workload


def stamped(workload: Workload, k: int) -> bytes:
    frame = bytearray(workload.frames[k])
    for offset, size, value in (
        (workload.stamp.run, 4, 3),
        (workload.stamp.seq, 4, FIRST_SEQ + k),
        (workload.stamp.t0, 8, 1 << 60 | k),
    ):
        frame[offset : offset + size] = value.to_bytes(size, "big")
    return bytes(frame)


def number(frame: bytes, offset: int, size: int) -> int:
    return int.from_bytes(frame[offset : offset + size], "big")


def check_frames(setup: Setup, workload: Workload, count: int) -> None:
    """Check that the first frames leave by the ports that they name, with their stamps, by all of them."""
    pipeline = install_program(setup)
    egress = set()
    for k in range(count):
        (output,) = pipeline.process(INGRESS, stamped(workload, k), 0, 3)
        stamp = workload.stamp
        assert output.port == number(output.frame, stamp.egress, 2)
        assert number(output.frame, stamp.run, 4) == 3
        assert number(output.frame, stamp.seq, 4) == FIRST_SEQ + k
        assert number(output.frame, stamp.t0, 8) == 1 << 60 | k
        egress.add(output.port)
    assert egress == set(workload.egress)


class ModelGenerator:
    """Play a target that carries 60,000 frames/s; frames take 0, 1, ... 99 µs plus 1 µs for each frame/s."""

    loaded = ""
    max_bursts: ClassVar[list[int]] = []
    """Those of all runs, the last one last."""

    def __init__(self) -> None:
        self.drains = 0

    def load(self, workload: Workload) -> None:
        self.loaded = workload.name

    def drain(self, quiet_seconds: float) -> None:
        self.drains += 1

    def run(self, count: int, rate: float, max_burst: int) -> Trial:
        self.max_bursts.append(max_burst)
        carried = count if rate <= 60_000 else count - 1
        return Trial(count, carried, 0, rate, rate + np.arange(100.0))


@dataclass(frozen=True)
class ModelStage(Stage):
    """It has no network; the test names the switches."""

    targets: Sequence[str]

    def switches(self) -> list[str]:
        return list(self.targets)

    @contextmanager
    def traffic(self, ports: int) -> Iterator[Any]:
        yield ModelGenerator()

    @contextmanager
    def target(self, name: str, ports: int, setup: Setup, workload: Workload) -> Iterator[int]:
        yield 1


def model_stage(*targets: str) -> ModelStage:
    scale = QUICK._replace(trial_seconds=0.001)
    return ModelStage(Cores(0, 1, (0, 1)), scale, Random(1), lambda _: None, targets)
