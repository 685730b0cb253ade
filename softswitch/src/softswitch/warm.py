"""Compile the switch's own code before its first start, which then takes a second; numba caches it on disk.

Set-up calls `python -m softswitch.warm`. A program's packet function is compiled when it is first loaded.
"""

from __future__ import annotations

from pathlib import Path

from softswitch import ir
from softswitch.memory.layout import make_layout
from softswitch.p4runtime.plain.warm import warm as warm_plain_writes
from softswitch.ports import forwarding
from softswitch.ports.loop import PortLoop
from softswitch.state.entries import Entries
from softswitch.state.memory import Memory


def warm() -> None:
    """Create a port loop and tables, which compiles their code."""
    with PortLoop({}, cpu_port=1):
        pass
    warm_tables()


def is_cold() -> bool:
    """Return whether the port loop has not been compiled yet."""
    return not any(Path(forwarding.run.stats.cache_path).glob("*.nbi"))  # type: ignore[attr-defined]  # numba's


def warm_tables() -> None:
    """Create the tables of an empty program, which loads the code of all tables into memory."""
    nothing = ir.Program(
        headers=(),
        stacks=(),
        errors={},
        parser=(),
        start_state=0,
        actions=(),
        ingress=ir.Control("ingress", None, {}),
        egress=ir.Control("egress", None, {}),
        deparser=(),
        field_index={},
    )
    layout = make_layout(nothing)
    Entries(nothing, layout, Memory(layout.work * 8), [])
    warm_plain_writes()


if __name__ == "__main__":
    warm()
