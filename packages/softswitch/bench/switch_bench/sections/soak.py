"""Count lost and misrouted frames of a long run at the highest loss-free rate, while tables are written."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from softswitch.conformance.client import P4RuntimeClient, encode_writes
from switch_bench import plain
from switch_bench.measure import ThroughputTest
from switch_bench.results import LOST, Result
from switch_bench.stage import Stage
from switch_bench.switches import SOFTSWITCH
from switch_bench.traffic import Generator, Trial

_PORTS = 8
_WRITES_A_SECOND = 1_000
_BATCH = 50  # updates in one write
_SLOWDOWN = 0.95  # factor of the rate after a run with losses
_ATTEMPTS = 8
_GOALS = {"lost": LOST, "misrouted": LOST}


class SoakRun(NamedTuple):
    trial: Trial
    written: int
    seconds: float


def soak(stage: Stage) -> list[Result]:
    """Find the loss-free rate while a writer runs; while a long run loses frames, repeat it 5 % slower."""
    with (
        stage.traffic(_PORTS) as generator,
        stage.switch(SOFTSWITCH, _PORTS, plain.l3_setup(_PORTS)) as switch,
    ):
        generator.load(plain.l3(_PORTS))
        stage.announce("the highest rate without loss")
        with _Writer(switch.client).running():
            rate = ThroughputTest(generator, stage.scale, SOFTSWITCH).highest_loss_free_rate()
        attempts = 0
        while attempts < _ATTEMPTS:
            attempts += 1
            stage.announce(f"{rate:,.0f} packets/s for {stage.scale.soak_seconds:.0f} s")
            soak_run = soak_at(generator, switch.client, rate, stage.scale.soak_seconds)
            if soak_run.trial.lost == 0:
                break
            rate *= _SLOWDOWN
    what = f"soak, {stage.scale.soak_seconds:.0f} s, L3 to {_PORTS - 1} ports"
    values = {
        "rate": ("packets/s", soak_run.trial.rate),
        "table writes meanwhile": ("writes/s", soak_run.written / soak_run.seconds),
        "packets sent": ("packets", soak_run.trial.sent),
        "runs until one lost nothing, each 5 % slower": ("runs", attempts),
        "lost": ("packets", soak_run.trial.lost),
        "misrouted": ("packets", soak_run.trial.misrouted),
    }
    return [
        Result("soak", f"{what}: {name}", unit, {SOFTSWITCH: [value]}, _GOALS.get(name, ()))
        for name, (unit, value) in values.items()
    ]


def soak_at(generator: Generator, client: P4RuntimeClient, rate: float, seconds: float) -> SoakRun:
    writer = _Writer(client)
    begin = time.monotonic()
    with writer.running():
        trial = generator.run(round(rate * seconds), rate)
        elapsed = time.monotonic() - begin
    return SoakRun(trial, writer.written, elapsed)


class _Writer:
    """Inserts routes that match no frame and deletes them again, a batch at a time, at a steady pace."""

    def __init__(self, client: P4RuntimeClient) -> None:
        self.written = 0
        inserts = plain.routes(_WRITES_A_SECOND)[0].updates
        self._client = client
        self._batches = [
            request
            for start in range(0, len(inserts), _BATCH)
            for request in (
                *encode_writes(inserts[start : start + _BATCH]),
                *encode_writes(plain.deletions_of(inserts[start : start + _BATCH])),
            )
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _run(self, stop: threading.Event) -> None:
        begin = time.monotonic()
        count = 0
        while not stop.wait(max(0.0, begin + count * _BATCH / _WRITES_A_SECOND - time.monotonic())):
            self._client.send([self._batches[count % len(self._batches)]])
            count += 1
            self.written += _BATCH
        if count % 2:  # insertions and deletions alternate: delete what the last batch inserted
            self._client.send([self._batches[count % len(self._batches)]])
