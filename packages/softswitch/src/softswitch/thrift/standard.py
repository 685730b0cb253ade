"""BMv2's service `standard`: arrays, value sets, programs, digests, ports and hashes, besides tables."""

from __future__ import annotations

import hashlib
from typing import Any

from softswitch.commands.values import octets
from softswitch.errors import SwitchError
from softswitch.load.json_text import parse_json
from softswitch.runtime.cells import REGISTER, VALUE_SET
from softswitch.runtime.interface import Runtime, RuntimeCrc
from softswitch.runtime.refusals import RuntimeRefusal
from softswitch.thrift.codec import I32, I64
from softswitch.thrift.conversion import CurrentNames, to_count, to_rates
from softswitch.thrift.learning import LearnLists, LearnNotifications
from softswitch.thrift.standard_tables import StandardTables
from softswitch.thrift.structs import (
    COUNTER_ERRORS,
    CRC_ERRORS,
    DEVICE_ERRORS,
    ID_ERRORS,
    LEARN_ERRORS,
    METER_ERRORS,
    REGISTER_ERRORS,
    SWAP_ERRORS,
    TOEPLITZ_ERRORS,
    VALUE_SET_ERRORS,
    CounterBytesAndPackets,
    Crc16Parameters,
    Crc32Parameters,
    MeterRate,
    PortInfo,
    SwitchConfig,
    raises,
)

_IN_PIPELINES = ("tables", "action_profiles")
_RESOURCES = (*_IN_PIPELINES, "counter_arrays", "meter_arrays", "register_arrays", "learn_lists")
"""Sections of BMv2 JSON with the resources of each type that has an ID, and those that are in pipelines."""


class StandardService(StandardTables):
    def __init__(
        self,
        runtime: Runtime,
        names: CurrentNames,
        port: int,
        notifications: LearnNotifications | None,
    ) -> None:
        super().__init__(runtime, names)
        self._port = port
        self._notifications = notifications

    # -- counters

    @raises(COUNTER_ERRORS)
    def bm_counter_read(self, cxt_id: I32, counter_name: str, index: I32) -> CounterBytesAndPackets:
        return to_count(self._runtime.counter_read(counter_name, index))

    @raises(COUNTER_ERRORS)
    def bm_counter_reset_all(self, cxt_id: I32, counter_name: str) -> None:
        self._runtime.counter_write(counter_name, None, 0, 0)

    @raises(COUNTER_ERRORS)
    def bm_counter_write(
        self, cxt_id: I32, counter_name: str, index: I32, value: CounterBytesAndPackets
    ) -> None:
        self._runtime.counter_write(counter_name, index, value.packets, value.bytes)

    # -- meters

    @raises(METER_ERRORS)
    def bm_meter_array_set_rates(self, cxt_id: I32, meter_array_name: str, rates: list[MeterRate]) -> None:
        self._runtime.meter_set_rates(meter_array_name, None, [rate.to_runtime() for rate in rates])

    @raises(METER_ERRORS)
    def bm_meter_set_rates(
        self, cxt_id: I32, meter_array_name: str, index: I32, rates: list[MeterRate]
    ) -> None:
        self._runtime.meter_set_rates(meter_array_name, index, [rate.to_runtime() for rate in rates])

    @raises(METER_ERRORS)
    def bm_meter_get_rates(self, cxt_id: I32, meter_array_name: str, index: I32) -> list[MeterRate]:
        return to_rates(self._runtime.meter_rates(meter_array_name, index))

    # -- registers

    @raises(REGISTER_ERRORS)
    def bm_register_read(self, cxt_id: I32, register_array_name: str, idx: I32) -> I64:
        (value,) = self._runtime.register_read(register_array_name, idx)
        return int(value, 16)

    @raises(REGISTER_ERRORS)
    def bm_register_read_all(self, cxt_id: I32, register_array_name: str) -> list[I64]:
        values = self._runtime.register_read(register_array_name, None)
        return [int(value, 16) for value in values]

    @raises(REGISTER_ERRORS)
    def bm_register_write(self, cxt_id: I32, register_array_name: str, index: I32, value: I64) -> None:
        self._runtime.register_write(register_array_name, index, f"{value:#x}")

    @raises(REGISTER_ERRORS)
    def bm_register_write_range(
        self, cxt_id: I32, register_array_name: str, start_index: I32, end_index: I32, value: I64
    ) -> None:
        """Write the cells from `start_index` to the one before `end_index`."""
        size = len(self._runtime.register_read(register_array_name, None))
        if not 0 <= start_index <= end_index <= size:
            text = f"register {register_array_name}: expected a range within 0 to {size}, in ascending order"
            raise RuntimeRefusal(REGISTER, "INVALID_INDEX", f"{text}, got {start_index} to {end_index}")
        for index in range(start_index, end_index):
            self._runtime.register_write(register_array_name, index, f"{value:#x}")

    @raises(REGISTER_ERRORS)
    def bm_register_reset(self, cxt_id: I32, register_array_name: str) -> None:
        self._runtime.register_write(register_array_name, None, "0x0")

    # -- parser value sets; adding a member that is there, or removing one that is not, is no error

    @raises(VALUE_SET_ERRORS)
    def bm_parse_vset_add(self, cxt_id: I32, parse_vset_name: str, value: bytes) -> None:
        members, member = self._runtime.value_set(parse_vset_name), _to_hex(value)
        if member not in members:
            self._runtime.value_set_write(parse_vset_name, [*members, member])

    @raises(VALUE_SET_ERRORS)
    def bm_parse_vset_remove(self, cxt_id: I32, parse_vset_name: str, value: bytes) -> None:
        members, removed = self._runtime.value_set(parse_vset_name), _to_hex(value)
        self._runtime.value_set_write(parse_vset_name, [member for member in members if member != removed])

    @raises(VALUE_SET_ERRORS)
    def bm_parse_vset_get(self, cxt_id: I32, parse_vset_name: str) -> list[bytes]:
        value_set = self._names.get().value_sets.by_name.get(parse_vset_name)
        if value_set is None:
            text = f"the program has no parser value set {parse_vset_name}"
            raise RuntimeRefusal(VALUE_SET, "INVALID_PARSE_VSET_NAME", text)
        members = self._runtime.value_set(parse_vset_name)
        return [octets(int(member, 16), value_set.width) for member in members]

    @raises(VALUE_SET_ERRORS)
    def bm_parse_vset_clear(self, cxt_id: I32, parse_vset_name: str) -> None:
        self._runtime.value_set_write(parse_vset_name, [])

    # -- programs and state

    @raises(SWAP_ERRORS)
    def bm_load_new_config(self, config_str: str) -> None:
        self._runtime.load_config(config_str)

    @raises(SWAP_ERRORS)
    def bm_swap_configs(self) -> None:
        self._runtime.swap_configs()

    def bm_reset_state(self) -> None:
        self._runtime.reset_state()

    def bm_serialize_state(self) -> str:
        return self._runtime.state()

    def bm_get_config(self) -> str:
        return self._runtime.config()

    def bm_get_config_md5(self) -> bytes:
        return hashlib.md5(self._runtime.config().encode(), usedforsecurity=False).digest()

    def bm_mgmt_get_info(self) -> SwitchConfig:
        address = None if self._notifications is None else self._notifications.address
        return SwitchConfig(self._runtime.info()["device_id"], self._port, address)

    @raises(ID_ERRORS)
    def bm_get_id_from_name(self, cxt_id: I32, resource_type: I32, resource_name: str) -> I32:
        if not 0 <= resource_type < len(_RESOURCES):
            text = f"expected a type from 0 to {len(_RESOURCES) - 1}, got {resource_type}"
            raise RuntimeRefusal("ID", "INVALID_RESOURCE_TYPE", text)
        section = _RESOURCES[resource_type]
        program: Any = parse_json(self._runtime.config())  # BMv2 JSON that the switch has loaded
        parts = program["pipelines"] if section in _IN_PIPELINES else [program]
        for item in (item for part in parts for item in part.get(section, [])):
            if item["name"] == resource_name:
                resource_id: int = item["id"]
                return resource_id
        text = f"the program has no {resource_name} in {section}"
        raise RuntimeRefusal("ID", "INVALID_RESOURCE_NAME", text)

    # -- digests

    @raises(LEARN_ERRORS)
    def bm_learning_ack(self, cxt_id: I32, list_id: I32, buffer_id: I64, sample_ids: list[I32]) -> None:
        self._learn_lists().acknowledge(list_id, buffer_id, sample_ids)

    @raises(LEARN_ERRORS)
    def bm_learning_ack_buffer(self, cxt_id: I32, list_id: I32, buffer_id: I64) -> None:
        self._learn_lists().acknowledge(list_id, buffer_id, None)

    @raises(LEARN_ERRORS)
    def bm_learning_set_timeout(self, cxt_id: I32, list_id: I32, timeout_ms: I32) -> None:
        self._learn_lists().set_timeout(list_id, timeout_ms)

    @raises(LEARN_ERRORS)
    def bm_learning_set_buffer_size(self, cxt_id: I32, list_id: I32, nb_samples: I32) -> None:
        self._learn_lists().set_max_samples(list_id, nb_samples)

    def _learn_lists(self) -> LearnLists:
        if self._notifications is None:
            raise SwitchError("digests are not sent over nanomsg: the switch has no --notifications-addr")
        return self._notifications.lists

    # -- ports and hashes

    @raises(DEVICE_ERRORS)
    def bm_dev_mgr_add_port(self, iface_name: str, port_num: I32, pcap_path: str) -> None:
        if pcap_path:
            raise SwitchError(f"port {port_num}: frames of added ports are not captured in {pcap_path}")
        self._runtime.port_add(port_num, iface_name)

    @raises(DEVICE_ERRORS)
    def bm_dev_mgr_remove_port(self, port_num: I32) -> None:
        self._runtime.port_remove(port_num)

    @raises(DEVICE_ERRORS)
    def bm_dev_mgr_show_ports(self) -> list[PortInfo]:
        return [
            PortInfo(port["port"], port["interface"], port["is_up"], {}) for port in self._runtime.ports()
        ]

    @raises(CRC_ERRORS)
    def bm_set_crc16_custom_parameters(
        self, cxt_id: I32, calc_name: str, crc16_config: Crc16Parameters
    ) -> None:
        self._runtime.crc_set(calc_name, 16, _to_crc(crc16_config, 16))

    @raises(CRC_ERRORS)
    def bm_set_crc32_custom_parameters(
        self, cxt_id: I32, calc_name: str, crc32_config: Crc32Parameters
    ) -> None:
        self._runtime.crc_set(calc_name, 32, _to_crc(crc32_config, 32))

    @raises(TOEPLITZ_ERRORS)
    def bm_set_toeplitz_hash_key(self, cxt_id: I32, calc_name: str, key: bytes) -> None:
        raise SwitchError(f"calculation {calc_name}: v1model has no Toeplitz hash")


def _to_crc(parameters: Crc16Parameters | Crc32Parameters, width: int) -> RuntimeCrc:
    mask = (1 << width) - 1
    return RuntimeCrc(
        polynomial=parameters.polynomial & mask,
        initial=parameters.initial_remainder & mask,
        final=parameters.final_xor_value & mask,
        reflect_data=parameters.data_reflected,
        reflect_remainder=parameters.remainder_reflected,
    )


def _to_hex(value: bytes) -> str:
    return f"{int.from_bytes(value, 'big'):#x}"
