"""Conversion between the structs of BMv2's services and the data of the runtime service."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.commands.names import NamedField, NamedTable, ProgramNames
from softswitch.commands.values import octets
from softswitch.runtime.interface import (
    IdleTimes,
    Member,
    Runtime,
    RuntimeCount,
    RuntimeEntry,
    RuntimeRate,
    TableAction,
)
from softswitch.runtime.keys import SEPARATORS
from softswitch.runtime.refusals import TABLE, RuntimeRefusal
from softswitch.thrift.structs import (
    ActionEntry,
    ActionEntryType,
    AddEntryOptions,
    CounterBytesAndPackets,
    EntryLife,
    ExactParam,
    LpmParam,
    MatchParam,
    MatchParamType,
    MeterRate,
    ProfileMember,
    RangeParam,
    TableEntry,
    TernaryParam,
    ValidParam,
)


class CurrentNames:
    """The names of the switch's program, read again if it runs another."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._config = ""
        self._names: ProgramNames | None = None

    def get(self) -> ProgramNames:
        config = self._runtime.config()
        if self._names is None or config != self._config:
            self._config, self._names = config, ProgramNames(config)
        return self._names

    def table(self, name: str) -> NamedTable:
        table = self.get().tables.by_name.get(name)
        if table is None:
            raise RuntimeRefusal(TABLE, "INVALID_TABLE_NAME", f"the program has no table {name}")
        return table


def from_match_key(match_key: Sequence[MatchParam]) -> list[str]:
    return [_from_match_param(position, param) for position, param in enumerate(match_key, start=1)]


def _from_match_param(position: int, param: MatchParam) -> str:
    match param:
        case MatchParam(MatchParamType.EXACT, exact=ExactParam(key)):
            return _hex(key)
        case MatchParam(MatchParamType.LPM, lpm=LpmParam(key, prefix_length)):
            return f"{_hex(key)}/{prefix_length}"
        case MatchParam(MatchParamType.TERNARY, ternary=TernaryParam(key, mask)):
            return f"{_hex(key)}&&&{_hex(mask)}"
        case MatchParam(MatchParamType.VALID, valid=ValidParam(is_valid)):
            return f"{int(is_valid):#x}"
        case MatchParam(MatchParamType.RANGE, range=RangeParam(start, end)):
            return f"{_hex(start)}->{_hex(end)}"
    text = f"match field {position}: expected the parameter of match type {param.type}, got none"
    raise RuntimeRefusal(TABLE, "BAD_MATCH_KEY", text)


def to_match_param(field: NamedField, match: str) -> MatchParam:
    separator = SEPARATORS.get(field.kind)
    if separator is None:
        value = int(match, 16)
        if field.kind == "valid":
            return MatchParam(MatchParamType.VALID, valid=ValidParam(bool(value)))
        return MatchParam(MatchParamType.EXACT, exact=ExactParam(octets(value, field.width)))
    first, _, second = match.partition(separator)
    key = octets(int(first, 16), field.width)
    if field.kind == "lpm":
        return MatchParam(MatchParamType.LPM, lpm=LpmParam(key, int(second)))
    other = octets(int(second, 16), field.width)
    if field.kind == "range":
        return MatchParam(MatchParamType.RANGE, range=RangeParam(key, other))
    return MatchParam(MatchParamType.TERNARY, ternary=TernaryParam(key, other))


def from_action_data(data: Sequence[bytes]) -> list[str]:
    return [_hex(value) for value in data]


def to_action_data(data: Sequence[str]) -> list[bytes]:
    """Return the values in as few bytes as they need, one or more, as BMv2 does."""
    values = (int(text, 16) for text in data)
    return [value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big") for value in values]


def to_action_entry(table_action: TableAction | None) -> ActionEntry:
    if table_action is None:
        return ActionEntry(ActionEntryType.NONE)
    if "member" in table_action:
        return ActionEntry(ActionEntryType.MBR_HANDLE, mbr_handle=table_action["member"])
    if "group" in table_action:
        return ActionEntry(ActionEntryType.GRP_HANDLE, grp_handle=table_action["group"])
    data = to_action_data(table_action.get("data", []))
    return ActionEntry(ActionEntryType.ACTION_DATA, action_name=table_action["action"], action_data=data)


def to_table_entry(table: NamedTable, entry: RuntimeEntry) -> TableEntry:
    return TableEntry(
        match_key=[
            to_match_param(field, match) for field, match in zip(table.key, entry["match"], strict=True)
        ],
        options=AddEntryOptions(entry["priority"]),
        entry_handle=entry["handle"],
        action_entry=to_action_entry(entry["doing"]),
        life=_to_life(entry["life"]),
    )


def _to_life(times: IdleTimes | None) -> EntryLife | None:
    return None if times is None else EntryLife(times["timeout"], times["idle"])


def to_member(member: Member) -> ProfileMember:
    return ProfileMember(member["handle"], member["action"], to_action_data(member["data"]))


def to_count(count: RuntimeCount) -> CounterBytesAndPackets:
    return CounterBytesAndPackets(count["bytes"], count["packets"])


def to_rates(rates: Sequence[RuntimeRate]) -> list[MeterRate]:
    return [MeterRate(rate["rate"], rate["burst"]) for rate in rates]


def parse_bit_map(text: str) -> list[int]:
    """Return the positions of the 1s in a string of 0s and 1s, counted from its end."""
    return [position for position, bit in enumerate(reversed(text)) if bit == "1"]


def _hex(value: bytes) -> str:
    return f"{int.from_bytes(value, 'big'):#x}"
