"""The control plane beside the program in the kernel: nothing is lost or torn."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.header import LANES, Op, offset_of
from softswitch.kernel.arena import RECEIVED, SENT
from softswitch.pipeline import Change, EntryWrite
from switch_harness.kernel import LOOPBACK, OnLoopback
from tests.harness import testnet
from tests.harness.testnet import KEY_OF

pytestmark = pytest.mark.usefixtures("kernel_datapath")


@pytest.fixture
def kernel() -> Iterator[OnLoopback]:
    pipeline = OnLoopback(testnet.program())
    testnet.write(pipeline, testnet.network())
    pipeline.connect(1)
    yield pipeline
    pipeline.close()


@pytest.mark.parametrize("least", [2_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_no_frame_is_lost_and_no_batch_of_writes_seen_in_part(kernel: OnLoopback, least: int) -> None:
    """Pulls of a key in each lane find all of them hot or none while a thread changes them in batches.

    Each pull is answered, and there is at least one table write for ten pulls.
    """

    def batch(change: Change, state: str) -> list[EntryWrite]:
        return [testnet.hot_entry(change, key, state, 1, lane) for lane, key in enumerate(KEY_OF)]

    testnet.write(kernel, batch(Change.INSERT, "hot"))
    lanes = {lane: (key, 0) for lane, key in enumerate(KEY_OF)}
    _, frame = testnet.request(Op.PULL, lanes, seq=64)
    at = FRAME_OVERHEAD + offset_of("served")
    stop, written = threading.Event(), [0]

    def write() -> None:
        while not stop.is_set():
            for state in ("reserved", "hot"):
                testnet.write(kernel, batch(Change.MODIFY, state))
                written[0] += LANES

    with ExitStack() as ending:
        writer = threading.Thread(target=write)
        writer.start()
        ending.callback(writer.join)
        ending.callback(stop.set)
        seen, changes, before = {0: 0, LANES: 0}, 0, LANES
        while sum(seen.values()) < least or changes < 100 or written[0] < least // 10:
            answer = kernel.run(frame, LOOPBACK).frame
            served = int.from_bytes(answer[at : at + 4], "big").bit_count()
            seen[served] += 1
            changes += served != before
            before = served
    assert kernel.counted(RECEIVED) == kernel.counted(SENT) == sum(seen.values())
