"""Parts of JSON files that users write; an error names the file and the place, and says what is expected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from softswitch.errors import SwitchError
from softswitch.files import read_file


class JsonPart:
    """A value in a JSON file, at a place such as `links[3]`."""

    def __init__(self, value: Any, file: Path, place: str = "") -> None:  # any JSON
        self.value, self._file, self._place = value, file, place

    def error(self, expected: str) -> SwitchError:
        shown = json.dumps(self.value)
        shown = shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + "…"
        return SwitchError(f"{self._file}: {self._place or 'the file'}: expected {expected}, got {shown}")

    def refused(self, error: SwitchError) -> SwitchError:
        """Return the error of a call that this value was the reason of, with its place."""
        return SwitchError(f"{self._file}: {self._place or 'the file'}: {error}")

    def __contains__(self, name: str) -> bool:
        return isinstance(self.value, dict) and name in self.value

    def get(self, name: str) -> JsonPart | None:
        """Return a member of an object, or None."""
        return self[name] if name in self.object() else None

    def __getitem__(self, name: str) -> JsonPart:
        members = self.object()
        if name not in members:
            raise self.error(f"an object with {name!r}")
        return JsonPart(members[name], self._file, f"{self._place}.{name}" if self._place else name)

    def object(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.error("an object")
        return self.value

    def members(self) -> Iterator[tuple[str, JsonPart]]:
        for name in self.object():
            yield name, self[name]

    def items(self) -> list[JsonPart]:
        if not isinstance(self.value, list):
            raise self.error("a list")
        return [JsonPart(item, self._file, f"{self._place}[{k}]") for k, item in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.error("a string")
        return self.value

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise self.error("a number")
        return self.value

    def integer(self) -> int:
        """Return a whole number, which may be written as a string, as "510" or "0x1fe"."""
        try:
            if isinstance(self.value, (int, str)) and not isinstance(self.value, bool):
                return int(self.value, 0) if isinstance(self.value, str) else self.value
        except ValueError:
            pass
        raise self.error("a whole number")


_MAX_SHOWN = 60


def read_json(file: Path) -> JsonPart:
    try:
        return JsonPart(json.loads(read_file(file)), file)
    except (ValueError, RecursionError) as error:
        raise SwitchError(f"{file}: expected JSON: {error}") from None
