"""Runtime files of p4lang/tutorials (`s1-runtime.json`): table entries, groups and sessions as P4Runtime."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any

from softswitch.network.json_files import JsonPart
from softswitch.p4runtime.messages import p4i, p4r

_MAC = re.compile(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")
_MATCH = p4i.MatchField
_NO_BYTES = b"\0"


def read_updates(runtime: JsonPart, p4info: p4i.P4Info) -> Iterator[tuple[JsonPart, p4r.Update]]:
    """Yield the entries of a runtime file with the updates that make them; raises `SwitchError`.

    Updates are INSERTs, or of default actions a MODIFY, as P4Runtime has it.
    """
    names = _Names(p4info)
    for part in _list(runtime, "table_entries"):
        entry = names.table_entry(part)
        kind = p4r.Update.MODIFY if entry.is_default_action else p4r.Update.INSERT
        yield part, p4r.Update(type=kind, entity=p4r.Entity(table_entry=entry))
    for part in _list(runtime, "multicast_group_entries"):
        group = p4r.MulticastGroupEntry(
            multicast_group_id=part["multicast_group_id"].integer(), replicas=_replicas(part)
        )
        yield part, _replication(p4r.PacketReplicationEngineEntry(multicast_group_entry=group))
    for part in _list(runtime, "clone_session_entries"):
        length = part.get("packet_length_bytes")
        session = p4r.CloneSessionEntry(
            session_id=part["clone_session_id"].integer(),
            replicas=_replicas(part),
            packet_length_bytes=0 if length is None else length.integer(),
        )
        yield part, _replication(p4r.PacketReplicationEngineEntry(clone_session_entry=session))


def _replication(entry: p4r.PacketReplicationEngineEntry) -> p4r.Update:
    return p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(packet_replication_engine_entry=entry))


def _list(runtime: JsonPart, name: str) -> list[JsonPart]:
    part = runtime.get(name)
    return [] if part is None else part.items()


def _replicas(entry: JsonPart) -> list[p4r.Replica]:
    return [
        p4r.Replica(egress_port=replica["egress_port"].integer(), instance=replica["instance"].integer())
        for replica in entry["replicas"].items()
    ]


class _Names:
    """The IDs of a program's objects by their names or aliases."""

    def __init__(self, p4info: p4i.P4Info) -> None:
        self._tables = _by_name(p4info.tables)
        self._actions = _by_name(p4info.actions)

    def table_entry(self, entry: JsonPart) -> p4r.TableEntry:
        table = _find(self._tables, entry["table"], "a table of the program")
        message = p4r.TableEntry(table_id=table.preamble.id)
        fields = {field.name: field for field in table.match_fields}
        match = entry.get("match")
        for name, value in match.members() if match is not None and match.value is not None else ():
            if name not in fields:
                raise value.error(f"a match field of {table.preamble.name}, {', '.join(fields)}")
            _set_match(message.match.add(field_id=fields[name].id), fields[name], value)
        is_default = entry.get("default_action")
        message.is_default_action = is_default is not None and bool(is_default.value)
        if (priority := entry.get("priority")) is not None:
            message.priority = priority.integer()
        message.action.action.CopyFrom(self._action(entry))
        return message

    def _action(self, entry: JsonPart) -> p4r.Action:
        action = _find(self._actions, entry["action_name"], "an action of the program")
        message = p4r.Action(action_id=action.preamble.id)
        parameters = {parameter.name: parameter.id for parameter in action.params}
        given = entry.get("action_params")
        for name, value in given.members() if given is not None else ():
            if name not in parameters:
                expected = ", ".join(parameters) or "which has none"
                raise value.error(f"a parameter of {action.preamble.name}, {expected}")
            message.params.add(param_id=parameters[name], value=encode(value))
        return message


def _by_name(objects: Sequence[Any]) -> dict[str, Any]:  # tables or actions of P4Info
    aliases = {each.preamble.alias: each for each in objects}
    return {**aliases, **{each.preamble.name: each for each in objects}}


def _find(objects: dict[str, Any], name: JsonPart, expected: str) -> Any:  # as above
    if name.text() not in objects:
        raise name.error(expected)
    return objects[name.text()]


def _set_match(message: p4r.FieldMatch, field: p4i.MatchField, value: JsonPart) -> None:
    writers: dict[int, Callable[[], None]] = {
        _MATCH.EXACT: lambda: message.exact.MergeFrom(p4r.FieldMatch.Exact(value=encode(_single(value)))),
        _MATCH.OPTIONAL: lambda: message.optional.MergeFrom(
            p4r.FieldMatch.Optional(value=encode(_single(value)))
        ),
        _MATCH.LPM: lambda: _set_lpm(message, *_pair(value, "[value, prefix length]")),
        _MATCH.TERNARY: lambda: _set_ternary(message, *_pair(value, "[value, mask]")),
        _MATCH.RANGE: lambda: _set_range(message, *_pair(value, "[lowest, highest]")),
    }
    if field.match_type not in writers:
        raise value.error(f"no value for {field.name}: its kind of match has no form in runtime files")
    writers[field.match_type]()


def _set_lpm(message: p4r.FieldMatch, value: JsonPart, length: JsonPart) -> None:
    message.lpm.value, message.lpm.prefix_len = encode(value), length.integer()


def _set_ternary(message: p4r.FieldMatch, value: JsonPart, mask: JsonPart) -> None:
    message.ternary.value, message.ternary.mask = encode(value), encode(mask)


def _set_range(message: p4r.FieldMatch, lowest: JsonPart, highest: JsonPart) -> None:
    message.range.low, message.range.high = encode(lowest), encode(highest)


def _single(value: JsonPart) -> JsonPart:
    """Return a value that may stand in a list of one."""
    if not isinstance(value.value, list):
        return value
    items = value.items()
    if len(items) != 1:
        raise value.error("one value")
    return items[0]


def _pair(value: JsonPart, expected: str) -> tuple[JsonPart, JsonPart]:
    items = value.items() if isinstance(value.value, list) else []
    if len(items) != 2:  # a pair
        raise value.error(expected)
    return items[0], items[1]


def encode(value: JsonPart) -> bytes:
    """Return a number, MAC address, IPv4 or IPv6 address as the shortest bytes (P4Runtime 1.4 §8.4)."""
    if isinstance(value.value, str) and (address := _parse_address(value.value)) is not None:
        return address.lstrip(_NO_BYTES) or _NO_BYTES
    number = value.integer()
    if number < 0:
        raise value.error("a number of 0 or more, or an address")
    return number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big")


def _parse_address(text: str) -> bytes | None:
    if _MAC.fullmatch(text):
        return bytes.fromhex(text.replace(":", ""))
    for kind in (IPv4Address, IPv6Address):
        try:
            return kind(text).packed
        except AddressValueError:
            continue
    return None
