"""Writes as bytes to tables of the kernel's datapath: fast path and general path agree."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from softswitch.conformance.direct import DirectPipeline
from switch_harness.effort import examples
from switch_harness.p4runtime import DELETE, INSERT, MODIFY
from switch_harness.plain_writes import REQUESTS, Batches, Twins, forward, request, write_all


@pytest.fixture(scope="module")
def twins() -> Iterator[Twins]:
    twins = Twins(DirectPipeline)
    yield twins
    for control in (twins.short, twins.long):
        control.pipeline.close()


def test_plain_writes_take_the_fast_path(twins: Twins) -> None:
    before = twins.shortcuts
    for kind in (INSERT, MODIFY):
        assert not any(twins.write(request(*(forward(address, 3, kind) for address in range(200)))))
    assert twins.shortcuts == before + 2
    gone = request(*(forward(address, None, DELETE) for address in range(200)))
    assert not any(twins.write(gone)) and twins.shortcuts == before + 3


@settings(max_examples=examples(200), deadline=None)
@given(REQUESTS)
def test_the_fast_path_of_writes_answers_like_the_general_path(twins: Twins, batches: Batches) -> None:
    write_all(twins, batches)
