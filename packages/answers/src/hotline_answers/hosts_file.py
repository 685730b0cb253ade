"""The table [hosts] as TOML, which `hotline_simulator.config.load_hosts` and `hotline simulate` read.

Its `sources` say what disturbed the blocks in which the costs were measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hotline_simulator.costs import HostCosts


def hosts_text(hosts: HostCosts, comments: Sequence[str] = ()) -> str:
    costs = hosts.model_dump(mode="json", exclude_none=True, exclude={"sources"})
    lines = [f"# {comment}\n" for comment in comments] + ["[hosts]\n", *_toml_lines(costs)]
    for blocks in hosts.sources:
        lines += ["\n[[hosts.sources]]\n", *_toml_lines(blocks.model_dump(mode="json"))]
    return "".join(lines)


def _toml_lines(values: Mapping[str, object]) -> list[str]:
    return [f"{name} = {_toml_value(value)}\n" for name, value in values.items()]


def _toml_value(value: object) -> str:
    if isinstance(value, str | bool):
        return json.dumps(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {_toml_value(each)}' for key, each in value.items())}}}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
