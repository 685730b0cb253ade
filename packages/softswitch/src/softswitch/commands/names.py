"""Names in a program's BMv2 JSON, in full and by unique suffix (BMv2: runtime_CLI.py), and command errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from softswitch.errors import SwitchError
from softswitch.ir.names import find_by_end
from softswitch.load.document import malformed_refused, read_document
from softswitch.load.legacy import ACTION_CALL, DECLARED_MATCH_TYPE
from softswitch.load.scope import VALIDITY_FIELD

T = TypeVar("T")
Json: TypeAlias = Mapping[str, Any]  # the type of a value depends on its key
_KINDS_WITH_PRIORITY = ("ternary", "range")
_CUSTOM_CRCS = {"crc16_custom": 16, "crc32_custom": 32}


class CommandError(SwitchError):
    """An error in a command; `word` is the wrong word of its line."""

    def __init__(self, text: str, word: str = "") -> None:
        super().__init__(text)
        self.word = word


def wrong_name(kind: str, name: str) -> CommandError:
    return CommandError(f"Error: Invalid {kind} name ({name})", name)


class NamedField(NamedTuple):
    """A match field; `kind` is BMv2's: exact, lpm, ternary, range or valid."""

    name: str
    kind: str
    width: int


class NamedParameter(NamedTuple):
    name: str
    width: int  # in bits


class NamedAction(NamedTuple):
    name: str
    parameters: tuple[NamedParameter, ...]

    def describe(self) -> str:
        data = ",\t".join(f"{name}({width})" for name, width in self.parameters)
        return f"{self.name:30} [{data}]"


@dataclass
class NamedProfile:
    name: str
    has_selector: bool
    actions: dict[str, NamedAction] = field(default_factory=dict)
    table_count: int = 0  # tables that use it


class NamedTable(NamedTuple):
    name: str
    kind: str  # BMv2's `match_type`
    key: tuple[NamedField, ...]
    actions: dict[str, NamedAction]
    profile: NamedProfile | None
    has_timeout: bool

    @property
    def has_priority(self) -> bool:
        return self.kind in _KINDS_WITH_PRIORITY

    def describe(self) -> str:
        key = ",\t".join(f"{name}({kind}, {width})" for name, kind, width in self.key)
        return f"{self.name:30} [implementation={self.profile and self.profile.name}, mk={key}]"


class Array(NamedTuple):
    name: str
    binding: str | None = None  # the table of a direct counter or meter


class NamedValueSet(NamedTuple):
    name: str
    width: int  # sum of its fields' widths in bits


class NameIndex(Generic[T]):
    """Objects of one kind by name, or by a unique suffix of the name's parts."""

    def __init__(self, kind: str, objects: Mapping[str, T]) -> None:
        self._kind = kind
        self.by_name = dict(objects)

    def find(self, name: str) -> T | None:
        return find_by_end(name, self.by_name)

    def __getitem__(self, name: str) -> T:
        item = self.find(name)
        if item is None:
            raise wrong_name(self._kind, name)
        return item


class ProgramNames:
    """All names of a program; raises ProgramError if the text is not BMv2 JSON."""

    def __init__(self, text: str) -> None:
        document = read_document(text)
        with malformed_refused():
            self._load(document)

    def _load(self, program: Json) -> None:
        actions = {item["id"]: _load_action(item) for item in program["actions"]}
        profiles = {
            item["name"]: NamedProfile(item["name"], has_selector="selector" in item)
            for pipeline in program["pipelines"]
            for item in pipeline["action_profiles"]
        }
        # A field is a list: name, width in bits, whether it is signed.
        types = {
            declared["name"]: {f[0]: f[1] for f in declared["fields"]} for declared in program["header_types"]
        }
        headers = {declared["name"]: dict(types[declared["header_type"]]) for declared in program["headers"]}
        for alias, (header, field_name) in program["field_aliases"]:
            alias_header, _, alias_field = alias.partition(".")
            headers.setdefault(alias_header, {})[alias_field] = headers[header][field_name]
        tables = {
            item["name"]: _load_table(item, actions, profiles, headers)
            for pipeline in program["pipelines"]
            for item in pipeline["tables"]
            if not item.get(ACTION_CALL)
        }
        # For direct calls p4c prints copies of actions without data, and tables without a key that run them.
        by_name = {action.name: action for action in actions.values()}
        for table in sorted(tables.values(), key=lambda table: bool(table.key)):
            by_name.update(table.actions)
        self.actions = NameIndex("action", by_name)
        self.profiles = NameIndex("action profile", profiles)
        self.tables = NameIndex("table", tables)
        self.counters = NameIndex("counter", _load_arrays(program["counter_arrays"]))
        self.meters = NameIndex("meter", _load_arrays(program["meter_arrays"]))
        self.registers = NameIndex("register", _load_arrays(program["register_arrays"]))
        self.value_sets = NameIndex(
            "parser value set",
            {
                item["name"]: NamedValueSet(item["name"], item["compressed_bitwidth"])
                for item in program["parse_vsets"]
            },
        )
        self.crcs = {
            item["name"]: _CUSTOM_CRCS[item["algo"]]
            for item in program["calculations"]
            if item["algo"] in _CUSTOM_CRCS
        }

    def action_of(self, candidates: Mapping[str, NamedAction], name: str, owner: str) -> NamedAction:
        known = self.actions.find(name)
        action = candidates.get(known.name) if known else None
        if action is None:
            action = NameIndex("action", candidates).find(name)
        if action is None:
            raise CommandError(f"Error: {owner} has no action {name}", name)
        return action


def _load_action(item: Json) -> NamedAction:
    return NamedAction(
        item["name"], tuple(NamedParameter(p["name"], p["bitwidth"]) for p in item["runtime_data"])
    )


def _load_table(
    item: Json,
    actions: Mapping[int, NamedAction],
    profiles: Mapping[str, NamedProfile],
    headers: Mapping[str, Json],
) -> NamedTable:
    profile = profiles[item["action_profile"]] if item["type"] != "simple" else None
    table_actions = {actions[number].name: actions[number] for number in item["action_ids"]}
    if profile is not None:
        profile.actions.update(table_actions)
        profile.table_count += 1
    return NamedTable(
        name=item["name"],
        kind=item["match_type"],
        key=tuple(_load_field(part, headers) for part in item["key"]),
        actions=table_actions,
        profile=profile,
        has_timeout=bool(item.get("support_timeout")),
    )


def _load_field(part: Json, headers: Mapping[str, Json]) -> NamedField:
    target, kind = part["target"], part.get(DECLARED_MATCH_TYPE, part["match_type"])
    if target[1] == VALIDITY_FIELD:
        return NamedField(f"{target[0]}_valid", kind, width=1)
    return NamedField(".".join(target), kind, headers[target[0]][target[1]])


def _load_arrays(items: Iterable[Json]) -> dict[str, Array]:
    return {
        item["name"]: Array(item["name"], item["binding"] if item.get("is_direct") else None)
        for item in items
    }
