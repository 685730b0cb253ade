"""The name of a switch of the run on this machine, if the run has several."""

from __future__ import annotations

from experiment.members import FILE, read_switch_name


def switch_name(address: str) -> str:
    """Return the name of the switch at an address; "" if no run on this machine has named it."""
    from topologies.lock_record import find_running_folder

    folder = find_running_folder()
    return "" if folder is None else read_switch_name(folder / "logs" / FILE, address)


def named_switch(address: str, name: str) -> str:
    """Return the address of a switch, with its name if it has one."""
    return f"{address} ({name})" if name else address
