"""BMv2 JSON whose parser begins with storing values to what is uninitialised.

In BMv2 fields of invalid headers otherwise hold what an earlier packet left; in softswitch they are 0 anyway.
Copies of a packet, which are not parsed, may still find such remains. A program that does other things with
another fill reads what is undefined.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from softswitch.ir.names import SCALARS

_STATE = "filled"
_BYTE = 0x55
"""Each byte of fields that are not filled with 0; a field of one bit becomes 1."""


def zeroed(program: Path, folder: Path) -> Path:
    """Write the program of a path without suffix, and its P4Info, into the folder; return the new path."""
    loaded = json.loads(program.with_suffix(".json").read_text())
    zero_headers(loaded)
    return _write(loaded, program, folder / f"{program.name}-zeroed")


def filled(program: Path, folder: Path, metadata: str) -> Path:
    """Do so for a program of our compiler, with a fill other than 0 of headers and of variables.

    Fields that begin with the name of the program's `metadata` are left alone: BMv2 begins with 0 there.
    """
    loaded = json.loads(program.with_suffix(".json").read_text())
    types = {each["name"]: each["fields"] for each in loaded["header_types"]}
    variables = [
        (SCALARS, name, width)
        for name, width, *_ in types.get(SCALARS, [])
        if not name.startswith(f"{metadata}.")
    ]
    _fill(loaded, [*_header_fields(loaded), *variables], _BYTE)
    return _write(loaded, program, folder / f"{program.name}-filled")


def zero_headers(program: dict[str, Any]) -> None:
    """Put a state before the parser's first one, which may be entered again."""
    _fill(program, _header_fields(program), 0)


def _write(loaded: dict[str, Any], program: Path, made: Path) -> Path:
    made.with_suffix(".json").write_text(json.dumps(loaded))
    shutil.copy(program.with_suffix(".p4info.txtpb"), made.with_suffix(".p4info.txtpb"))
    return made


def _header_fields(program: dict[str, Any]) -> list[tuple[str, str, int]]:
    """Return the header, the name and the width of each field of a header."""
    types = {each["name"]: each["fields"] for each in program["header_types"]}
    return [
        (header["name"], name, width)
        for header in program["headers"]
        if not header["metadata"]
        for name, width, *_ in types[header["header_type"]]
        if width != "*"
    ]


def _fill(program: dict[str, Any], fields: list[tuple[str, str, int]], byte: int) -> None:
    operations = [_set(*field, byte) for field in fields]
    for parser in program["parsers"]:
        states = parser["parse_states"]
        onwards = {"type": "default", "value": None, "mask": None, "next_state": parser["init_state"]}
        states.append(
            {
                "name": _STATE,
                "id": max(state["id"] for state in states) + 1,
                "parser_ops": operations,
                "transitions": [onwards],
                "transition_key": [],
            }
        )
        parser["init_state"] = _STATE


def _set(header: str, field: str, width: int, byte: int) -> dict[str, Any]:
    count = (width + 7) // 8
    number = int.from_bytes([byte] * count, "big") & ((1 << width) - 1)
    target = {"type": "field", "value": [header, field]}
    return {"op": "set", "parameters": [target, {"type": "hexstr", "value": f"0x{number:0{count * 2}x}"}]}
