"""Two CPUs in the program at once, and the control plane beside it: nothing is lost or torn."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from softswitch.kernel import bpf
from softswitch.pipeline import ActionCall, Change, EntryWrite
from switch_harness.constructs import compiled
from switch_harness.kernel import LOOPBACK, OnLoopback

FRAMES = 500_000  # of each of two threads, in turns of one system call
TURN = 10_000
FROM, TO = 5, 7
"""Source and destination address of the frames."""
FRAME = TO.to_bytes(6, "big") + FROM.to_bytes(6, "big") + bytes(48)


@pytest.fixture
def kernel() -> Iterator[OnLoopback]:
    with closing(OnLoopback(compiled("control"))) as pipeline:
        pipeline.connect(1)
        yield pipeline


def run_on(cpu: int, run: bpf.TestRun) -> None:
    os.sched_setaffinity(0, {cpu})
    for _ in range(FRAMES // TURN):
        run(FRAME, LOOPBACK, TURN)


def test_no_count_is_lost(kernel: OnLoopback) -> None:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.skip("two at once need two CPUs")
    runs = [bpf.TestRun(kernel.descriptor, bpf.SCHED_CLS) for _ in cpus]
    threads = [threading.Thread(target=run_on, args=pair) for pair in zip(cpus, runs, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [dropped] = kernel.cells.read_counter("ControlIngress.drops", 0, 1)
    assert dropped.packets == 2 * FRAMES
    assert kernel.cells.read_register("ControlIngress.cells", 0, 1) == [2 * FRAMES]


def batch(change: Change, number: int) -> list[EntryWrite]:
    """Return writes to two tables, which a frame meets as a new source address and as its port."""
    tag, port = (
        ActionCall("ControlIngress.set_tag", (0, number)),
        ActionCall("ControlIngress.forward_to", (number,)),
    )
    return [
        EntryWrite(change, "ControlIngress.pairs", (FROM, 0), tag),
        EntryWrite(change, "ControlIngress.forward", (TO,), port),
    ]


@pytest.mark.parametrize("least", [2_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_no_frame_is_lost_and_no_batch_of_writes_seen_in_part(kernel: OnLoopback, least: int) -> None:
    assert kernel.tables.write(batch(Change.INSERT, 2)) == [None, None]
    stop, written = threading.Event(), [0]

    def write() -> None:
        while not stop.is_set():
            for number in (3, 2):
                assert kernel.tables.write(batch(Change.MODIFY, number)) == [None, None]
                written[0] += 2

    with ExitStack() as ending:
        writer = threading.Thread(target=write)
        writer.start()
        ending.callback(writer.join)
        ending.callback(stop.set)
        seen, changes, before = 0, 0, 2
        while seen < least or changes < 100 or written[0] < least // 10:
            [output] = kernel.process(1, FRAME, 0, 0)
            assert int.from_bytes(output.frame[6:12], "big") == output.port
            seen += 1
            changes += output.port != before
            before = output.port
