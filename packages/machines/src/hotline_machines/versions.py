"""Compare the versions of machines before anything is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hotline_machines.errors import MachinesError

RUNNER = "this machine"
"""Name of the machine of `hotline run`."""
_MAY_DIFFER = frozenset({"kernel"})


def check_versions(versions: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return remarks on versions that may differ; raise `MachinesError` for those that must not.

    `versions` are by machine; those of `RUNNER` are what the others are compared with, or else the most
    frequent ones.
    """
    remarks = []
    for name in next(iter(versions.values())):
        found = {machine: each.get(name, "none") for machine, each in versions.items()}
        expected = found.get(RUNNER) or Counter(found.values()).most_common(1)[0][0]
        others = {machine: each for machine, each in found.items() if each != expected}
        if not others:
            continue
        listed = ", ".join(f"{each} on {machine}" for machine, each in sorted(others.items()))
        if name not in _MAY_DIFFER:
            raise MachinesError(
                f"{name}: expected {expected} on all machines, as on {_holder(found, expected)}, found "
                f"{listed}"
            )
        remarks.append(f"{name}: {expected} on {_holder(found, expected)}, and {listed}")
    return remarks


def _holder(found: Mapping[str, str], version: str) -> str:
    """Return the first machine with a version; the runner's comes first."""
    holders = [machine for machine, each in found.items() if each == version]
    return RUNNER if RUNNER in holders else holders[0]
