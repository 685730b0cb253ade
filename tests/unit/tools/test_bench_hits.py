"""The section `hits` of the bench: frames hit or miss as they should, and events are counted."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from itertools import count
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from foundation.protocol.hashing import lanes_of
from foundation.protocol.header import LANES
from hosts.workload.generator import R1
from softswitch.compiled import CompiledPipeline
from softswitch.p4runtime.loaded_config import LoadedConfig
from switch_bench.baseline import C_LOOP
from switch_bench.errors import BenchError
from switch_bench.processes import Cores
from switch_bench.scale import QUICK
from switch_bench.stage import Stage
from switch_bench.switches import SOFTSWITCH
from switch_bench.workload import FIRST_SEQ, INGRESS
from switch_harness.wording import mentions
from tools.bench import counters, hotline, pushes, timed
from tools.bench.sections import hits as section

FIRST = count(0, 128)  # whole turns of a caller's window
SOFTWARE = {"task clock": (1, 1), "page faults": (1, 2)}


@pytest.fixture(scope="module")
def switch() -> CompiledPipeline:
    config = LoadedConfig.read(hotline.PROGRAM.json, hotline.PROGRAM.p4info)
    pipeline = CompiledPipeline(config.program)
    section.install(config, pipeline, pushes.hot_rows(2))
    return pipeline


def keys_of(frames: pushes.Pushes) -> NDArray[np.uint64]:
    return frames.frames[:, -LANES * 12 : -LANES * 4].copy().view(">u8").astype(np.uint64)


def test_hot_keys_are_distinct_in_their_lanes_and_popular_keys_come_often() -> None:
    frames = pushes.hot_pushes(1, 640)
    keys = keys_of(frames)
    assert (lanes_of(keys) == np.arange(LANES)).all()
    assert frames.ranks.max() < R1.hot
    counts = np.bincount(frames.ranks.ravel(), minlength=R1.hot)
    assert counts[:100].mean() > 10 * counts[-10_000:].mean()
    assert (counts > 0).sum() > 5_000


def test_jobs_alternate_and_repeated_pushes_have_the_same_keys() -> None:
    frames = pushes.hot_pushes(2, 6)
    assert (frames.ranks // R1.hot).tolist() == [[k % 2] * LANES for k in range(6)]
    same = keys_of(pushes.repeated_pushes(2, 6))
    assert (same[::2] == same[0]).all()
    assert (same[1::2] == same[1]).all()


@pytest.mark.parametrize(
    ("of", "size"), [(pushes.hot_pushes, 98), (pushes.repeated_pushes, 98), (pushes.cold_pushes, 482)]
)
@pytest.mark.parametrize("evicted", [False, True])
def test_the_switch_answers_hits_and_passes_cold_frames(
    switch: CompiledPipeline, of: Callable[[int, int], pushes.Pushes], size: int, evicted: bool
) -> None:
    drew, first = of(2, 128), next(FIRST)
    for k, frame in enumerate(map(bytearray, drew.frames)):
        frame[pushes.SEQ_AT : pushes.SEQ_AT + 4] = (FIRST_SEQ + first + k).to_bytes(4, "big")
        [output] = switch.process(INGRESS, bytes(frame), 0, 3)
        assert len(output.frame) == size
    took = timed.packet_function_run(switch)(drew, next(FIRST), evicted)
    assert took.shape == (128,)
    assert took.min() > 0


def test_lost_frames_are_an_error(switch: CompiledPipeline) -> None:
    frames = pushes.hot_pushes(1, 64)
    frames.frames[:, 12] = 0xFF  # of no IP packet
    with pytest.raises(BenchError, match=mentions(0, 64)):
        timed.packet_function_run(switch)(frames, next(FIRST), False)


@pytest.mark.soak
def test_the_section_has_a_line_for_each_kind_of_keys_and_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section, "_JOBS", (1,))
    monkeypatch.setattr(Stage, "switches", lambda _: [SOFTSWITCH])
    core = min(os.sched_getaffinity(0))
    lines = section.hits(
        Stage(Cores(core, core, (core,)), QUICK._replace(calls=20_000), Random(1), lambda _: None)
    )
    assert [line.what for line in lines[:8]] == [
        *(
            f"32 lanes, {what}, 1 job, caches {caches}"
            for what in ("the same 32 keys", "hit", "cold")
            for caches in ("warm", "evicted")
        ),
        *(f"32 lanes, hit / cold, 1 job, caches {caches}" for caches in ("warm", "evicted")),
    ]
    assert all(len(line.samples[SOFTSWITCH]) == 5 for line in lines[:8])
    hit, cold, ratio = lines[2], lines[4], lines[6]
    pairs = zip(hit.samples[SOFTSWITCH], cold.samples[SOFTSWITCH], strict=True)
    assert ratio.samples == {SOFTSWITCH: [a / b for a, b in pairs]}
    assert all(value > 0 for value in hit.samples[C_LOOP])


def test_events_are_counted_in_the_block_alone() -> None:
    if why := counters.missing(SOFTWARE):
        pytest.skip(why)
    with counters.count_events(True, SOFTWARE) as few:
        pass
    with counters.count_events(True, SOFTWARE) as many, mmap.mmap(-1, 4 << 20) as pages:
        pages[:: mmap.PAGESIZE] = bytes(1024)
    assert many["page faults"] > few["page faults"] + 100
    with counters.count_events(False, SOFTWARE) as none:
        pass
    assert none == {}


def test_an_event_that_the_machine_cannot_count_is_reported() -> None:
    assert "nonsense" in counters.missing({"nonsense": (0, 1 << 30)})
