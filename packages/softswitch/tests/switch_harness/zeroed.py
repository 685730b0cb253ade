"""BMv2 JSON whose parser begins with setting all fields of headers to 0.

In BMv2 fields of invalid headers otherwise hold what an earlier packet left; in softswitch they are 0 anyway.
Copies of a packet, which are not parsed, may still find such remains.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

_STATE = "zeroed"


def zeroed(program: Path, folder: Path) -> Path:
    """Write the program of a path without suffix, and its P4Info, into the folder; return the new path."""
    made = folder / f"{program.name}-{_STATE}"
    loaded = json.loads(program.with_suffix(".json").read_text())
    zero_headers(loaded)
    made.with_suffix(".json").write_text(json.dumps(loaded))
    shutil.copy(program.with_suffix(".p4info.txtpb"), made.with_suffix(".p4info.txtpb"))
    return made


def zero_headers(program: dict[str, Any]) -> None:
    """Put a state before the parser's first one, which may be entered again."""
    types = {each["name"]: each["fields"] for each in program["header_types"]}
    operations = [
        _set(header["name"], name, width)
        for header in program["headers"]
        if not header["metadata"]
        for name, width, *_ in types[header["header_type"]]
        if width != "*"
    ]
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


def _set(header: str, field: str, width: int) -> dict[str, Any]:
    zero = f"0x{0:0{(width + 7) // 8 * 2}x}"
    target, value = {"type": "field", "value": [header, field]}, {"type": "hexstr", "value": zero}
    return {"op": "set", "parameters": [target, value]}
