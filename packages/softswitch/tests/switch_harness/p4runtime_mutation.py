"""Mutations of P4Runtime messages that keep their structure: fields, repeated elements, oneofs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

INTEGERS = (0, 1, 2, 3, -1, 4, 5, 8, 9, 20, 21, 255, 256, 511, 512, 65535, 65536, (1 << 31) - 1, 1 << 31,
            (1 << 32) - 1, (1 << 63) - 1, -(1 << 31), -(1 << 63))  # fmt: skip
BYTES = (b"", b"\0", b"\1", b"\2", b"\0\1", b"\1\xff", b"\2\0", b"\xff" * 2, b"\x80" + bytes(5), b"\xff" * 6,
         b"\xff" * 7, b"a")  # fmt: skip
MAX_REPEATED = 40
_INTEGER_LIMITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
    FieldDescriptor.CPPTYPE_ENUM: (0, 8),
}


class Mutator:
    """Mutates messages; `others` are messages from which parts are taken."""

    def __init__(self, random: Random, others: Sequence[Message] = ()) -> None:
        self._random = random
        self._others = others

    def mutate(self, message: Message) -> None:
        """Change a message in one to three places."""
        for _ in range(self._random.choice((1, 1, 2, 3))):
            target = self._random.choice(list(_parts(message)))
            self._random.choice(self._changes(target))(target)

    def _changes(self, message: Message) -> list[Callable[[Message], None]]:
        changes: list[Callable[[Message], None]] = [self._set_a_field, self._set_a_field]
        if message.ListFields():
            changes += [self._change_a_field] * 4 + [self._clear_a_field]
        if any(type(part) is type(message) for other in self._others for part in _parts(other)):
            changes.append(self._copy_another)
        return changes

    def _set_a_field(self, message: Message) -> None:
        """Set any field of the type, also one that excludes another."""
        fields: Any = message.DESCRIPTOR.fields  # the type hints have only `object`
        self._set(message, self._random.choice(fields))

    def _change_a_field(self, message: Message) -> None:
        self._set(message, self._random.choice(_fields(message)))

    def _clear_a_field(self, message: Message) -> None:
        message.ClearField(self._random.choice(message.ListFields())[0].name)

    def _copy_another(self, message: Message) -> None:
        parts = [part for other in self._others for part in _parts(other) if type(part) is type(message)]
        message.CopyFrom(self._random.choice(parts))

    def _set(self, message: Message, field: FieldDescriptor) -> None:
        value: Any = getattr(message, field.name)
        if field.is_repeated:
            self._change_repeated(value, field)
        elif field.message_type is not None:
            value.SetInParent()
        else:
            setattr(message, field.name, self._scalar(field, value))

    def _change_repeated(self, values: Any, field: FieldDescriptor) -> None:
        random, count = self._random, len(values)
        kind = random.randrange(4) if count else 0
        if kind == 0 and count < MAX_REPEATED:
            if field.message_type is not None:
                values.add()
            else:
                values.append(self._scalar(field, None))
        elif kind == 1 and count < MAX_REPEATED:
            values.append(values[random.randrange(count)])
        elif kind == 2:
            del values[random.randrange(count)]
        elif count:
            values.reverse()

    def _scalar(self, field: FieldDescriptor, old: Any) -> Any:
        random, kind = self._random, field.cpp_type
        if kind == FieldDescriptor.CPPTYPE_BOOL:
            return not old
        if field.type == FieldDescriptor.TYPE_BYTES:
            changed = [b"\0" + old, old[:-1], old + b"\1"] if old else []
            return random.choice([*BYTES, *changed])
        if kind == FieldDescriptor.CPPTYPE_STRING:
            return random.choice(["", "a", "1"])
        low, high = _INTEGER_LIMITS[kind]
        near = [] if old is None else [old - 1, old + 1]
        return random.choice([value for value in (*INTEGERS, *near) if low <= value <= high])


def _fields(message: Message) -> list[FieldDescriptor]:
    return [field for field, _ in message.ListFields()]


def _parts(message: Message) -> list[Message]:
    """Return a message and all messages in it."""
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                found += _parts(part)
    return found
