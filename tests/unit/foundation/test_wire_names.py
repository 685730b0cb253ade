"""Names, numbers and addresses of the testbed in docs and logs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from foundation.designs.arms import arms_of, measured_arms
from foundation.designs.hotset import BASELINE, OFFLOAD, OFFLOAD_PROXY, PROXY, REPEAT, settings_of
from foundation.protocol import addressing
from foundation.protocol.addressing import Endpoint
from foundation.protocol.control import MAX_KEYS, MAX_VALUES_KEYS, SLOTS, Command, Control, Status
from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.header import (
    CONTROLLER_CALLER,
    HEADER_BYTES,
    HOTLINE_PORT,
    KEY_BYTES,
    LANES,
    NO_KEY,
    PS_CALLER_BASE,
    PS_RPC_PORT,
    VALUE_BYTES,
    VERSION,
    Header,
    Op,
)
from switch_harness.wording import mentions


def test_arms_have_their_names_jobs_and_uses_of_the_switch() -> None:
    found = [(arm, settings_of(arm)) for arm in arms_of("hotset")]
    assert [(arm.name, arm.job, uses.aggregates, uses.proxies) for arm, uses in found] == [
        ("profile", 1, True, False),
        ("baseline", 2, False, False),
        ("repeat", 6, False, False),
        ("proxy", 3, False, True),
        ("offload", 4, True, False),
        ("offload-proxy", 5, True, True),
    ]
    assert measured_arms("hotset") == (BASELINE, REPEAT, PROXY, OFFLOAD, OFFLOAD_PROXY)
    assert {arm.name for arm, uses in found if uses.aggregates} == {"profile", "offload", "offload-proxy"}
    assert {arm.name for arm, _ in found if arm.is_repetition} == {"repeat"}


def test_addresses_encode_the_kind_and_the_number_of_a_host() -> None:
    assert addressing.worker(3) == Endpoint("w3", "10.0.1.3", "02:00:00:00:01:03")
    assert addressing.server(14) == Endpoint("p14", "10.0.2.14", "02:00:00:00:02:0e")
    assert addressing.service(99) == Endpoint("service99", "10.0.3.99", "02:00:00:00:03:63")
    assert addressing.controller() == Endpoint("controller", "10.0.4.1", "02:00:00:00:04:01")
    assert addressing.PREFIX_LENGTH == 16


@pytest.mark.parametrize("number", [0, -1, 1025])
def test_there_are_as_many_hosts_as_routes(number: int) -> None:
    with pytest.raises(ValueError, match=mentions("1..1024", number)):
        addressing.worker(number)
    assert addressing.worker(250) == Endpoint("w250", "10.0.1.250", "02:00:00:00:01:fa")
    assert addressing.worker(251) == Endpoint("w251", "10.1.1.1", "02:00:00:01:01:01")
    every = [
        kind(n) for kind in (addressing.worker, addressing.server, addressing.service) for n in range(1, 1025)
    ]
    assert len({each.address for each in every}) == len({each.mac for each in every}) == 3 * 1024


def test_ports_of_the_switch_have_their_documented_numbers() -> None:
    assert [addressing.worker_port(number) for number in (1, 4)] == [1, 4]
    assert [addressing.server_port(4, number) for number in (1, 2)] == [5, 6]
    assert [addressing.server_port(250, number) for number in (4, 5, 259)] == [254, 256, 510]
    assert addressing.interface(6) == "s1-eth6"
    assert addressing.switch_interfaces(2, 1) == ["s1-eth1", "s1-eth2", "s1-eth3"]


def test_udp_ports_and_callers_have_their_documented_numbers() -> None:
    assert (HOTLINE_PORT, PS_RPC_PORT, addressing.worker_udp_port(4)) == (5001, 5002, 20_004)
    assert (PS_CALLER_BASE, CONTROLLER_CALLER) == (0x8000, 0xFFFF)
    # Callers never meet: workers are from 1 on, and there are fewer than 2^15 of a kind.
    assert addressing.MAX_HOSTS_OF_A_KIND < PS_CALLER_BASE
    assert PS_CALLER_BASE + addressing.MAX_HOSTS_OF_A_KIND < CONTROLLER_CALLER


def test_commands_and_statuses_have_their_documented_numbers_and_sizes() -> None:
    names = ("SEED", "COLLECT", "VALUES", "HELLO", "RENEW", "BUSIEST", "PUBLISH", "HOLD", "SETTLE")
    assert [(command.name, command.value) for command in Command] == [*zip(names, range(1, 10), strict=True)]
    assert {status.name: status.value for status in Status} == {
        "OK": 0, "NOT_OWNED": 1, "NO_ENTRY": 2, "STALE": 3,
    }  # fmt: skip
    assert MAX_KEYS == 128
    # The largest answer with values that a packet inside a VXLAN takes: IPv4, UDP, header, 8 B, 12 B a key.
    size = FRAME_OVERHEAD - 14 + HEADER_BYTES + 8
    assert SLOTS == 4  # callers and answerers count alike
    assert size + 12 * MAX_VALUES_KEYS <= 1450 < size + 12 * (MAX_VALUES_KEYS + 1)


def test_a_full_datagram_has_32_lanes_of_8_byte_keys_and_4_byte_values() -> None:
    assert (LANES, KEY_BYTES, VALUE_BYTES) == (32, 8, 4)
    assert NO_KEY == 0xFFFF_FFFF_FFFF_FFFF


def test_a_default_header_is_an_empty_pull() -> None:
    given = {name: value for name, value in Header()._asdict().items() if value}
    assert given == {"version": VERSION, "op": Op.PULL, "dim": 1}


def test_shared_values_are_immutable() -> None:
    command = Control(Command.HELLO, 1, 2, 3, 4, np.empty(0, dtype=np.uint64))
    for shared, field in ((BASELINE, "name"), (addressing.worker(1), "name"), (command, "status")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(shared, field, "other")
