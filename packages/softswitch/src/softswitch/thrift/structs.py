"""The structs and error codes of BMv2's services (thrift_src/*.thrift, simple_switch.thrift)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeVar

from softswitch.runtime.interface import RuntimeRate
from softswitch.thrift.codec import I16, I32, I64, U32

F = TypeVar("F", bound=Callable[..., object])


class MatchParamType(IntEnum):
    EXACT, LPM, TERNARY, VALID, RANGE = range(5)


class ExactParam(NamedTuple):
    key: bytes


class LpmParam(NamedTuple):
    key: bytes
    prefix_length: I32


class TernaryParam(NamedTuple):
    key: bytes
    mask: bytes


class ValidParam(NamedTuple):
    key: bool


class RangeParam(NamedTuple):
    start: bytes
    end_: bytes


class MatchParam(NamedTuple):
    """A part of a match key: the field that `type`, a `MatchParamType`, names is there."""

    type: I32
    exact: ExactParam | None = None
    lpm: LpmParam | None = None
    ternary: TernaryParam | None = None
    valid: ValidParam | None = None
    range: RangeParam | None = None


class AddEntryOptions(NamedTuple):
    priority: I32 | None = None


class CounterBytesAndPackets(NamedTuple):
    bytes: I64
    packets: I64


class MeterRate(NamedTuple):
    units_per_micros: float
    burst_size: I32

    def to_runtime(self) -> RuntimeRate:
        return RuntimeRate(rate=self.units_per_micros, burst=self.burst_size)


class ActionEntryType(IntEnum):
    NONE, ACTION_DATA, MBR_HANDLE, GRP_HANDLE = range(4)


class ActionEntry(NamedTuple):
    action_type: I32  # an `ActionEntryType`
    action_name: str | None = None
    action_data: list[bytes] | None = None
    mbr_handle: I32 | None = None
    grp_handle: I32 | None = None


class EntryLife(NamedTuple):
    timeout_ms: I32
    time_since_hit_ms: I32


class TableEntry(NamedTuple):
    match_key: list[MatchParam]
    options: AddEntryOptions
    entry_handle: U32
    action_entry: ActionEntry
    life: EntryLife | None = None


class ProfileMember(NamedTuple):
    mbr_handle: I32
    action_name: str
    action_data: list[bytes]


class ProfileGroup(NamedTuple):
    grp_handle: I32
    mbr_handles: list[I32]


class PortInfo(NamedTuple):
    port_num: I32
    iface_name: str
    is_up: bool
    extra: dict[str, str]


class Crc16Parameters(NamedTuple):
    polynomial: I16
    initial_remainder: I16
    final_xor_value: I16
    data_reflected: bool
    remainder_reflected: bool


class Crc32Parameters(NamedTuple):
    polynomial: I32
    initial_remainder: I32
    final_xor_value: I32
    data_reflected: bool
    remainder_reflected: bool


class SwitchConfig(NamedTuple):
    device_id: I64
    thrift_port: I32
    notifications_socket: str | None = None
    elogger_socket: str | None = None
    debugger_socket: str | None = None


class MirroringSession(NamedTuple):
    port: I32 | None = None
    mgid: I32 | None = None


def _number(*names: str, first: int = 1, **others: int) -> dict[str, int]:
    return {name: code for code, name in enumerate(names, start=first)} | others


TABLE_ERRORS = _number(
    "TABLE_FULL",
    "INVALID_HANDLE",
    "EXPIRED_HANDLE",
    "COUNTERS_DISABLED",
    "METERS_DISABLED",
    "AGEING_DISABLED",
    "INVALID_TABLE_NAME",
    "INVALID_ACTION_NAME",
    "WRONG_TABLE_TYPE",
    "INVALID_MBR_HANDLE",
    "MBR_STILL_USED",
    "MBR_ALREADY_IN_GRP",
    "MBR_NOT_IN_GRP",
    "INVALID_GRP_HANDLE",
    "GRP_STILL_USED",
    "EMPTY_GRP",
    "DUPLICATE_ENTRY",
    "BAD_MATCH_KEY",
    "INVALID_METER_OPERATION",
    "DEFAULT_ACTION_IS_CONST",
    "DEFAULT_ENTRY_IS_CONST",
    "NO_DEFAULT_ENTRY",
    "INVALID_ACTION_PROFILE_NAME",
    "NO_ACTION_PROFILE_SELECTION",
    "IMMUTABLE_TABLE_ENTRIES",
    "BAD_ACTION_DATA",
    "NO_TABLE_KEY",
    ERROR=100,
)
COUNTER_ERRORS = _number("INVALID_COUNTER_NAME", "INVALID_INDEX", "ERROR")
METER_ERRORS = _number(
    "INVALID_METER_NAME",
    "INVALID_INDEX",
    "BAD_RATES_LIST",
    "INVALID_INFO_RATE_VALUE",
    "INVALID_BURST_SIZE_VALUE",
    "ERROR",
)
REGISTER_ERRORS = _number("INVALID_REGISTER_NAME", "INVALID_INDEX", "ERROR")
VALUE_SET_ERRORS = _number("INVALID_PARSE_VSET_NAME", "ERROR")
LEARN_ERRORS = _number("INVALID_LIST_ID", "INVALID_LIST_NAME", "ERROR")
SWAP_ERRORS = _number("CONFIG_SWAP_DISABLED", "ONGOING_SWAP", "NO_ONGOING_SWAP")
DEVICE_ERRORS = _number("ERROR")
CRC_ERRORS = _number("INVALID_CALCULATION_NAME", "WRONG_TYPE_CALCULATION", "INVALID_CONFIG")
TOEPLITZ_ERRORS = _number("INVALID_CALCULATION_NAME", "WRONG_TYPE_CALCULATION", "INVALID_KEY")
ID_ERRORS = _number("INVALID_RESOURCE_TYPE", "INVALID_RESOURCE_NAME", first=0)
MULTICAST_ERRORS = _number("TABLE_FULL", "INVALID_MGID", "INVALID_MGRP_HANDLE", "INVALID_L1_HANDLE", "ERROR")
MIRRORING_ERRORS = _number("SESSION_NOT_FOUND")


def raises(codes: Mapping[str, int]) -> Callable[[F], F]:
    """Declare that a method raises an exception whose only field is one of these codes, by BMv2's names."""

    def declare(method: F) -> F:
        method.__dict__["error_codes"] = codes
        return method

    return declare
