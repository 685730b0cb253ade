"""IDs and aliases of the objects of a program in its P4Info (P4Runtime 1.4, §6.3), as p4c gives them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from enum import IntEnum

from softswitch.p4 import tree
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.p4info_annotations import one_integer

_TYPE_SHIFT = 24
_NAME_BITS = (1 << _TYPE_SHIFT) - 1
_WORD = (1 << 32) - 1


class ObjectType(IntEnum):
    """The first byte of an ID."""

    ACTION = 0x01
    TABLE = 0x02
    VALUE_SET = 0x03
    CONTROLLER_HEADER = 0x04
    PROFILE = 0x11
    COUNTER = 0x12
    DIRECT_COUNTER = 0x13
    METER = 0x14
    DIRECT_METER = 0x15
    REGISTER = 0x16
    DIGEST = 0x17


def name_hash(name: str) -> int:
    """Return Jenkins's one-at-a-time hash of a name."""
    total = 0
    for byte in name.encode():
        total = (total + byte) & _WORD
        total = (total + (total << 10)) & _WORD
        total ^= total >> 6
    total = (total + (total << 3)) & _WORD
    total ^= total >> 11
    return (total + (total << 15)) & _WORD


def given_id(annotations: Sequence[tree.Annotation]) -> int | None:
    """Return the number of `@id`, or None if there is no such annotation."""
    found = next((each for each in annotations if each.name == "id"), None)
    return one_integer(found) if found is not None else None


class Symbols:
    """The names of all objects, whose IDs and aliases are known once all of them are added."""

    def __init__(self) -> None:
        self._ids: defaultdict[ObjectType, dict[str, int | None]] = defaultdict(dict)
        self._used: set[int] = set()
        self._suffixes: Counter[tuple[str, ...]] = Counter()
        self._names: set[str] = set()

    def add(self, kind: ObjectType, name: str, annotations: Sequence[tree.Annotation] = ()) -> None:
        if name in self._ids[kind]:
            return
        self._ids[kind][name] = self._chosen(kind, annotations)
        if name not in self._names:
            self._names.add(name)
            parts = tuple(name.split("."))
            self._suffixes.update(parts[i:] for i in range(len(parts)))

    def _chosen(self, kind: ObjectType, annotations: Sequence[tree.Annotation]) -> int | None:
        number = given_id(annotations)
        if number is None:
            return None
        position = next(each.position for each in annotations if each.name == "id")
        if number > _WORD or number >> _TYPE_SHIFT not in (0, kind):
            raise SourceError(
                position, f"expected an `@id` that begins with {kind.value:#04x}, got {number:#x}"
            )
        number |= kind << _TYPE_SHIFT
        if number in self._used:
            raise SourceError(position, f"expected an `@id` that no other object has, got {number:#x} again")
        self._used.add(number)
        return number

    def assign(self) -> None:
        """Give an ID to each name without one; names are sorted, since the first of equal hashes keeps it."""
        for kind in sorted(self._ids):
            ids = self._ids[kind]
            for name in sorted(name for name, number in ids.items() if number is None):
                number = name_hash(name)
                while (candidate := kind << _TYPE_SHIFT | number & _NAME_BITS) in self._used:
                    number += 1
                self._used.add(candidate)
                ids[name] = candidate

    def id(self, kind: ObjectType, name: str) -> int:
        number = self._ids[kind][name]
        assert number is not None, "IDs are assigned before they are asked for"
        return number

    def alias(self, name: str) -> str:
        """Return the shortest end of a name, in whole parts, that no other name has."""
        parts = tuple(name.split("."))
        for i in range(len(parts) - 1, -1, -1):
            if self._suffixes[parts[i:]] < 2:
                return ".".join(parts[i:])
        return name
