"""Frames of requests by one call: what agents parse of them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.protocol import addressing, codec, frames
from foundation.protocol.header import HOTLINE_PORT, LANES, Op
from foundation.protocol.requests import FIRST_SEQ, request_frame

JOB = 50


def test_a_push_has_its_keys_values_and_addresses() -> None:
    frame = frames.parse(request_frame("push", [7, 2**40], [100, -1], job=JOB, worker=3, server=2))
    header, keys, values = codec.parse(frame.payload)
    assert keys is not None and keys.tolist() == [7, 2**40]
    assert values is not None and values.tolist() == [100, 2**32 - 1]
    assert (header.op, header.job, header.worker, header.ps, header.seq, header.live) == (
        Op.PUSH, JOB, 3, 1, FIRST_SEQ, 0b11,
    )  # fmt: skip
    worker, service = addressing.worker(3), addressing.service(2)
    assert frame.source == (worker.mac, worker.address, addressing.worker_udp_port(JOB))
    assert frame.destination == (service.mac, service.address, HOTLINE_PORT)


def test_a_pull_of_rows_has_no_values() -> None:
    header, keys, values = codec.parse(frames.parse(request_frame("pull", [1, 2], job=JOB, dim=4)).payload)
    assert (header.op, header.dim, values) == (Op.PULL, 4, None)
    assert keys is not None and keys.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"op": "add", "keys": [1]}, "op: expected 'pull' or 'push', got 'add'"),
        ({"op": "pull", "keys": []}, f"keys: expected 1 to {LANES}, got 0"),
        ({"op": "push", "keys": [1, 2], "values": [1]}, "values of a push of 2: expected 2, got 1"),
        ({"op": "push", "keys": [1]}, "values of a push of 1: expected 1, got 0"),
        ({"op": "pull", "keys": [1], "values": [1]}, "values of a pull of 1: expected 0, got 1"),
    ],
)
def test_a_request_that_no_worker_sends_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        request_frame(**arguments, job=JOB)
