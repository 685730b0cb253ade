"""What the P4 program and its artefacts say, to hold Python's copies against."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from finsy.proto import p4i
from google.protobuf import text_format

P4SRC = Path(__file__).parents[2] / "p4src" / "hotset"
_CONSTANT = re.compile(r"(#define|const \S+) +(\w+) +=? *([^;]+)")


def _definitions(given: Mapping[str, int]) -> list[tuple[str, str, int]]:
    """Type (or #define), name and value of what p4src/hotset/constants.p4 defines; some are given."""
    known: dict[str, int] = {}
    found = []
    for line in (P4SRC / "constants.p4").read_text().splitlines():
        if definition := _CONSTANT.match(line.partition("//")[0]):
            kind, name, value = definition.groups()
            known[name] = given.get(name, eval(value.replace("/", "//"), {}, known))
            found.append((kind.removeprefix("const "), name, known[name]))
    return found


def constants(**given: int) -> dict[str, int]:
    """All of them by name, where some are given other values."""
    return {name: value for _, name, value in _definitions(given)}


def family(prefix: str, kind: str) -> dict[int, str]:
    """The constants of a type and prefix, number -> what is behind the prefix, in small letters."""
    return {
        value: name.removeprefix(prefix).lower()
        for its_kind, name, value in _definitions({})
        if its_kind == kind and name.startswith(prefix)
    }


def bmv2() -> dict[str, Any]:
    """The program as p4c compiled it."""
    return dict(json.loads((P4SRC.parent / "compiled" / "hotset.json").read_text()))


def header_fields(header_type: str) -> dict[str, int]:
    """The fields of a header type in wire order, with their widths in bits."""
    [found] = [each for each in bmv2()["header_types"] if each["name"] == header_type]
    return {name: width for name, width, _ in found["fields"]}


def p4info() -> p4i.P4Info:
    """Its P4Info."""
    return text_format.Parse((P4SRC.parent / "compiled" / "hotset.p4info.txtpb").read_text(), p4i.P4Info())
