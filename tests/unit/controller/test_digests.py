"""A controller gets the digests of a design's program as values by the names of their fields."""

from __future__ import annotations

import asyncio
from typing import Any

import finsy as fy
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from controller.controller import Controller
from controller.errors import DigestError
from foundation.protocol.addressing import worker_port
from hosts.scapy.packets import HOTLINE_PORT, KEYS, VALUES, Hotline, Op
from tests.harness.livenet import JOB, LiveNet
from tests.harness.livenet import KEYS as N_KEYS

HOT, LIMIT = "examples.tutorial.hot", 50
WAIT_S = 30


def push(key: int, turn: int) -> bytes:
    rpc = Hotline(op=int(Op.PUSH), flags=KEYS | VALUES, job=54, worker=1, seq=64 * turn, count=1, live=1,
                  keys=[key], values=[1])  # fmt: skip
    ip = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.1.1", dst="10.0.2.1")
    return bytes(ip / UDP(sport=20_000, dport=HOTLINE_PORT, chksum=0) / rpc)


def deliver_notices(net: LiveNet) -> None:
    """Give the server what the pipeline has reported, as a switch's ports do."""
    pipeline: Any = net.pipeline
    for record in pipeline.take_notice_records():
        net._notice_end.send(record)


def test_each_digest_has_its_fields_by_name_also_for_the_next_controller() -> None:
    async def run() -> list[dict[str, int]]:
        found = []
        async with LiveNet(JOB, N_KEYS) as net:
            async with Controller(net.address, design=HOT) as controller:
                await controller.commit_pipeline()
            for key in (7, 2**40 + 8):
                async with Controller(net.address, design=HOT) as controller:
                    digests = controller.digests("report_t")
                    waiting = asyncio.ensure_future(anext(digests))
                    # The subscription is complete once the switch has its entry.
                    while not await controller._switch._read_entities([fy.P4DigestEntry()]):
                        await asyncio.sleep(0)
                    for turn in range(LIMIT):
                        net.inject(worker_port(1), push(key, turn + 1))
                    deliver_notices(net)
                    found.append(await asyncio.wait_for(waiting, WAIT_S))
        return found

    assert asyncio.run(run()) == [{"key": 7, "updates": LIMIT}, {"key": 2**40 + 8, "updates": LIMIT}]


def test_an_unknown_digest_is_one_error_with_the_names_of_known_digests() -> None:
    async def run() -> None:
        async with LiveNet(JOB, N_KEYS) as net, Controller(net.address, design=HOT) as controller:
            await controller.commit_pipeline()
            await anext(controller.digests("nothing"))

    with pytest.raises(DigestError) as refused:
        asyncio.run(run())
    assert str(refused.value) == "hot.json: expected a digest (report_t), got 'nothing'"
