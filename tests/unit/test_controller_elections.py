"""How the connection becomes primary, on a stand-in for finsy's switch that says who is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import finsy as fy
import pytest

from controller.client import SwitchClient
from controller.errors import DeviceError, NotPrimary


class Switch:
    """A fake of finsy's Switch; `highest` is the election id to beat."""

    opened: list[tuple[str, fy.SwitchOptions]]
    closed: int
    highest: Callable[[int], int]

    def __init__(self, name: str, address: str, options: fy.SwitchOptions) -> None:
        self.opened.append((address, options))
        self.primary_id = self.highest(len(self.opened))
        self.is_primary = options.initial_election_id > self.primary_id

    async def __aenter__(self) -> Switch:
        return self

    async def __aexit__(self, *_: object) -> None:
        type(self).closed += 1
        self.primary_id = -1  # as finsy's


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> type[Switch]:
    class Fresh(Switch):
        opened: list[tuple[str, fy.SwitchOptions]] = []  # noqa: RUF012  # of this test alone
        closed = 0
        highest = staticmethod(lambda attempt: 0)

    monkeypatch.setattr(fy, "Switch", Fresh)
    return Fresh


def connect(**settings: Any) -> None:
    async def run() -> None:
        async with SwitchClient("10.0.0.1:7", **settings):
            pass

    asyncio.run(run())


def test_nobody_else_is_there(switch: type[Switch]) -> None:
    connect(device_id=3)
    [(address, options)] = switch.opened
    assert (address, options.device_id) == ("10.0.0.1:7", 3)
    assert (options.p4info, options.p4blob) == (None, None)
    assert switch.closed == 1


def test_a_primary_that_is_there_is_outbid_by_one(switch: type[Switch]) -> None:
    switch.highest = staticmethod(lambda attempt: 50)
    connect()
    ids = [options.initial_election_id for _, options in switch.opened]
    assert len(ids) == 2 and ids[1] == 51
    # Each connection is closed, the one that lost before the next is opened.
    assert switch.closed == 2


def test_one_that_outbids_every_time_is_told(switch: type[Switch]) -> None:
    switch.highest = staticmethod(lambda attempt: 100 * attempt)
    with pytest.raises(NotPrimary) as refusal:
        connect()
    assert str(refusal.value) == "switch 10.0.0.1:7: another controller keeps taking the primary role"
    assert switch.closed == len(switch.opened) > 2


def test_who_is_not_to_be_disturbed_bids_higher_than_others_and_is_not_outbid(switch: type[Switch]) -> None:
    connect(undisturbed=True)
    [(_, options)] = switch.opened
    bid = options.initial_election_id
    assert 1 << 127 < bid < 1 << 128
    switch.opened.clear()
    switch.highest = staticmethod(lambda attempt: bid)
    for undisturbed in (False, True):
        with pytest.raises(NotPrimary) as refusal:
            connect(undisturbed=undisturbed)
        assert str(refusal.value) == (
            f"switch 10.0.0.1:7: a run (process {os.getpid()}) is setting it up, loading "
            "it or reading it out; try again when it has done so"
        )
    connect(primary=False)
    assert switch.closed == 1 + len(switch.opened) == 4


def test_who_only_reads_need_not_be_primary(switch: type[Switch]) -> None:
    switch.highest = staticmethod(lambda attempt: 50)
    connect(primary=False)
    assert len(switch.opened) == 1


@pytest.mark.parametrize(
    "address", ["10.0.0.1:1", "localhost:65535", "[::1]:9559", "switch-1.lab:80", "[fe80::1]:00080"]
)
def test_addresses_that_may_be(switch: type[Switch], address: str) -> None:
    assert SwitchClient(address).address == address


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1", "10.0.0.1:", ":1", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:100000", "a b:1", "a/b:1"),
        *("::1:9559", "[::1:9559", "::1]:9559", "[x]:1", "a:+1", "a:1 ", "a:1:2"),
    ],
)
def test_addresses_that_are_none(switch: type[Switch], address: str) -> None:
    with pytest.raises(DeviceError) as refusal:
        SwitchClient(address)
    assert str(refusal.value) == f"switch address: expected HOST:PORT, as 127.0.0.1:9559, got {address!r}"
    assert switch.opened == []


def test_a_connection_that_is_not_open() -> None:
    with pytest.raises(RuntimeError, match=r"^the connection is not open$"):
        SwitchClient().check_pipeline()
