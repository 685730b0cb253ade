"""The table [hosts] as TOML, which `simulator.config.load_hosts` and `hotline simulate` read."""

from __future__ import annotations

import json
from collections.abc import Sequence

from simulator.costs import HostCosts


def hosts_text(hosts: HostCosts, comments: Sequence[str] = ()) -> str:
    costs = hosts.model_dump(mode="json", exclude_none=True)
    lines = [f"{name} = {_toml_value(value)}\n" for name, value in costs.items()]
    return "".join(f"# {comment}\n" for comment in comments) + "[hosts]\n" + "".join(lines)


def _toml_value(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
