"""Calls of BMv2's Thrift services: what they do, the errors with BMv2's codes, and malformed messages."""

from __future__ import annotations

import hashlib
import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from thriftpy2.thrift import TApplicationException

from softswitch.thrift.structs import REGISTER_ERRORS, TABLE_ERRORS
from switch_harness.p4runtime import CONTROL, DEVICE, ENTITIES
from switch_harness.thrift_clients import ThriftSwitch, declarations, serving_thrift
from switch_harness.waiting import PATIENCE_S

CONTEXT = 0
types = declarations()


@pytest.fixture(scope="module")
def switch() -> Iterator[ThriftSwitch]:
    with serving_thrift(ENTITIES) as found:
        yield found


@pytest.fixture
def clients(switch: ThriftSwitch) -> Iterator[dict[str, Any]]:
    switch.runtime.reset_state()
    with switch.connected() as found:
        yield found


def exact(key: bytes) -> Any:
    return types.MatchParam(type=0, exact=types.ExactParam(key=key))


def lpm(key: bytes, length: int) -> Any:
    return types.MatchParam(type=1, lpm=types.LpmParam(key=key, prefix_length=length))


def ternary(key: bytes, mask: bytes) -> Any:
    return types.MatchParam(type=2, ternary=types.TernaryParam(key=key, mask=mask))


def options(priority: int | None = None) -> Any:
    return types.AddEntryOptions(priority=priority)


def code_of(call: Any, *arguments: Any) -> int:
    with pytest.raises(types.Refused) as refused:
        call(CONTEXT, *arguments)
    code: int = refused.value.code
    return code


def text_of(call: Any, *arguments: Any) -> str:
    with pytest.raises(TApplicationException) as refused:
        call(*arguments)
    return str(refused.value.message)


def test_an_entry_is_added_read_modified_and_deleted(clients: dict[str, Any]) -> None:
    standard, table = clients["standard"], "Entities.metered"
    key = [ternary(b"\x08\x00", b"\xff\x00")]
    handle = standard.bm_mt_add_entry(
        CONTEXT, table, key, "Entities.forward_metered", [b"\x00\x03"], options(10)
    )
    (entry,) = standard.bm_mt_get_entries(CONTEXT, table)
    assert (handle, entry.entry_handle, entry.match_key, entry.options.priority) == (0, 0, key, 10)
    assert (entry.action_entry.action_name, entry.action_entry.action_data) == (
        "Entities.forward_metered",
        [b"\x03"],  # as few bytes as the value needs, as in BMv2
    )
    assert standard.bm_mt_get_entry_from_key(CONTEXT, table, key, options(10)) == entry
    standard.bm_mt_modify_entry(CONTEXT, table, handle, "Entities.forward_metered", [b"\x01\x01"])
    assert standard.bm_mt_get_entry(CONTEXT, table, handle).action_entry.action_data == [b"\x01\x01"]
    standard.bm_mt_delete_entry(CONTEXT, table, handle)
    assert standard.bm_mt_get_num_entries(CONTEXT, table) == 0


def test_a_handle_has_32_bits_of_which_the_first_is_its_sign(clients: dict[str, Any]) -> None:
    """The version of a handle, its upper 8 bits, grows with each entry that has used its number."""
    standard, table, key = clients["standard"], "Entities.metered", [ternary(b"\x01", b"\x01")]
    for _ in range(129):
        handle = standard.bm_mt_add_entry(CONTEXT, table, key, "NoAction", [], options(1))
        last = standard.bm_mt_get_entry(CONTEXT, table, handle).entry_handle
        standard.bm_mt_delete_entry(CONTEXT, table, handle)
    assert handle == last == -(1 << 31)
    assert code_of(standard.bm_mt_delete_entry, table, handle) == TABLE_ERRORS["INVALID_HANDLE"]


def test_an_entry_of_an_indirect_table_has_a_member_or_a_group(clients: dict[str, Any]) -> None:
    standard, table, profile = clients["standard"], "Entities.balanced", "Entities.paths"
    member = standard.bm_mt_act_prof_add_member(CONTEXT, profile, "Entities.forward_to", [b"\x07"])
    group = standard.bm_mt_act_prof_create_group(CONTEXT, profile)
    standard.bm_mt_act_prof_add_member_to_group(CONTEXT, profile, member, group)
    keys = [[lpm(bytes([part, 0, 0, 0, 0, 0]), 8)] for part in (16, 32)]
    standard.bm_mt_indirect_add_entry(CONTEXT, table, keys[0], member, options())
    standard.bm_mt_indirect_ws_add_entry(CONTEXT, table, keys[1], group, options())
    entries = standard.bm_mt_get_entries(CONTEXT, table)
    assert [entry.match_key for entry in entries] == keys
    assert [entry.action_entry.action_type for entry in entries] == [2, 3]
    assert (entries[0].action_entry.mbr_handle, entries[1].action_entry.grp_handle) == (member, group)
    assert standard.bm_mt_act_prof_get_group(CONTEXT, profile, group).mbr_handles == [member]
    assert standard.bm_mt_act_prof_get_member(CONTEXT, profile, member).action_data == [b"\x07"]
    assert code_of(standard.bm_mt_act_prof_delete_member, profile, member) == TABLE_ERRORS["MBR_STILL_USED"]


def test_an_idle_timeout_is_read_as_the_life_of_its_entry(clients: dict[str, Any]) -> None:
    standard, key = clients["standard"], [exact(b"\xaa\xbb\xcc\xdd\xee\xff")]
    handle = standard.bm_mt_add_entry(CONTEXT, "Entities.seen", key, "NoAction", [], options())
    standard.bm_mt_set_entry_ttl(CONTEXT, "Entities.seen", handle, 1500)
    assert standard.bm_mt_get_entry(CONTEXT, "Entities.seen", handle).life.timeout_ms == 1500
    assert code_of(standard.bm_mt_set_entry_ttl, "Entities.metered", 0, 1) == TABLE_ERRORS["AGEING_DISABLED"]


def test_a_default_action_is_set_and_reset(clients: dict[str, Any]) -> None:
    standard, table = clients["standard"], "Entities.metered"
    standard.bm_mt_set_default_action(CONTEXT, table, "Entities.forward_metered", [b"\x02"])
    default = standard.bm_mt_get_default_entry(CONTEXT, table)
    assert (default.action_name, default.action_data) == ("Entities.forward_metered", [b"\x02"])
    assert standard.bm_mt_get_entry_from_key(CONTEXT, table, [], options()).action_entry == default
    standard.bm_mt_clear_entries(CONTEXT, table, True)
    assert standard.bm_mt_get_default_entry(CONTEXT, table).action_name == "NoAction"


def test_registers_have_64_bits_with_a_sign(clients: dict[str, Any]) -> None:
    standard, cells = clients["standard"], "Entities.cells"
    standard.bm_register_write(CONTEXT, cells, 3, -1)
    assert standard.bm_register_read(CONTEXT, cells, 3) == 0xFFFFFFFF  # of bit<32>
    standard.bm_register_write_range(CONTEXT, cells, 1, 3, 9)
    assert standard.bm_register_read_all(CONTEXT, cells) == [0, 9, 9, 0xFFFFFFFF, 0, 0, 0, 0]
    for start, end in ((0, 9), (3, 2), (-1, 2)):
        code = code_of(standard.bm_register_write_range, cells, start, end, 1)
        assert code == REGISTER_ERRORS["INVALID_INDEX"]
    standard.bm_register_reset(CONTEXT, cells)
    assert standard.bm_register_read_all(CONTEXT, cells) == [0] * 8
    with serving_thrift(CONTROL) as wide, wide.connected() as of_96_bits:
        wide.runtime.register_write("ControlIngress.cells", 0, f"{(5 << 64) | (1 << 63):#x}")
        assert of_96_bits["standard"].bm_register_read(CONTEXT, "ControlIngress.cells", 0) == -(1 << 63)


def test_counters_meters_and_value_sets_are_read_and_written(clients: dict[str, Any]) -> None:
    standard = clients["standard"]
    standard.bm_counter_write(
        CONTEXT, "Entities.counts", 1, types.CounterBytesAndPackets(bytes=800, packets=7)
    )
    count = standard.bm_counter_read(CONTEXT, "Entities.counts", 1)
    assert (count.bytes, count.packets) == (800, 7)
    standard.bm_counter_reset_all(CONTEXT, "Entities.counts")
    assert standard.bm_counter_read(CONTEXT, "Entities.counts", 1).packets == 0
    rates = [types.MeterRate(units_per_micros=rate, burst_size=burst) for rate, burst in ((0.5, 3), (1.5, 4))]
    standard.bm_meter_set_rates(CONTEXT, "Entities.rates", 2, rates)
    assert standard.bm_meter_get_rates(CONTEXT, "Entities.rates", 2) == rates
    assert standard.bm_meter_get_rates(CONTEXT, "Entities.rates", 1) == []
    for value in (b"\x88\xcc", b"\x01"):
        standard.bm_parse_vset_add(CONTEXT, "EntitiesParser.odd_types", value)
    standard.bm_parse_vset_remove(CONTEXT, "EntitiesParser.odd_types", b"\x88\xcc")
    assert standard.bm_parse_vset_get(CONTEXT, "EntitiesParser.odd_types") == [b"\x00\x01"]


def test_multicast_nodes_have_the_ports_of_a_bit_map(clients: dict[str, Any]) -> None:
    pre = clients["simple_pre_lag"]
    group = pre.bm_mc_mgrp_create(CONTEXT, 5)
    node = pre.bm_mc_node_create(CONTEXT, 7, "1010", "1")
    pre.bm_mc_node_associate(CONTEXT, group, node)
    pre.bm_mc_set_lag_membership(CONTEXT, 0, "10000")
    assert json.loads(pre.bm_mc_get_entries(CONTEXT)) == {
        "mgrps": [{"id": 5, "l1_handles": [0]}],
        "l1_handles": [{"handle": 0, "rid": 7, "l2_handle": 0}],
        "l2_handles": [{"handle": 0, "ports": [1, 3], "lags": [0]}],
        "lags": [{"id": 0, "ports": [4]}],
    }
    assert code_of(pre.bm_mc_node_destroy, 9) == 4  # INVALID_L1_HANDLE


def test_mirroring_sessions_and_queues_are_set(switch: ThriftSwitch, clients: dict[str, Any]) -> None:
    simple = clients["simple_switch"]
    simple.mirroring_session_add(5, types.MirroringSession(port=3))
    assert simple.mirroring_session_get(5) == types.MirroringSession(port=3)
    assert (simple.mirroring_mapping_get_egress_port(5), simple.mirroring_mapping_delete(5)) == (3, 1)
    assert (simple.mirroring_mapping_get_egress_port(5), simple.mirroring_mapping_delete(5)) == (-1, 0)
    with pytest.raises(types.Refused):
        simple.mirroring_session_get(5)
    switch.ports.calls.clear()
    simple.set_egress_priority_queue_rate(1, 2, 100)
    simple.set_all_egress_queue_depths(8)
    assert switch.ports.calls == [(1, 2, 100, None), (None, None, None, 8)]
    assert text_of(simple.set_egress_queue_rate, 99, 1) == "Error: there is no port 99"


def test_names_and_keys_follow_a_swap_of_programs() -> None:
    with serving_thrift(CONTROL) as switch, switch.connected() as clients:
        standard = clients["standard"]
        assert standard.bm_mt_get_entries(CONTEXT, "ControlIngress.forward") == []
        standard.bm_load_new_config(ENTITIES.with_suffix(".json").read_text())
        standard.bm_swap_configs()
        assert standard.bm_mt_get_entries(CONTEXT, "Entities.seen") == []
        assert code_of(standard.bm_mt_get_entries, "ControlIngress.forward") == 7  # INVALID_TABLE_NAME


def test_the_program_is_read_and_swapped(switch: ThriftSwitch, clients: dict[str, Any]) -> None:
    standard, config = clients["standard"], ENTITIES.with_suffix(".json").read_bytes()
    assert standard.bm_get_config() == config.decode()
    assert standard.bm_get_config_md5() == hashlib.md5(config).digest()
    assert standard.bm_serialize_state() == switch.runtime.state()
    names = {table["name"]: table["id"] for table in json.loads(config)["pipelines"][0]["tables"]}
    assert standard.bm_get_id_from_name(CONTEXT, 0, "Entities.seen") == names["Entities.seen"]
    assert code_of(standard.bm_get_id_from_name, 9, "Entities.seen") == 0  # INVALID_RESOURCE_TYPE
    assert code_of(standard.bm_get_id_from_name, 1, "Entities.seen") == 1  # INVALID_RESOURCE_NAME
    with serving_thrift(ENTITIES) as other, other.connected() as swapped:
        swapped["standard"].bm_load_new_config(CONTROL.with_suffix(".json").read_text())
        swapped["standard"].bm_swap_configs()
        assert swapped["standard"].bm_mt_get_num_entries(CONTEXT, "ControlIngress.forward") == 0
        with pytest.raises(types.Refused):
            swapped["standard"].bm_swap_configs()


def test_ports_and_the_switch_are_described(switch: ThriftSwitch, clients: dict[str, Any]) -> None:
    ports = clients["standard"].bm_dev_mgr_show_ports()
    assert [(port.port_num, port.iface_name, port.is_up) for port in ports] == [
        (1, "s1-eth1", True),
        (2, "s1-eth2", False),
    ]
    info = clients["standard"].bm_mgmt_get_info()
    assert (info.device_id, info.thrift_port, info.notifications_socket) == (DEVICE, switch.port, None)
    assert clients["simple_switch"].get_time_since_epoch_us() > 1_700_000_000_000_000


def test_refused_calls_have_bmv2s_codes_or_a_text(clients: dict[str, Any]) -> None:
    standard, key = clients["standard"], [ternary(b"\x01", b"\x01")]
    add = standard.bm_mt_add_entry
    assert code_of(standard.bm_mt_get_entries, "nowhere") == TABLE_ERRORS["INVALID_TABLE_NAME"]
    assert (
        code_of(add, "Entities.metered", key, "nothing", [], options(1))
        == TABLE_ERRORS["INVALID_ACTION_NAME"]
    )
    assert code_of(add, "Entities.seen", key, "NoAction", [], options()) == TABLE_ERRORS["BAD_MATCH_KEY"]
    empty = [types.MatchParam(type=2)]
    assert (
        code_of(add, "Entities.metered", empty, "NoAction", [], options(1)) == TABLE_ERRORS["BAD_MATCH_KEY"]
    )
    assert code_of(standard.bm_register_read, "Entities.cells", 8) == REGISTER_ERRORS["INVALID_INDEX"]
    assert text_of(standard.bm_mt_get_num_entries, 1, "Entities.seen") == "expected context 0, got 1"
    assert "no Toeplitz hash" in text_of(standard.bm_set_toeplitz_hash_key, CONTEXT, "hash", b"")
    assert standard.bm_mt_get_num_entries(CONTEXT, "Entities.seen") == 0


def exchange(port: int, message: bytes) -> bytes:
    """Send a message; return its answer, which is written at once."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
        connection.sendall(message)
        return connection.recv(1 << 16)


def call(name: bytes, arguments: bytes, kind: int = 1, number: int = 7) -> bytes:
    return struct.pack(f">HHi{len(name)}si", 0x8001, kind, len(name), name, number) + arguments


def test_a_call_and_its_reply_have_the_bytes_of_apache_thrift(switch: ThriftSwitch) -> None:
    """As Apache Thrift's Python library wrote the call, and read the reply, of BMv2's own declarations."""
    table = b"Entities.seen"
    arguments = struct.pack(f">bhibhi{len(table)}sb", 8, 1, 0, 11, 2, len(table), table, 0)
    reply = struct.pack(">HHi21sibhqb", 0x8001, 2, 21, b"bm_mt_get_num_entries", 7, 10, 0, 0, 0)
    assert exchange(switch.port, call(b"standard:bm_mt_get_num_entries", arguments)) == reply
    table = b"nowhere"
    arguments = struct.pack(f">bhibhi{len(table)}sb", 8, 1, 0, 11, 2, len(table), table, 0)
    reply = struct.pack(">HHi21sibhbhibb", 0x8001, 2, 21, b"bm_mt_get_num_entries", 7, 12, 1, 8, 1, 7, 0, 0)
    assert exchange(switch.port, call(b"standard:bm_mt_get_num_entries", arguments)) == reply


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(call(b"standard:no", b"\0"), b"expected SERVICE:METHOD", id="an unknown method"),
        pytest.param(call(b"nowhere:no", b"\0"), b"expected SERVICE:METHOD", id="an unknown service"),
        pytest.param(call(b"bm_get_config", b"\0"), b"expected SERVICE:METHOD", id="no service"),
        pytest.param(
            call(b"standard:bm_swap_configs", b"\0", kind=2),
            b"expected a call",
            id="a reply instead of a call",
        ),
        pytest.param(
            call(b"standard:bm_mt_get_num_entries", b"\0"), b"expected field 1, cxt_id", id="no arguments"
        ),
        pytest.param(
            call(b"standard:bm_load_new_config", b"\x0b\0\1\0\0\0\1\xff\0"), b"UTF-8", id="not a text"
        ),
        pytest.param(
            call(b"standard:bm_load_new_config", b"\x0b\0\1\x7f\xff\xff\xff"), b"at most", id="too long"
        ),
        pytest.param(
            call(b"standard:bm_load_new_config", b"\x0b\0\1\xff\xff\xff\xff"),
            b"at most",
            id="a negative length",
        ),
        pytest.param(call(b"standard:bm_reset_state", b"\x11\0\1\0"), b"got type 17", id="an unknown type"),
        pytest.param(
            call(b"standard:bm_reset_state", b"\x0c\0\1" * 40), b"levels of values", id="too many levels"
        ),
    ],
)
def test_a_malformed_message_gets_an_exception_with_a_reason(
    switch: ThriftSwitch, message: bytes, expected: bytes
) -> None:
    answer = exchange(switch.port, message)
    assert answer[:4] == b"\x80\x01\0\3"
    assert expected in answer


@pytest.mark.parametrize("length", [1, 3, 7, 20, 60])
def test_a_connection_that_ends_within_a_message_ends_without_an_answer(
    switch: ThriftSwitch, length: int
) -> None:
    message = call(b"standard:bm_mt_get_num_entries", b"\x08\0\1\0\0\0\0\x0b\0\2\0\0\0\4seen\0")
    with socket.create_connection(("127.0.0.1", switch.port), PATIENCE_S) as connection:
        connection.sendall(message[:length])
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


def test_fields_that_are_not_declared_are_skipped(switch: ThriftSwitch) -> None:
    extra = (
        b"\x0b\0\x09\0\0\0\2ab" + b"\x0f\0\x0a\x08\0\0\0\1\0\0\0\1" + b"\x0d\0\x0b\x08\x02\0\0\0\1\0\0\0\1\1"
    )
    answer = exchange(switch.port, call(b"standard:bm_mgmt_get_info", extra + b"\0"))
    assert answer[:4] == b"\x80\x01\0\2"
